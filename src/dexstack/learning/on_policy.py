"""Learning and scoring of a model on the closed loop: on-policy rollouts as data, prediction errors on rollouts held out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from dexstack.contact.pairs import PairContacts, PairDetector, object_pairs
from dexstack.control.factory import PlannerParams, make_model
from dexstack.control.mpc import MpcResult
from dexstack.control.parts import FingerContacts
from dexstack.control.problem import ModelParams
from dexstack.errors import ConfigError
from dexstack.learning.loss import Learner, LearnerParams, Predict, Update, planner_learner
from dexstack.learning.predictor import Predictor, PredictorTheta
from dexstack.learning.transitions import RingBuffer, Transitions, concatenate, cut, rotation_between, take
from dexstack.sim.loop import Loop
from dexstack.sim.trial import Task, Trial, run_trial

ROLLOUT_STEPS = 100
"""H, model steps of a rollout that collects data."""


def roll_out(
    loop: Loop, theta: ModelParams, task: Task, seed: int, *, seconds: float, period: float, dither: float = 0.0
) -> tuple[Trial, dict[str, np.ndarray]]:
    """One trial without latency that replans every ``period`` [s] under ``theta``, and its recording with velocities.

    Args:
        seed: draws start pose and dither.
        dither: standard deviation of the noise added to every joint target [rad, m].
    """
    velocities: list[tuple[np.ndarray, np.ndarray]] = []
    rng = np.random.default_rng(seed)
    lower, upper = loop.robot.lower, loop.robot.upper

    def command(result: MpcResult) -> np.ndarray:
        velocities.append((loop.plant.joint_velocity, loop.plant.twist_WO))
        return np.clip(result.q_des + dither * rng.normal(size=len(lower)), lower, upper) if dither else result.q_des

    trial = run_trial(
        loop.plant,
        loop.servo,
        loop.detector,
        loop.mpc,
        theta,
        loop.weights,
        task,
        rng,
        seconds=seconds,
        period=period,
        latency=0.0,
        stop_when_reached=False,
        command=command,
    )
    r = trial.recording
    recording = {"t": r["t"], "pose_WO": r["pose_WO"], "q": r["q"], "q_command": r["q_des"]}
    recording["qd"], recording["twist_WO"] = (np.stack(column) for column in zip(*velocities, strict=True))
    # while the servo starts up its target moves slower than it will ever again
    tracking = recording["t"] >= loop.settling
    return trial, {name: array[tracking] for name, array in recording.items()}


def collect(
    loop: Loop, theta: ModelParams, steps: int, seed: int, *, first_goal: int = 0, dither: float = 0.0
) -> tuple[Transitions, list[dict[str, np.ndarray]], list[Trial]]:
    """At least ``steps`` transitions on policy: rollouts of :data:`ROLLOUT_STEPS` steps towards the task's targets, one after another.

    Every rollout starts from the task's start; the reset in between is in no recording.
    """
    h = loop.mpc.params.step
    seconds = math.ceil(loop.settling / h) * h + h * (ROLLOUT_STEPS + 1)
    parts, recordings, trials, count = [], [], [], 0
    while count < steps:
        k = len(trials)
        if k > 20 * (1 + steps // ROLLOUT_STEPS):
            raise ConfigError(f"{k} rollouts gave only {count} transitions of the {steps} asked for: the object is dropped at once")
        task = loop.task(first_goal + k, seed)
        trial, recording = roll_out(loop, theta, task, seed + k, seconds=seconds, period=h, dither=dither)
        trials.append(trial)
        recordings.append(recording)
        part = cut(recording, h, np.asarray(loop.theta.cover), loop.detector.detect, loop.fingers.detect)
        if part is not None:
            parts.append(part)
            count += part.count
    return concatenate(parts), recordings, trials


class PredictionError(NamedTuple):
    """Errors of one predictor over K transitions, per transition."""

    position: np.ndarray
    """[m]"""
    orientation: np.ndarray
    """Geodesic [rad]."""
    joints: np.ndarray
    """Norm over the joints [rad]."""


def score(pose: np.ndarray, q: np.ndarray, data: Transitions) -> PredictionError:
    """Errors of predicted object poses (K, 7) and joint angles (K, N)."""
    return PredictionError(
        np.linalg.norm(pose[:, :3] - data.next_pose_WO[:, :3], axis=1),
        np.linalg.norm(rotation_between(np.asarray(pose[:, 3:], float), np.asarray(data.next_pose_WO[:, 3:], float)), axis=1),
        np.linalg.norm(q - data.next_q, axis=1),
    )


def stays(data: Transitions) -> PredictionError:
    """The predictor to beat: nothing moves."""
    return score(data.pose_WO, data.q, data)


def predict_all(predict: Predict, theta: ModelParams, data: Transitions, chunk: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Predicted object poses (K, 7) and joint angles (K, N)."""
    batched: Callable = jax.jit(jax.vmap(predict, in_axes=(None, 0)))
    poses, joints = [], []
    for first in range(0, data.count, chunk):
        index = np.arange(first, min(first + chunk, data.count))
        pose, q = batched(theta, take(data, np.resize(index, chunk)))
        poses.append(np.asarray(pose)[: len(index)])
        joints.append(np.asarray(q)[: len(index)])
    return np.concatenate(poses), np.concatenate(joints)


