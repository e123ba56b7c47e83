"""A film of the hand that turns an object, and what an estimator that follows it is worth: against
the truth, pose by pose."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import cv2
import numpy as np

from dexstack.graph.settings import Spec
from dexstack.model.hand import load_hand
from dexstack.model.objects import ObjectModel
from dexstack.perception.bundle import TagBundle
from dexstack.perception.camera_params import MOUNT, SimulatedCameraParams
from dexstack.perception.se3 import Transform, between, difference
from dexstack.perception.simulated import SimulatedCamera
from dexstack.trials.sweep import loop_of

CHI2_95 = 12.592
"""95 % bound of χ² with 6 degrees of freedom."""
JUMP = (0.005, math.radians(5.0))
"""A change between two pictures by more than this [m, rad] that ends farther than this from the
truth is a wrong jump."""
LONGEST = 0.3
"""Longest occlusion [s]."""


class Errors(NamedTuple):
    """Of n poses."""

    shift: np.ndarray
    """(n,) [m]"""
    turn: np.ndarray
    """(n,) [rad]"""
    nees: np.ndarray
    """(n,) errors squared in units of the covariance they came with; 6 on average where that is
    right."""


def errors_of(rows: list[tuple[np.ndarray, np.ndarray]]) -> Errors:
    """Of errors (6,) and the covariances (6, 6) that they came with."""
    d = np.array([row[0] for row in rows]).reshape(-1, 6)
    nees = np.array([e @ np.linalg.solve(P, e) for e, P in rows])
    return Errors(np.linalg.norm(d[:, :3], axis=1), np.linalg.norm(d[:, 3:], axis=1), nees)


class Motion(NamedTuple):
    """Hand and object over time."""

    t: np.ndarray
    q: np.ndarray
    """(n, 16) or (n, 0)"""
    pose_WO: np.ndarray
    """(n, 7)"""

    def at(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Joint angles and pose between two samples."""
        k = int(np.clip(np.searchsorted(self.t, t, side="right") - 1, 0, len(self.t) - 2))
        s = float(np.clip((t - self.t[k]) / (self.t[k + 1] - self.t[k]), 0.0, 1.0))
        a, b = Transform.of_pose(self.pose_WO[k]), Transform.of_pose(self.pose_WO[k + 1])
        return self.q[k] + s * (self.q[k + 1] - self.q[k]), between(a, b, s).pose


def manipulation(seconds: float, seed: int) -> Motion:
    """The closed loop that turns the cube on and on: the motion that the estimator is for."""
    r = loop_of(Spec("continuous")).run(0, seed, seconds).recording
    return Motion(r["t"], r["q"], r["pose_WO"])


class TrackingResult(NamedTuple):
    """Of a film with occlusions."""

    seen: Errors
    predicted: Errors
    """While nothing was seen."""
    frames: int
    occluded: int
    lost: int
    """Pictures without a pose."""
    wrong_jumps: int
    seconds: np.ndarray
    """(n,) time per picture [s]."""


def judge(
    poses: Iterable[tuple[Transform, np.ndarray, bool] | None],
    truth: np.ndarray,
    hidden: np.ndarray,
    seconds: np.ndarray,
) -> TrackingResult:
    """Compare one outcome per picture with the true poses (n, 7).

    Args:
        poses: (pose, covariance (6, 6), whether the object was seen), or None where there was no
            pose.
        hidden: (n,) bool; seconds: (n,) it took.
    """
    seen, predicted = [], []
    lost = jumps = 0
    last: Transform | None = None
    for found, pose_WO in zip(poses, truth, strict=True):
        if found is None:
            lost += 1
            last = None
            continue
        X, covariance, looked = found
        error = difference(X, Transform.of_pose(pose_WO))
        (seen if looked else predicted).append((error, covariance))
        jumps += last is not None and _beyond(difference(X, last)) and _beyond(error)
        last = X
    return TrackingResult(
        errors_of(seen), errors_of(predicted), len(truth), int(hidden.sum()), lost, jumps, seconds
    )


def occlusions(count: int, rate: float, share: float, rng: np.random.Generator) -> np.ndarray:
    """(count,) bool: spells of one picture up to :data:`LONGEST`, at random, that fill ``share`` of
    the time."""
    hidden = np.zeros(count, bool)
    longest = max(1, int(LONGEST * rate))
    k = 0
    while k < count:
        spell = int(rng.integers(1, longest + 1))
        k += 1 + round(rng.exponential((longest + 1) / 2 * (1 - share) / share - 1))
        hidden[k : k + spell] = True
        k += spell
    return hidden


def film(
    motion: Motion,
    obj: ObjectModel,
    bundle: TagBundle,
    params: SimulatedCameraParams,
    hidden: np.ndarray,
    seed: int,
) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """(time, grey picture, true pose) of every frame; where ``hidden``, something else fills the
    view."""
    hand = load_hand() if motion.q.shape[1] else None
    camera = SimulatedCamera(hand, obj, bundle, params, MOUNT, seed=seed)
    wall = np.clip(
        np.random.default_rng(seed).normal(
            90.0, params.pixel_noise, (params.image_height, params.image_width)
        ),
        0,
        255,
    )
    half = params.exposure_time / 2
    for k, dark in enumerate(hidden):
        t = motion.t[0] + 0.05 + k / params.frame_rate
        if dark:
            grey = wall.astype(np.uint8)
        else:
            grey = cv2.cvtColor(
                camera.picture(*motion.at(t + half), before=motion.at(t - half)), cv2.COLOR_RGB2GRAY
            )
        yield t, grey, motion.at(t)[1]


def _beyond(way: np.ndarray) -> bool:
    return bool(np.linalg.norm(way[:3]) > JUMP[0] or np.linalg.norm(way[3:]) > JUMP[1])
