"""Learning of the planner's θ from rollouts of the evaluated policy or from recordings, scored on
held-out transitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dexstack.errors import ConfigError
from dexstack.learning.loss import Learner, LearnerParams, Update
from dexstack.learning.planner import planner_learner
from dexstack.learning.transitions import RingBuffer, Transitions, concatenate, cut, take

if TYPE_CHECKING:
    from dexstack.control.problem import ModelParams
    from dexstack.sim.loop import Loop
    from dexstack.sim.trial import Trial

ROLLOUT_STEPS = 100
"""H, number of model steps of a rollout that collects data."""
HELD_OUT_STEPS = 200
"""Number of model steps of the held-out rollouts."""
HELD_OUT_SEED = 900_000
"""Offset of the seeds of held-out rollouts."""
HELD_OUT_SHARE = 0.2
"""Share of a recording, at its end, that is held out."""


def collect(
    loop: Loop, steps: int, seed: int, *, first_goal: int = 0
) -> tuple[Transitions, list[dict[str, np.ndarray]], list[Trial]]:
    """Collect at least ``steps`` transitions of the loop's policy, one model step apart, towards
    consecutive goals of the task.

    The policy is the evaluated one, with planner, supervisor, latency and sensor. Every rollout
    begins at the task's start; resets are not recorded.

    Raises:
        ConfigError: the rollouts yield too few transitions.
    """
    h, settling = loop.controller.step, getattr(loop.servo.params, "startup_time", 0.0)
    seconds = math.ceil(settling / h) * h + h * (ROLLOUT_STEPS + 1)
    stride = max(1, round(h / loop.timing.pose_period))
    parts, recordings, trials, count = [], [], [], 0
    while count < steps:
        k = len(trials)
        if k > 20 * (1 + steps // ROLLOUT_STEPS):
            raise ConfigError(
                f"{k} rollouts gave only {count} of {steps} transitions: the object is dropped at once"
            )
        trial = loop.run(first_goal + k, seed - first_goal, seconds)
        trials.append(trial)
        tracking = trial.recording["t"] >= settling  # the servo limits its target's speed at startup
        names = ("t", "pose_WO", "twist_WO", "q", "qd", "q_command")
        recordings.append({name: trial.recording[name][tracking] for name in names})
        part = cut(recordings[-1], h, np.asarray(loop.planner.theta.cover), loop.detector.detect)
        if part is not None:
            part = take(part, slice(None, None, stride))
            parts.append(part)
            count += part.count
    return concatenate(parts), recordings, trials


def uninformed_theta(loop: Loop) -> ModelParams:
    """Return the paper's first values of θ: unit M over h², unit K without servo lag, μ = 0.5; and
    the true mass."""
    from dexstack.control.problem import ModelParams

    joints, h = len(loop.setup.robot.joint_names), loop.controller.step
    return ModelParams(
        inertia=np.full(6, h**2, np.float32),
        stiffness=np.ones(joints, np.float32),
        cover=np.full(joints, 0.99, np.float32),
        mass=np.float32(loop.setup.obj.mass),
        friction=np.float32(0.5),
        sigma=np.float32(120.0),
    )


def stack_recordings(recordings: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Concatenate recordings, with the recording of each sample as ``rollout``."""
    out = {name: np.concatenate([np.asarray(r[name]) for r in recordings]) for name in recordings[0]}
    out["rollout"] = np.repeat(np.arange(len(recordings)), [len(r["t"]) for r in recordings])
    return out


class Point(NamedTuple):
    """One point of a learning curve."""

    steps: int
    """Number of environment steps learned from."""
    theta: ModelParams
    update: Update | None
    """The update that led to θ; None for the first guess."""
    held_out: float
    """Mean loss over the held-out transitions."""
    trials: list[Trial]
    """Trials of the task with θ."""

    @property
    def success_rate(self) -> float:
        """Share of the trials that succeeded; NaN without trials."""
        return float(np.mean([t.succeeded for t in self.trials])) if self.trials else math.nan