def predict_in_parts(
    predictor: Predictor, theta: PredictorTheta, data: Transitions, detector: PairDetector, parts: int, chunk: int = 200
) -> tuple[np.ndarray, np.ndarray]:
    """As :func:`predict_all`, but contacts are found anew after each of ``parts`` equal parts of the step."""
    substeps = predictor.params.substeps // parts
    advance = jax.jit(jax.vmap(lambda theta, state, at: predictor.advance(theta, state, at, at.contacts, substeps), in_axes=(None, 0, 0)))
    poses, joints = [], []
    for first in range(0, data.count, chunk):
        index = np.arange(first, min(first + chunk, data.count))
        at = take(data, np.resize(index, chunk))
        state = jax.vmap(predictor.start)(at)
        for part in range(parts):
            if part:
                at = with_pairs(at._replace(pose_WO=np.asarray(state.pose_WO), q=np.asarray(state.q)), detector)
            state = advance(theta, state, at)
        poses.append(np.asarray(state.pose_WO)[: len(index)])
        joints.append(np.asarray(state.q)[: len(index)])
    return np.concatenate(poses), np.concatenate(joints)


def relative(error: PredictionError, base: PredictionError) -> dict[str, float]:
    """Mean errors as a share of the base's."""
    return {name: float(np.mean(getattr(error, name)) / np.mean(getattr(base, name))) for name in PredictionError._fields}


def with_pairs(data: Transitions, detector: PairDetector, *, query_points: bool = False) -> Transitions:
    """The same transitions with the contacts of a predictor.

    Args:
        query_points: keep the object's contacts that ``data`` has, those of the planner's C-SDF query points, and only add the fingers'.
    """
    found = []
    for k in range(data.count):
        pairs = detector.detect(data.pose_WO[k], data.q[k])
        found.append(object_pairs(take(data, k).contacts, pairs) if query_points else pairs)
    return data._replace(contacts=PairContacts(*(np.stack(field) for field in zip(*found, strict=True))))


def with_fingers(data: Transitions, fingers: FingerContacts) -> Transitions:
    """The same transitions with contacts between fingers."""
    return data._replace(fingers=jax.tree.map(lambda *field: np.stack(field), *(fingers.detect(q) for q in data.q)))


