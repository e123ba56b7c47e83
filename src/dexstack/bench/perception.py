"""Accuracy and honesty of the pose estimate against the truth of rendered pictures."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import cv2
import numpy as np

from dexstack.config import share_dir
from dexstack.model.hand import load_hand
from dexstack.model.objects import ObjectModel, load_object
from dexstack.perception.bundle import TagBundle, base_bundle, object_bundle
from dexstack.perception.estimator import PoseEstimator, Sight
from dexstack.perception.params import MOUNT, EstimatorParams, SimulatedCameraParams
from dexstack.perception.pose import solve_bundle
from dexstack.perception.se3 import Transform, between, difference, exp
from dexstack.perception.simulated import SimulatedCamera
from dexstack.perception.tags import TagDetector
from dexstack.sim.loop import ClosedLoop, LoopSpec
from dexstack.sim.sensor import PoseSensor

CHI2_95 = 12.592
"""95 % bound of χ² with 6 degrees of freedom."""
JUMP = (0.005, math.radians(5.0))
"""A change between two pictures by more than this [m, rad] that ends farther than this from the truth is a wrong jump."""
LONGEST = 0.3
"""Longest occlusion [s]."""
ESTIMATE = 0.005
"""Time from a picture to its pose, as the film's median has it [s]."""


class Errors(NamedTuple):
    """Of n poses."""

    shift: np.ndarray
    """(n,) [m]"""
    turn: np.ndarray
    """(n,) [rad]"""
    nees: np.ndarray
    """(n,) errors squared in units of the covariance they came with; 6 on average where that is right."""


class StaticResult(NamedTuple):
    """Of single pictures of an object that does not move."""

    two_faces: Errors
    """Pictures in which two faces or more are seen."""
    one_face: Errors
    """Every picture, all but the face seen best left out."""
    unseen: int
    """Pictures without any tag."""
    seconds: np.ndarray
    """(n,) processor time from the picture to the pose [s]."""


def _errors(rows: list[tuple[np.ndarray, np.ndarray]]) -> Errors:
    d = np.array([row[0] for row in rows]).reshape(-1, 6)
    nees = np.array([e @ np.linalg.solve(P, e) for e, P in rows])
    return Errors(np.linalg.norm(d[:, :3], axis=1), np.linalg.norm(d[:, 3:], axis=1), nees)


def measure_static(params: SimulatedCameraParams, count: int, distance: float, seed: int, name: str = "cube") -> StaticResult:
    """``count`` pictures of the object in any orientation, ``distance`` [m] in front of the camera, up to 60 mm off its axis."""
    rng = np.random.default_rng(seed)
    obj, bundle = load_object(name), object_bundle(name)
    camera = SimulatedCamera(None, obj, bundle, params, Transform(np.eye(3), np.zeros(3)), seed=seed)
    detector = TagDetector(decimate=EstimatorParams().decimate)
    two, one, seconds = [], [], []
    unseen = 0
    for _ in range(count):
        axis = rng.normal(size=3)
        X = Transform(exp(axis / np.linalg.norm(axis) * rng.uniform(0, np.pi)), np.array([*rng.uniform(-0.06, 0.06, 2), distance]))
        grey = cv2.cvtColor(camera.picture(np.zeros(0), X.pose), cv2.COLOR_RGB2GRAY)
        begin = time.process_time()
        found = [d for d in detector.detect(grey) if d.tag in bundle.tags]
        seen = solve_bundle(found, bundle, camera.camera)
        seconds.append(time.process_time() - begin)
        if seen is None:
            unseen += 1
            continue
        if len(found) > 1:
            two.append((difference(seen.X_CO, X), seen.covariance))
        best = max(found, key=lambda d: _area(d.corners))
        alone = solve_bundle([best], bundle, camera.camera)
        if alone is not None:
            one.append((difference(alone.X_CO, X), alone.covariance))
    return StaticResult(_errors(two), _errors(one), unseen, np.array(seconds))


def _area(corners: np.ndarray) -> float:
    return abs(float(cv2.contourArea(corners.astype(np.float32))))


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
    loop = ClosedLoop(LoopSpec(files=(str(share_dir() / "config" / "continuous.yaml"),)))
    r = loop.turn_on(math.pi / 2, seed, seconds).recording
    return Motion(r["t"], r["q"], r["pose_WO"])


