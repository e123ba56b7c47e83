"""Zero offsets of a hand's joints, one file per serial number.

The angle that a hand reports is the joint angle plus a constant offset of its encoder.
``dexstack calibrate hand`` measures it, the driver subtracts it. With the servo off a person moves
every joint from one stop to the other: the lower stop gives the offset, the upper one, which is
held out, checks it and the encoder's scale.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from dexstack.errors import ConfigError
from dexstack.hand.allegro.protocol import JOINTS
from dexstack.model.description import number_list, read_yaml, write_yaml

LARGEST = 0.35
"""Largest plausible offset [rad]."""
HELD_OUT = np.radians(2.0)
"""Largest error of the upper stop [rad]."""
SMOOTH = 5
"""Window of the median filter."""


class StopSweep:
    """Extreme angles of joints that are moved from stop to stop.

    Args:
        lower, upper: joint limits, which are the stops (n,) [rad].
    """

    def __init__(self, lower: np.ndarray, upper: np.ndarray) -> None:
        self._lower, self._upper = lower, upper
        self._recent: list[np.ndarray] = []
        self.least, self.largest = np.full(lower.size, np.inf), np.full(lower.size, -np.inf)

    def add(self, q: np.ndarray) -> None:
        """Add one measurement (n,) [rad], without offset correction."""
        self._recent = [*self._recent[1 - SMOOTH :], q]
        if len(self._recent) == SMOOTH:
            middle = np.median(self._recent, axis=0)
            np.minimum(self.least, middle, out=self.least)
            np.maximum(self.largest, middle, out=self.largest)

    @property
    def offsets(self) -> np.ndarray:
        """Offsets (n,) from the lower stops [rad]."""
        return self.least - self._lower

    @property
    def errors(self) -> np.ndarray:
        """Errors (n,) of the upper stops with these offsets [rad]."""
        return self.largest - self.offsets - self._upper

    @property
    def complete(self) -> bool:
        """True if every upper stop is where it should be."""
        return bool(np.all(np.abs(self.errors) <= HELD_OUT))


def calibration_file(folder: str | Path, serial: str) -> Path:
    """Return the file with the offsets of a hand; an empty ``folder`` means the user's
    configuration."""
    if not folder:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "dexstack" / "hands"
    return Path(folder) / f"{re.sub(r'[^A-Za-z0-9_-]', '_', serial)}.yaml"


def load_offsets(folder: str | Path, serial: str) -> np.ndarray:
    """Return the offsets (16,) [rad]; zeros for a hand that was never calibrated.

    Raises:
        ConfigError: invalid file.
    """
    path = calibration_file(folder, serial)
    if not path.is_file():
        return np.zeros(JOINTS)
    document = read_yaml(path, ("serial", "zero_offsets"), ("measured", "held_out"))
    if document["serial"] != serial:
        raise ConfigError(f"{path} belongs to the hand '{document['serial']}', not to '{serial}'")
    offsets = number_list(path, "zero_offsets", document["zero_offsets"], JOINTS)
    if np.abs(offsets).max() > LARGEST:
        raise ConfigError(
            f"{path} has an offset of {np.abs(offsets).max():.3g} rad, at most {LARGEST} rad is plausible"
        )
    return offsets


def save_offsets(
    folder: str | Path, serial: str, offsets: np.ndarray, *, measured: str, held_out: float
) -> Path:
    """Write the offsets (16,) [rad] and the largest error of the upper stops [rad]; return the
    path.

    Raises:
        ConfigError: implausible offsets, or the file cannot be written.
    """
    number_list("zero offsets", "zero_offsets", offsets, JOINTS)
    worst = int(np.argmax(np.abs(offsets)))
    if abs(offsets[worst]) > LARGEST:
        raise ConfigError(
            f"joint {worst} would have an offset of {offsets[worst]:+.3f} rad: it was not at its lower stop"
        )
    path = calibration_file(folder, serial)
    zeros = [round(float(x), 6) for x in offsets]
    document = {
        "serial": serial,
        "measured": measured,
        "held_out": round(float(held_out), 6),
        "zero_offsets": zeros,
    }
    comment = "Zero offsets [rad]: joint angle = reported angle - offset. By dexstack calibrate hand."
    write_yaml(path, comment, document)
    return path