def published_theta(obj: str, joints: int, step: float) -> ModelParams | None:
    """The θ that the authors of contactsdf ship for their Allegro experiments, in our units: M over h², no servo lag; None without one."""
    shipped = {
        "cube": (119.659, 0.65364, 0.87552, 0.76612, 0.67005, 1.3007, 0.09135, 0.543),
        "foambrick": (119.323, 0.50069, 0.73698, 0.89663, 0.52353, 1.75736, 0.06093, 0.617),
        "stick": (99.6527, 0.65116, 0.71217, 0.65902, 0.66815, 1.26332, 0.04682, 0.539),
    }
    if obj not in shipped:
        return None
    sigma, translation, roll, pitch, yaw, stiffness, root_mass, friction = shipped[obj]
    return ModelParams(
        inertia=np.array([step**2 / x**2 for x in (translation, translation, translation, roll, pitch, yaw)], np.float32),
        stiffness=np.full(joints, stiffness**-2, np.float32),
        cover=np.full(joints, 0.999, np.float32),
        mass=np.float32(root_mass**2),
        friction=np.float32(friction),
        sigma=np.float32(sigma),
    )


def uninformed_theta(loop: Loop) -> ModelParams:
    """Where learning from scratch starts, the paper's first values: unit M over h², unit K without servo lag, μ = 0.5; the true mass."""
    joints, h = len(loop.robot.joint_names), loop.mpc.params.step
    return ModelParams(
        inertia=np.full(6, h**2, np.float32),
        stiffness=np.ones(joints, np.float32),
        cover=np.full(joints, 0.99, np.float32),
        mass=np.float32(loop.obj.mass),
        friction=np.float32(0.5),
        sigma=np.float32(120.0),
    )


def stack_recordings(recordings: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Recordings one after another, ``rollout`` saying which sample is whose."""
    out = {name: np.concatenate([np.asarray(r[name]) for r in recordings]) for name in recordings[0]}
    out["rollout"] = np.repeat(np.arange(len(recordings)), [len(r["t"]) for r in recordings])
    return out


class Point(NamedTuple):
    """A planner with the θ learned so far, on trials of its task."""

    steps: int
    """Environment steps learned from."""
    theta: ModelParams
    update: Update | None
    """The update that made θ; None for the first guess."""
    trials: list[Trial]

    @property
    def success_rate(self) -> float:
        """Share of the trials that succeeded; NaN without trials."""
        return float(np.mean([t.succeeded for t in self.trials])) if self.trials else math.nan


def evaluate(loop: Loop, theta: ModelParams, count: int, seed: int, seconds: float) -> list[Trial]:
    """Trials of the task with θ, at the loop's own period and latency, towards the task's targets one after another."""
    before, loop.theta = loop.theta, theta
    try:
        return [loop.run(loop.task(k, seed), seed + k, seconds) for k in range(count)]
    finally:
        loop.theta = before


def learner_of(loop: Loop, first: ModelParams, params: LearnerParams) -> Learner:
    """A learner of a loop's θ from a first guess.

    Raises:
        ConfigError: see :func:`~dexstack.learning.loss.planner_learner`.
    """
    planner: PlannerParams = loop.params[PlannerParams]
    return planner_learner(loop.robot, make_model(planner, loop.robot.chains), first, loop.mpc.params.step, params, planner)


def learn_on_policy(
    loop: Loop,
    first: ModelParams,
    params: LearnerParams,
    *,
    steps: int,
    every: int,
    seed: int,
    score_with: Callable[[ModelParams], list[Trial]],
) -> Iterator[tuple[Point, Transitions | None, list[dict[str, np.ndarray]]]]:
    """Rollouts under the newest θ fill the buffer, then θ is updated, and again.

    Yields:
        The state of learning after 0, ``every``, 2 ``every``, … ``steps`` steps: the point, all transitions in the buffer (None at first)
        and the recordings made for it.

    Raises:
        ConfigError: the first guess is out of range, or its rollouts yield nothing to learn from.
    """
    learner = learner_of(loop, first, params)
    rng = np.random.default_rng(seed)
    buffer = RingBuffer(params.buffer)
    yield Point(0, first, None, score_with(first)), None, []
    theta, done, rollouts = first, 0, 0
    while done < steps:
        data, recordings, _ = collect(loop, theta, min(every, steps - done), seed + rollouts, first_goal=rollouts)
        rollouts += len(recordings)
        done += data.count
        buffer.add(data)
        update = learner.update(buffer.all(), rng)
        theta = learner.theta
        yield Point(done, theta, update, score_with(theta)), buffer.all(), recordings
