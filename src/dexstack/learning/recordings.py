"""Reading of recordings: bags, and the arrays of ``dexstack up``, ``eval --record`` and ``learn
--record``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dexstack.bags.file import is_bag
from dexstack.errors import ConfigError


def read_recording(path: Path, joints: Sequence[str]) -> dict[str, np.ndarray]:
    """Read the arrays of one recording, see :data:`dexstack.learning.transitions.RECORDED`.

    Args:
        joints: the robot's joint names, in the order of the arrays.

    Raises:
        ConfigError: the file cannot be read; see :func:`dexstack.bags.samples.read_samples`.
    """
    if is_bag(path):
        from dexstack.bags.samples import read_samples

        return read_samples(path, joints)
    try:
        with np.load(path) as archive:
            return {name: archive[name] for name in archive.files if name != "summary"}
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the recording {path}: {error}") from None
