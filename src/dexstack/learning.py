"""Learning and scoring of a model on the closed loop: on-policy rollouts as data, prediction errors on rollouts held out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from dexstack.closed_loop import ClosedLoop
from dexstack.control.learner import Predict
from dexstack.control.problem import ModelParams
from dexstack.control.transitions import Transitions, concatenate, cut, rotation_between, take
from dexstack.errors import ConfigError
from dexstack.rollout import Trial, run_trial
from dexstack.tasks.allegro import AllegroTask

GOALS = {"stick": (36.0, -36.0, 45.0, -45.0, 54.0, -54.0)}
OTHER_GOALS = (45.0, -45.0, 60.0, -60.0, 90.0, -90.0)
"""Turns of the task's table [deg]."""
ROLLOUT_STEPS = 100
"""H, model steps of a rollout that collects data."""


def goals_of(obj: str) -> tuple[float, ...]:
    """The task's turns of an object [rad]."""
    return tuple(math.radians(a) for a in GOALS.get(obj, OTHER_GOALS))


def roll_out(
    loop: ClosedLoop, theta: ModelParams, goal_yaw: float, seed: int, *, seconds: float, period: float, dither: float = 0.0
) -> tuple[Trial, dict[str, np.ndarray]]:
    """One trial without latency that replans every ``period`` [s] under ``theta``, and its recording with velocities.

    Args:
        seed: draws start pose and dither.
        dither: standard deviation of the noise added to every joint target [rad].
    """
    velocities: list[tuple[np.ndarray, np.ndarray]] = []
    rng = np.random.default_rng(seed)
    lower, upper = loop.hand.lower, loop.hand.upper

    def command(result, q: np.ndarray, before: np.ndarray) -> np.ndarray:
        velocities.append((loop.plant.joint_velocity, loop.plant.twist_WO))
        return np.clip(result.q_des + dither * rng.normal(size=len(q)), lower, upper) if dither else result.q_des

    trial = run_trial(
        loop.plant,
        loop.servo,
        loop.detector,
        loop.mpc,
        theta,
        loop.weights,
        AllegroTask(loop.start, goal_yaw),
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
    return trial, recording


def collect(
    loop: ClosedLoop, theta: ModelParams, steps: int, seed: int, *, first_goal: int = 0, dither: float = 0.0
) -> tuple[Transitions, list[dict[str, np.ndarray]], list[Trial]]:
    """At least ``steps`` transitions on policy: rollouts of :data:`ROLLOUT_STEPS` model steps towards the task's turns, one after another.

    Every rollout starts from the task's start; the reset in between is in no recording.
    """
    h = loop.mpc.params.step
    goals = goals_of(loop.obj.name)
    parts, recordings, trials, count = [], [], [], 0
    while count < steps:
        k = len(trials)
        if k > 20 * (1 + steps // ROLLOUT_STEPS):
            raise ConfigError(f"{k} rollouts gave only {count} transitions of the {steps} asked for: the object is dropped at once")
        goal = goals[(first_goal + k) % len(goals)]
        trial, recording = roll_out(loop, theta, goal, seed + k, seconds=h * (ROLLOUT_STEPS + 1), period=h, dither=dither)
        trials.append(trial)
        recordings.append(recording)
        part = cut(recording, h, np.asarray(loop.theta.cover), loop.detector.detect)
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


def relative(error: PredictionError, base: PredictionError) -> dict[str, float]:
    """Mean errors as a share of the base's."""
    return {name: float(np.mean(getattr(error, name)) / np.mean(getattr(base, name))) for name in PredictionError._fields}


def stack_recordings(recordings: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Recordings one after another, ``rollout`` saying which sample is whose."""
    out = {name: np.concatenate([np.asarray(r[name]) for r in recordings]) for name in recordings[0]}
    out["rollout"] = np.repeat(np.arange(len(recordings)), [len(r["t"]) for r in recordings])
    return out
