"""A film of hand and object with its ground truth, in a folder."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from dexstack.model.objects import load_object
from dexstack.perception.bundle import object_bundle
from dexstack.perception.camera_params import SimulatedCameraParams
from dexstack.process.compilation import use_compilation_cache

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
    """(n,) bool, object hidden."""
    K: np.ndarray
    """(3, 3) intrinsics of a camera without distortion [px]."""
    pictures: np.ndarray
    """(n, height, width) uint8 grey, memory-mapped."""

    def __len__(self) -> int:
        return len(self.t)


def shoot(folder: Path, seconds: float, noise: float, share: float, seed: int) -> None:
    """Film the closed loop that turns the cube into ``folder``.

    Args:
        folder: an empty folder.
        seconds: length of the simulated motion [s].
        noise: standard deviation of the pixel noise, of 255.
        share: share of the time in which the cube is hidden.
        seed: seed of start pose, noise and occlusions.
    """
    from tests.acceptance.tracking import film, manipulation, occlusions  # loads JAX

    cv2.setNumThreads(1)
    use_compilation_cache()
    params = SimulatedCameraParams(pixel_noise=noise)
    motion = manipulation(seconds, seed)
    n = int((motion.t[-1] - motion.t[0] - 0.1) * params.frame_rate)
    hidden = occlusions(n, params.frame_rate, share, np.random.default_rng(seed))
    t = motion.t[0] + 0.05 + np.arange(n) / params.frame_rate
    q = np.array([motion.at(x)[0] for x in t])
    pose_WO = np.empty((n, 7))
    size = (n, params.image_height, params.image_width)
    pictures = np.lib.format.open_memmap(folder / _PICTURES, "w+", np.uint8, size)
    for k, (_, grey, pose) in enumerate(
        film(motion, load_object("cube"), object_bundle("cube"), params, hidden, seed)
    ):
        pictures[k], pose_WO[k] = grey, pose
    pictures.flush()
    np.savez(folder / _TRUTH, t=t, q=q, pose_WO=pose_WO, hidden=hidden, K=params.camera.K)


def shoot_apart(folder: Path, *arguments: Any) -> Film:
    """Run :func:`shoot` in another process, so that JAX and its threads stay out of this one, which
    starts nodes; read the film."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        pool.submit(shoot, folder, *arguments).result()
    return read_film(folder)


def read_film(folder: Path) -> Film:
    """Open the film in a folder."""
    with np.load(folder / _TRUTH) as truth:
        return Film(**truth, pictures=np.load(folder / _PICTURES, mmap_mode="r"))
