"""Zero offsets of a hand's joints, one file per serial number.

Encoders are never mounted exactly: the angle a hand reports is the joint angle plus an offset that
is its own for life (or until a motor is replaced). ``dexstack calibrate hand`` measures it, the
driver subtracts it. With the servo off a person moves every joint from one of its stops to the
other: the lower stop gives the offset, the upper one, which was held out, checks it and the
encoder's scale.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import yaml

from dexstack.errors import ConfigError
from dexstack.hand.allegro.protocol import JOINTS
from dexstack.model.description import number_list, read_yaml

LARGEST = 0.35
"""An offset beyond this [rad] is a mistake, not an encoder."""
HELD_OUT = np.radians(2.0)
"""Largest error of the upper stop that was not used [rad]."""
SMOOTH = 5
"""Measurements of which the middle one counts."""


class StopSweep:
    """What the joints reported while they were moved from stop to stop.

    Args:
        lower, upper: joint limits, which are the stops (n,) [rad].
    """

    def __init__(self, lower: np.ndarray, upper: np.ndarray) -> None:
        self._lower, self._upper = lower, upper
        self._recent: list[np.ndarray] = []
        self.least, self.largest = np.full(lower.size, np.inf), np.full(lower.size, -np.inf)

    def add(self, q: np.ndarray) -> None:
        """One measurement (n,) [rad] without any offset."""
        self._recent = [*self._recent[1 - SMOOTH :], q]
        if len(self._recent) == SMOOTH:
            middle = np.median(self._recent, axis=0)
            np.minimum(self.least, middle, out=self.least)
            np.maximum(self.largest, middle, out=self.largest)

    @property
    def offsets(self) -> np.ndarray:
        """(n,) from the lower stops [rad]."""
        return self.least - self._lower

    @property
    def errors(self) -> np.ndarray:
        """(n,) where the upper stops are, with these offsets, beside where they should be [rad]."""
        return self.largest - self.offsets - self._upper

    @property
    def complete(self) -> bool:
        """Whether every upper stop is where it should be."""
        return bool(np.all(np.abs(self.errors) <= HELD_OUT))


def calibration_file(folder: str | Path, serial: str) -> Path:
    """Where the offsets of the hand with this serial number are; an empty ``folder`` means the
    user's configuration."""
    if not folder:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "dexstack" / "hands"
    return Path(folder) / f"{re.sub(r'[^A-Za-z0-9_-]', '_', serial)}.yaml"


def load_offsets(folder: str | Path, serial: str) -> np.ndarray:
    """(16,) [rad]; zeros for a hand that was never calibrated.

    Raises:
        ConfigError: the file is not what :func:`save_offsets` writes.
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
            f"{path} has an offset of {np.abs(offsets).max():.3g} rad; more than {LARGEST} rad is not an encoder's offset"
        )
    return offsets


def save_offsets(
    folder: str | Path, serial: str, offsets: np.ndarray, *, measured: str, held_out: float
) -> Path:
    """Write the offsets (16,) [rad], and the largest error of what was not used for them [rad];
    where they went.

    Raises:
        ConfigError: they are implausible, or the file cannot be written.
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
    text = yaml.safe_dump(document, sort_keys=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(
            f"# Zero offsets [rad] of one hand: joint angle = reported angle - offset. Written by dexstack calibrate hand.\n{text}"
        )
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
    return path
