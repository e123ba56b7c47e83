"""Zero offsets of a hand's joints, one file per serial number.

Encoders are never mounted exactly: the angle a hand reports is the joint angle plus an offset that is its own for life (or until a motor is
replaced). ``dexstack calibrate hand`` measures it, the driver subtracts it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import yaml

from dexstack.errors import ConfigError
from dexstack.hand.protocol import JOINTS
from dexstack.model.description import number_list, read_yaml

LARGEST = 0.35
"""An offset beyond this [rad] is a mistake, not an encoder."""


def calibration_file(folder: str | Path, serial: str) -> Path:
    """Where the offsets of the hand with this serial number are; an empty ``folder`` means the user's configuration."""
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
    document = read_yaml(path, ("serial", "zero_offsets"), ("measured", "pose"))
    if document["serial"] != serial:
        raise ConfigError(f"{path} belongs to the hand '{document['serial']}', not to '{serial}'")
    offsets = number_list(path, "zero_offsets", document["zero_offsets"], JOINTS)
    if np.abs(offsets).max() > LARGEST:
        raise ConfigError(f"{path} has an offset of {np.abs(offsets).max():.3g} rad; more than {LARGEST} rad is not an encoder's offset")
    return offsets


def save_offsets(folder: str | Path, serial: str, offsets: np.ndarray, *, measured: str, pose: str) -> Path:
    """Write the offsets (16,) [rad]; where they went.

    Raises:
        ConfigError: they are implausible, or the file cannot be written.
    """
    number_list("zero offsets", "zero_offsets", offsets, JOINTS)
    worst = int(np.argmax(np.abs(offsets)))
    if abs(offsets[worst]) > LARGEST:
        raise ConfigError(f"joint {worst} is {offsets[worst]:+.3f} rad from the pose '{pose}': the hand was not in that pose")
    path = calibration_file(folder, serial)
    text = yaml.safe_dump(
        {"serial": serial, "measured": measured, "pose": pose, "zero_offsets": [round(float(x), 6) for x in offsets]}, sort_keys=False
    )
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
