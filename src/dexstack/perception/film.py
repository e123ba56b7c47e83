"""A film with its truth, in a folder: what a camera saw of hand and object, and where both were."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dexstack.errors import ConfigError

_TRUTH, _PICTURES = "truth.npz", "pictures.npy"


@dataclass(frozen=True)
class Film:
    """``n`` pictures at one rate."""

    t: np.ndarray
    """(n,) [s]"""
    q: np.ndarray
    """(n, 16) joint angles [rad]."""
    pose_WO: np.ndarray
    """(n, 7) where the object truly was."""
    hidden: np.ndarray
    """(n,) bool: something else fills the view."""
    K: np.ndarray
    """(3, 3) intrinsics of a camera without distortion [px]."""
    pictures: np.ndarray
    """(n, height, width) uint8 grey; in the file, not in memory."""

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
    """Keep what ``shots`` yields, (time, grey picture, true pose) of each of the ``len(hidden)``
    pictures of ``size`` (height, width).

    Raises:
        ConfigError: there is no room for it.
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
        ConfigError: there is none.
    """
    try:
        pictures = np.load(folder / _PICTURES, mmap_mode="r")
        with np.load(folder / _TRUTH) as truth:
            return Film(**truth, pictures=pictures)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"there is no film in {folder}: {error}") from None
