"""Errors of an object tracker over a film of the hand turning the object, and their tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import cv2
import numpy as np

from dexstack.cli.output import table
from dexstack.graph.settings import Spec
from dexstack.model.hand import load_hand
from dexstack.model.objects import ObjectModel
from dexstack.perception.bundle import TagBundle
from dexstack.perception.camera_params import MOUNT, SimulatedCameraParams
from dexstack.perception.se3 import Transform, between, difference
from dexstack.perception.simulated import SimulatedCamera
from dexstack.report.statistics import times
from dexstack.trials.sweep import loop_of

CHI2_95 = 12.592
"""95 % quantile of χ² with 6 degrees of freedom."""
JUMP = (0.005, math.radians(5.0))
"""A change between two pictures beyond this [m, rad] that ends with an error beyond this is a wrong
jump."""
LONGEST = 0.3
"""Longest occlusion [s]."""


class Errors(NamedTuple):
    """Errors of n poses."""

    shift: np.ndarray
    """(n,) [m]"""
    turn: np.ndarray
    """(n,) [rad]"""
    nees: np.ndarray
    """(n,) normalised estimation error squared; 6 on average where the covariance is right."""


def errors_of(rows: list[tuple[np.ndarray, np.ndarray]]) -> Errors:
    """Compute norms from pairs of error (6,) and covariance (6, 6)."""
    d = np.array([row[0] for row in rows]).reshape(-1, 6)
    nees = np.array([e @ np.linalg.solve(P, e) for e, P in rows])
    return Errors(np.linalg.norm(d[:, :3], axis=1), np.linalg.norm(d[:, 3:], axis=1), nees)


class Motion(NamedTuple):
    """Motion of hand and object."""

    t: np.ndarray
    """(n,) [s]"""
    q: np.ndarray
    """(n, 16) joint angles [rad], or (n, 0) without a hand."""
    pose_WO: np.ndarray
    """(n, 7)"""

    def at(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Interpolate joint angles and pose at time ``t`` [s]."""
        k = int(np.clip(np.searchsorted(self.t, t, side="right") - 1, 0, len(self.t) - 2))
        s = float(np.clip((t - self.t[k]) / (self.t[k + 1] - self.t[k]), 0.0, 1.0))
        a, b = Transform.of_pose(self.pose_WO[k]), Transform.of_pose(self.pose_WO[k + 1])
        return self.q[k] + s * (self.q[k + 1] - self.q[k]), between(a, b, s).pose


def manipulation(seconds: float, seed: int) -> Motion:
    """Simulate the closed loop that keeps turning the cube, for ``seconds`` [s]."""
    r = loop_of(Spec("continuous")).run(0, seed, seconds).recording
    return Motion(r["t"], r["q"], r["pose_WO"])


class TrackingResult(NamedTuple):
    """Errors over a film with occlusions."""

    seen: Errors
    predicted: Errors
    """Poses while the object was hidden."""
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
    """Compare one outcome per picture with the truth.

    Args:
        poses: pose, covariance (6, 6) and whether the object was seen; None without a pose.
        truth: (n, 7) true poses.
        hidden: (n,) bool, object hidden.
        seconds: (n,) time per picture [s].
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
    """Draw random occlusions of one picture to :data:`LONGEST` that fill ``share`` of the time.

    Returns:
        (count,) bool.
    """
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
    """Yield (time [s], grey picture, true pose) of every frame; a hidden object leaves a wall."""
    hand = load_hand() if motion.q.shape[1] else None
    camera = SimulatedCamera(hand, obj, bundle, params, MOUNT, seed=seed)
    size = (params.image_height, params.image_width)
    wall = np.clip(np.random.default_rng(seed).normal(90.0, params.pixel_noise, size), 0, 255)
    half = params.exposure_time / 2
    for k, dark in enumerate(hidden):
        t = motion.t[0] + 0.05 + k / params.frame_rate
        if dark:
            grey = wall.astype(np.uint8)
        else:
            picture = camera.picture(*motion.at(t + half), before=motion.at(t - half))
            grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
        yield t, grey, motion.at(t)[1]


def _beyond(way: np.ndarray) -> bool:
    return bool(np.linalg.norm(way[:3]) > JUMP[0] or np.linalg.norm(way[3:]) > JUMP[1])


COLUMNS = ("", "n", "p50 [mm]", "p95 [mm]", "p50 [deg]", "p95 [deg]", "e²/σ²", "in 95 %")


def summary(e: Errors) -> dict[str, Any]:
    """Return percentiles of errors and consistency of the covariances, for the JSON object."""

    def percentiles(x: Any) -> dict[str, float | None]:
        if not len(x):
            return {"p50": None, "p95": None, "max": None, "n": 0}
        p50, p95 = np.percentile(x, [50, 95])
        return {"p50": float(p50), "p95": float(p95), "max": float(x.max()), "n": len(x)}

    n = len(e.nees)
    return {
        "position_error_m": percentiles(e.shift),
        "orientation_error_rad": percentiles(e.turn),
        "normalised_error": float(e.nees.mean()) if n else None,
        "within_bound": float((e.nees < CHI2_95).mean()) if n else None,
    }


def row(name: str, s: dict[str, Any]) -> list[Any]:
    """Return the row of a summary, with the columns :data:`COLUMNS`."""
    p, o = s["position_error_m"], s["orientation_error_rad"]
    if not p["n"]:
        return [name, 0, *[None] * 6]
    shift, turn = (
        (f"{1e3 * p[k]:.3f}" for k in ("p50", "p95")),
        (f"{math.degrees(o[k]):.3f}" for k in ("p50", "p95")),
    )
    return [name, p["n"], *shift, *turn, f"{s['normalised_error']:.1f}", f"{100 * s['within_bound']:.1f} %"]


def film_table(f: dict[str, Any]) -> Any:
    """Return the table of errors with the object seen and hidden."""
    return table("Film at 640x480", COLUMNS, [row("seen", f["seen"]), row("hidden", f["predicted"])])


def film_results(t: TrackingResult) -> dict[str, Any]:
    """Return the errors over a film, for the JSON object."""
    nees = np.concatenate([t.seen.nees, t.predicted.nees])
    return {
        "frames": t.frames,
        "hidden": t.occluded,
        "without_pose": t.lost,
        "wrong_jumps": t.wrong_jumps,
        "seen": summary(t.seen),
        "predicted": summary(t.predicted),
        "within_bound": float((nees < CHI2_95).mean()) if len(nees) else 0.0,
        "pose_s": times(t.seconds),
    }
