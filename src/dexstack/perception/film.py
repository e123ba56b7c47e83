"""A film with ground truth in a folder: pictures of hand and object, and the states of both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dexstack.errors import ConfigError

_TRUTH, _PICTURES = "truth.npz", "pictures.npy"


@dataclass(frozen=True)
class Film:
    """``n`` pictures at a constant rate."""

    t: np.ndarray
    """(n,) [s]"""
    q: np.ndarray
    """(n, 16) joint angles [rad]."""
    pose_WO: np.ndarray
    """(n, 7) true poses of the object."""
    hidden: np.ndarray
    """(n,) bool: the view is blocked."""
    K: np.ndarray
    """(3, 3) intrinsics of a camera without distortion [px]."""
    pictures: np.ndarray
    """(n, height, width) uint8 grey, memory-mapped."""

    def __len__(self) -> int:
        return len(self.t)


def write_film(
    folder: Path,
    shots: Iterator[tuple[float, np.ndarray, np.ndarray]],
    q: np.ndarray,
    hidden: np.ndarray,
    K: np.ndarray,
    size: tuple[int, int],
) -> None:
    """Write the ``len(hidden)`` pictures of ``size`` (height, width) that ``shots`` yields as (time,
    grey picture, true pose).

    Raises:
        ConfigError: the folder cannot be written.
    """
    n = len(hidden)
    t, pose_WO = np.empty(n), np.empty((n, 7))
    try:
        pictures = np.lib.format.open_memmap(folder / _PICTURES, "w+", np.uint8, (n, *size))
        for k, shot in enumerate(shots):
            t[k], pictures[k], pose_WO[k] = shot
        pictures.flush()
        np.savez(folder / _TRUTH, t=t, q=q, pose_WO=pose_WO, hidden=hidden, K=K)
    except OSError as error:
        raise ConfigError(
            f"cannot write a film of {n * size[0] * size[1] / 1e6:.0f} MB into {folder}: {error.strerror}"
        ) from None


def read_film(folder: Path) -> Film:
    """Open a film.

    Raises:
        ConfigError: the folder contains no film.
    """
    try:
        pictures = np.load(folder / _PICTURES, mmap_mode="r")
        with np.load(folder / _TRUTH) as truth:
            return Film(**truth, pictures=pictures)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"there is no film in {folder}: {error}") from None
