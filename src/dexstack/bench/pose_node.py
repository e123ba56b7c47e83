"""A film of the hand that turns the cube for the pose estimator node, and what the node made of
it."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from dexstack.bench.tracking import TrackingResult, film, judge, manipulation, occlusions
from dexstack.errors import ConfigError
from dexstack.model.objects import load_object
from dexstack.perception.bundle import object_bundle
from dexstack.perception.film import Film, read_film, write_film
from dexstack.perception.camera_params import SimulatedCameraParams
from dexstack.perception.se3 import Transform
from dexstack.process.compilation import use_compilation_cache


def shoot_apart(folder: Path, seconds: float, noise: float, share: float, seed: int) -> Film:
    """:func:`shoot` in a process of its own, so that this one, which starts nodes, neither holds
    JAX nor its threads."""
    process = multiprocessing.get_context("spawn").Process(
        target=shoot, args=(folder, seconds, noise, share, seed)
    )
    process.start()
    process.join()
    if process.exitcode:
        raise ConfigError(f"the film was not made: exit code {process.exitcode}")
    return read_film(folder)


def shoot(folder: Path, seconds: float, noise: float, share: float, seed: int, name: str = "cube") -> None:
    """Film ``seconds`` [s] of the closed loop that turns the object on and on, hidden for ``share``
    of the time, into ``folder``."""
    cv2.setNumThreads(1)
    use_compilation_cache()
    params = SimulatedCameraParams(pixel_noise=noise)
    motion = manipulation(seconds, seed)
    count = int((motion.t[-1] - motion.t[0] - 0.1) * params.frame_rate)
    hidden = occlusions(count, params.frame_rate, share, np.random.default_rng(seed))
    t = motion.t[0] + 0.05 + np.arange(count) / params.frame_rate
    q = np.array([motion.at(x)[0] for x in t])
    shots = film(motion, load_object(name), object_bundle(name), params, hidden, seed)
    write_film(folder, shots, q, hidden, params.camera.K, (params.image_height, params.image_width))


WARM_UP = 2.0
"""The beginning of the film that does not count [s]."""


class NodeResult(NamedTuple):
    """What came back over DDS."""

    tracking: TrackingResult
    """With the time from picture to pose [s], of the pictures that were answered."""
    late: np.ndarray
    """(n,) by how much later than due pictures were sent [s]."""
    dropped: int
    """Pictures, of the whole film, that the estimator never looked at."""
    unanswered: int
    """Pictures that showed the object and brought no pose."""
    rate: float
    """Poses per second."""
    solves: np.ndarray
    """(m, 2) processor and wall time of the planner's solves [s]."""


def judge_node(shown: Film, result: Path) -> NodeResult:
    """Compare what the film node kept with the film."""
    begin = shown.t[0] + WARM_UP
    on = shown.t >= begin
    with np.load(result) as data:
        pose, covariance, seconds, late = (data[k][on] for k in ("pose_WO", "covariance", "seconds", "late"))
        solves, processed = data["solves"], int(data["processed"])
    hidden, t = shown.hidden[on], shown.t[on]
    there = np.isfinite(pose[:, 0])
    poses = [
        (Transform.of_pose(pose[k]), covariance[k], not hidden[k]) if there[k] else None
        for k in range(len(pose))
    ]
    tracking = judge(poses, shown.pose_WO[on], hidden, seconds[there])
    return NodeResult(
        tracking,
        late,
        len(shown) - processed,
        int((~there & ~hidden).sum()),
        there.sum() / (t[-1] - t[0]),
        solves[solves[:, 0] >= begin, 1:],
    )
