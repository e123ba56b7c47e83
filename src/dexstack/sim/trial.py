"""One trial of a task in simulated time: plant, servo, sensor and controller, with the controller's
latency modelled."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dexstack.control.controller import Measurement
from dexstack.sim.sensor import Sample
from dexstack.tasks.base import Goal, Outcome
from dexstack.tasks.judge import Judge

if TYPE_CHECKING:
    from dexstack.sim.loop import Loop
    from dexstack.sim.simulation import Until


class Recording(defaultdict[str, list[Any]]):
    """Samples of one trial, one per plan, with the names of the graph's recordings and these:

    ``torque`` in force when the sample came [N m]; ``q_command``, NaN after the servo has tripped, since
    no target is then in force and none must be learned from; ``goal_number`` of the goal that is pursued,
    from 0; ``error`` of orientation [rad] and ``position_error`` [m]; ``detect_s``, and ``solve_s`` with
    detection and prediction, processor time [s]; ``latency`` from the pose to the command that answers
    it [s].
    """

    def __init__(self) -> None:
        super().__init__(list)

    def add(self, **row: Any) -> None:
        """Append one sample."""
        for name, value in row.items():
            self[name].append(value)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return every name as an array over the samples."""
        return {name: np.asarray(values) for name, values in self.items()}


@dataclass(frozen=True)
class Trial:
    """Outcome of one trial."""

    goal: Goal
    """The last goal."""
    reached_at: tuple[float, ...]
    """Simulated time at which each goal was reached [s]."""
    orientation_error: float
    """Geodesic error at the end [rad]."""
    position_error: float
    """[m]"""
    dropped: bool
    succeeded: bool
    """As the task judges it."""
    stalls: int
    """Number of times that the rollout got stuck and was freed."""
    trouble: str
    """Failures that the plant reports (see :class:`dexstack.plants.base.WatchedPlant`), or the reason
    for which the servo tripped; empty if there are none."""
    wall_s: float
    recording: dict[str, np.ndarray]

    @property
    def reached(self) -> bool:
        """True if any goal was reached."""
        return bool(self.reached_at)

    @property
    def reached_s(self) -> float:
        """Time at which the first goal was reached; NaN if never [s]."""
        return self.reached_at[0] if self.reached_at else np.nan

    @property
    def seconds(self) -> float:
        """Simulated time at the last plan [s]."""
        return float(self.recording["t"][-1])

    @property
    def judged(self) -> Outcome:
        """The outcome by which the task judges it."""
        return Outcome(self.recording["pose_WO"][-1], self.goal, self.reached_at, self.seconds, self.dropped)


def run_trial(
    loop: Loop,
    goals: Iterator[Goal],
    seed: int,
    seconds: float,
    *,
    measured_latency: bool = False,
    until: Until = "time",
) -> Trial:
    """Run a loop's task once, see :class:`~dexstack.sim.simulation.Rollout`; the command that
    answers a pose reaches the servo ``latency`` [s] later.

    Args:
        measured_latency: delay every command by the wall time of its own computation; the trial is
            then not repeatable.
    """
    begin, task, controller = time.perf_counter(), loop.task, loop.controller
    controller.reset()
    rollout = loop.rollout(goals, seed, seconds, hold=controller.hold, until=until)
    record, judge = Recording(), rollout.judge
    for t, sample, actual in rollout.sights():
        late, target = _plan(loop, t, sample, judge.goal, record, measured_latency)
        record.add(
            pose_WO=actual,
            torque=rollout.torque,
            goal_number=judge.number,
            twist_WO=loop.plant.twist_WO,
            error=task.orientation_error(actual, judge.goal),
            position_error=task.position_error(actual, judge.goal),
        )
        if target is not None:
            rollout.command(target, t + late)
    return _conclude(loop, judge, record, time.perf_counter() - begin)


def _plan(
    loop: Loop, t: float, sample: Sample, goal: Goal, record: Recording, measured_latency: bool
) -> tuple[float, np.ndarray | None]:
    """Plan from one sample of the sensor; return the latency of its command [s], and the command or
    None."""
    wall = time.perf_counter()
    seen = Measurement(sample.pose_WO, sample.q, t, sample.q_now, deviation=sample.deviation)
    answer = loop.controller.answer(seen, goal.pose_WO)
    plan = answer.plan
    late = time.perf_counter() - wall if measured_latency else loop.timing.latency
    record.add(
        t=t,
        q=np.array(loop.plant.joint_position),
        qd=loop.plant.joint_velocity,
        q_command=plan.q_des if loop.servo.trip is None else np.full_like(plan.q_des, np.nan),
        goal_WO=loop.task.nearest(sample.pose_WO, goal.pose_WO),
        status=int(plan.status),
        contacts=int(answer.contacts.active.sum()),
        detect_s=answer.detect_s,
        solve_s=answer.cpu_s,
        latency=late,
    )
    return late, answer.target


def _conclude(loop: Loop, judge: Judge, record: Recording, wall_s: float) -> Trial:
    task, goal, pose_WO = loop.task, judge.goal, np.array(loop.plant.pose_WO)
    outcome = judge.outcome(record["t"][-1], pose_WO)
    return Trial(
        goal=goal,
        reached_at=outcome.reached_at,
        orientation_error=task.orientation_error(pose_WO, goal),
        position_error=task.position_error(pose_WO, goal),
        dropped=outcome.dropped,
        succeeded=task.succeeded(outcome),
        stalls=loop.supervisor.stalls,
        trouble=loop.trouble(),
        wall_s=wall_s,
        recording=record.arrays(),
    )