Score = Callable[["ModelParams"], "list[Trial]"]
"""Runs trials with a θ."""


def evaluate(loop: Loop, theta: ModelParams, count: int, seed: int, seconds: float) -> list[Trial]:
    """Run trials of the task with θ, towards consecutive goals."""
    before, loop.planner.theta = loop.planner.theta, theta
    try:
        return [loop.run(k, seed, seconds) for k in range(count)]
    finally:
        loop.planner.theta = before


def learner_of(loop: Loop, first: ModelParams) -> Learner:
    """Return a learner of the θ of a loop's planner from a first guess, with the loop's parameters.

    Raises:
        ConfigError: see :func:`~dexstack.learning.planner.planner_learner`.
    """
    return planner_learner(loop.setup.robot, loop.setup.obj, first, loop.params)


Progress = Iterator[tuple[Point, "Transitions | None", "list[dict[str, np.ndarray]]"]]


def learn_on_policy(
    loop: Loop, first: ModelParams, *, steps: int, every: int, seed: int, score_with: Score
) -> Progress:
    """Alternate rollouts with the current θ, which fill the buffer, and updates of θ.

    Yields:
        After 0, ``every``, 2 ``every``, … ``steps`` steps the point of the learning curve, all
        transitions in the buffer (None at first) and the new recordings.

    Raises:
        ConfigError: the first guess is out of range, or its rollouts yield too few transitions.
    """
    learner = learner_of(loop, first)
    rng = np.random.default_rng(seed)
    buffer = RingBuffer(loop.params[LearnerParams].buffer)
    before = loop.planner.theta
    try:
        loop.planner.theta = first
        held_out, _, _ = collect(loop, HELD_OUT_STEPS, HELD_OUT_SEED + seed)
        yield Point(0, first, None, learner.data_loss(held_out), score_with(first)), None, []
        done, rollouts = 0, 0
        while done < steps:
            data, recordings, _ = collect(
                loop, min(every, steps - done), seed + rollouts, first_goal=rollouts
            )
            rollouts += len(recordings)
            done += data.count
            buffer.add(data)
            update = learner.update(buffer.all(), rng)
            theta = loop.planner.theta = learner.theta
            point = Point(done, theta, update, learner.data_loss(held_out), score_with(theta))
            yield point, buffer.all(), recordings
    finally:
        loop.planner.theta = before


def split(recording: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the part of a recording to learn from, and its end, which is held out."""
    count = len(recording["t"])
    last = round((1.0 - HELD_OUT_SHARE) * count)
    samples = {name: array for name, array in recording.items() if np.ndim(array) and len(array) == count}
    kept, held_out = (
        {name: a[part] for name, a in samples.items()} for part in (slice(last), slice(last, None))
    )
    return kept, held_out


def learn_from(
    loop: Loop,
    first: ModelParams,
    recordings: Mapping[str, Mapping[str, np.ndarray]],
    *,
    seed: int,
    score_with: Score,
) -> Progress:
    """Update θ once from recordings, by name; yield the first guess, then the result.

    Raises:
        ConfigError: the recordings contain too few transitions.
    """
    h, kept, ends = loop.controller.step, [], []
    for recording in recordings.values():
        for part, where in zip(split(recording), (kept, ends), strict=True):
            transitions = cut(part, h, np.asarray(loop.planner.theta.cover), loop.detector.detect)
            if transitions is not None:
                where.append(transitions)
    if not kept or not ends:
        raise ConfigError(
            f"too few samples of {', '.join(recordings)} are {h:g} s apart without an interruption between "
            "them"
        )
    data, held_out = concatenate(kept), concatenate(ends)
    learner = learner_of(loop, first)
    yield Point(0, first, None, learner.data_loss(held_out), score_with(first)), data, []
    update = learner.update(data, np.random.default_rng(seed))
    theta = learner.theta
    yield Point(data.count, theta, update, learner.data_loss(held_out), score_with(theta)), data, []