class PixelSensor:
    """Camera and estimator in the place of :class:`dexstack.sim.sensor.PoseSensor`: the controller gets what pictures say.

    A picture is taken whenever the controller plans: the loop must plan at the camera's rate. Without a pose the last one stands, and
    before the first one the nominal start.
    """

    def __init__(self, loop: ClosedLoop, params: SimulatedCameraParams, seed: int, name: str = "cube") -> None:
        bundle = object_bundle(name)
        self._plant, self._rate = loop.plant, params.frame_rate
        self._camera = SimulatedCamera(loop.hand, load_object(name), bundle, params, MOUNT, base=base_bundle(), seed=seed)
        self._estimator = PoseEstimator(bundle, params.camera, MOUNT, EstimatorParams())
        self.pose_delay = params.exposure_time / 2 + params.image_delay + ESTIMATE
        """Age of the pose when the controller gets it [s]."""
        self._count = 0
        self._last = np.array(loop.start.pose_WO)
        self.errors: list[np.ndarray] = []
        """(6,) estimate against truth, where there was one [m, rad]."""

    def measure(self, pose_WO: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(7,) the estimate from a picture of the pose given; the hand is drawn where it is now."""
        picture = self._camera.picture(np.array(self._plant.joint_position), pose_WO)
        outcome = self._estimator.process(self._count / self._rate, cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY))
        self._count += 1
        if outcome.estimate is not None:
            self._last = outcome.estimate.X_WO.pose
            self.errors.append(difference(outcome.estimate.X_WO, Transform.of_pose(pose_WO)))
        return self._last.copy()


class ClosedLoopResult(NamedTuple):
    """The +90° task, once per seed."""

    reached: list[bool]
    """With the pose from pictures; judged by the true pose."""
    reached_s: list[float]
    orientation_error: list[float]
    """At the end, of the true pose [rad]."""
    truth_reached: list[bool]
    """The same seeds with the true pose, as old and as often."""
    truth_reached_s: list[float]
    shift: np.ndarray
    """(n,) errors of all estimates [m]"""
    turn: np.ndarray
    """(n,) [rad]"""


def close_loop(params: SimulatedCameraParams, trials: int, seconds: float, seed: int) -> ClosedLoopResult:
    """Turn the cube by +90° through pictures, and again with the true pose, for seeds from ``seed`` on."""
    loop = ClosedLoop(LoopSpec(overrides=(("pose_period", 1.0 / params.frame_rate),)))
    result = ClosedLoopResult([], [], [], [], [], np.empty(0), np.empty(0))
    errors: list[np.ndarray] = []
    for k in range(seed, seed + trials):
        sensor = PixelSensor(loop, params, k)
        loop.params[PoseSensor] = sensor
        through = loop.trial(math.pi / 2, k, seconds)
        loop.params[PoseSensor] = PoseSensor(pose_delay=sensor.pose_delay)
        truth = loop.trial(math.pi / 2, k, seconds)
        result.reached.append(through.reached)
        result.reached_s.append(through.reached_s)
        result.orientation_error.append(through.orientation_error)
        result.truth_reached.append(truth.reached)
        result.truth_reached_s.append(truth.reached_s)
        errors += sensor.errors
    d = np.array(errors).reshape(-1, 6)
    return result._replace(shift=np.linalg.norm(d[:, :3], axis=1), turn=np.linalg.norm(d[:, 3:], axis=1))


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
    poses: Iterable[tuple[Transform, np.ndarray, bool] | None], truth: np.ndarray, hidden: np.ndarray, seconds: np.ndarray
) -> TrackingResult:
    """Compare one outcome per picture with the true poses (n, 7).

    Args:
        poses: (pose, covariance (6, 6), whether the object was seen), or None where there was no pose.
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
    return TrackingResult(_errors(seen), _errors(predicted), len(truth), int(hidden.sum()), lost, jumps, seconds)


def occlusions(count: int, rate: float, share: float, rng: np.random.Generator) -> np.ndarray:
    """(count,) bool: spells of one picture up to :data:`LONGEST`, at random, that fill ``share`` of the time."""
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
    motion: Motion, obj: ObjectModel, bundle: TagBundle, params: SimulatedCameraParams, hidden: np.ndarray, seed: int
) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """(time, grey picture, true pose) of every frame; where ``hidden``, something else fills the view."""
    hand = load_hand() if motion.q.shape[1] else None
    camera = SimulatedCamera(hand, obj, bundle, params, MOUNT, seed=seed)
    wall = np.clip(np.random.default_rng(seed).normal(90.0, params.pixel_noise, (params.image_height, params.image_width)), 0, 255)
    half = params.exposure_time / 2
    for k, dark in enumerate(hidden):
        t = motion.t[0] + 0.05 + k / params.frame_rate
        if dark:
            grey = wall.astype(np.uint8)
        else:
            grey = cv2.cvtColor(camera.picture(*motion.at(t + half), before=motion.at(t - half)), cv2.COLOR_RGB2GRAY)
        yield t, grey, motion.at(t)[1]


def measure_tracking(motion: Motion, params: SimulatedCameraParams, share: float, seed: int, name: str = "cube") -> TrackingResult:
    """Follow the object through a film of ``motion`` in which it is hidden for ``share`` of the time."""
    obj, bundle = load_object(name), object_bundle(name)
    count = int((motion.t[-1] - motion.t[0] - 0.1) * params.frame_rate)
    hidden = occlusions(count, params.frame_rate, share, np.random.default_rng(seed))
    estimator = PoseEstimator(bundle, params.camera, MOUNT, EstimatorParams())
    found: list[tuple[Transform, np.ndarray, bool] | None] = []
    truth, seconds = [], []
    for t, grey, pose_WO in film(motion, obj, bundle, params, hidden, seed):
        begin = time.process_time()
        outcome = estimator.process(t, grey)
        seconds.append(time.process_time() - begin)
        e = outcome.estimate
        found.append(None if e is None else (e.X_WO, e.covariance, outcome.sight is Sight.SEEN))
        truth.append(pose_WO)
    return judge(found, np.array(truth), hidden, np.array(seconds))


def _beyond(way: np.ndarray) -> bool:
    return bool(np.linalg.norm(way[:3]) > JUMP[0] or np.linalg.norm(way[3:]) > JUMP[1])
