"""One process, no ROS: plant, servo, contact detection and MPC in simulated time, with the controller's latency modelled."""

from __future__ import annotations

import collections
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dexstack.contact.detector import ContactDetector
from dexstack.control.mpc import Mpc, MpcResult, SolveStatus
from dexstack.control.problem import ModelParams
from dexstack.control.supervisors.gait import StallRemedy
from dexstack.engines.base import Plant
from dexstack.model.objects import Start
from dexstack.sim.disturbance import NONE as NO_PUSHES
from dexstack.sim.disturbance import Pushes
from dexstack.sim.sensor import PoseSensor

PERFECT = PoseSensor()


@runtime_checkable
class Task(Protocol):
    """Goal and score of one run."""

    @property
    def start(self) -> Start:
        """Its ``hand_pose`` is where the robot starts."""

    @property
    def tolerance(self) -> float:
        """Orientation error that counts as reached [rad]."""

    @property
    def hold(self) -> float:
        """How long it must stay so [s]."""

    @property
    def goal_WO(self) -> np.ndarray:
        """(7,)"""

    def start_pose(self, rng: np.random.Generator) -> np.ndarray: ...

    def orientation_error(self, pose_WO: np.ndarray) -> float: ...

    def position_error(self, pose_WO: np.ndarray) -> float: ...

    def dropped(self, pose_WO: np.ndarray) -> bool: ...

    def succeeded(self, pose_WO: np.ndarray) -> bool: ...

    def following(self) -> Task | None:
        """The task that takes over once this one is reached; None: this one stays."""


@runtime_checkable
class Servo(Protocol):
    """The robot's own position control, between commands and forces; see :class:`dexstack.hand.servo.ServoLaw`."""

    params: Any
    """Its ``period`` is the time between two feedbacks [s]."""

    def reset(self) -> None: ...

    def enable(self) -> None: ...

    def set_command(self, q: np.ndarray, t: float) -> Any: ...

    def step(self, q: np.ndarray, t: float) -> Any:
        """Feedback in, a result with the forces ``tau`` out."""


@dataclass
class Recording:
    """Samples of one trial, one entry per replan."""

    t: list[float] = field(default_factory=list)
    pose_WO: list[np.ndarray] = field(default_factory=list)
    q: list[np.ndarray] = field(default_factory=list)
    q_des: list[np.ndarray] = field(default_factory=list)
    status: list[int] = field(default_factory=list)
    contacts: list[int] = field(default_factory=list)
    detect_s: list[float] = field(default_factory=list)
    solve_s: list[float] = field(default_factory=list)
    """CPU time of detection and solve."""
    latency: list[float] = field(default_factory=list)
    """From the pose to the command that answers it."""

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: np.asarray(getattr(self, name)) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Trial:
    """Outcome of one trial."""

    reached: bool
    """The orientation error stayed below the task's tolerance for its hold time."""
    reached_at: tuple[float, ...]
    """Simulated time at which each goal was reached: one, or as many as the tasks that followed each other [s]."""
    orientation_error: float
    """Geodesic error at the end [rad]."""
    position_error: float
    dropped: bool
    succeeded: bool
    """By the task's own measure of the pose at the end."""
    stalls: int
    """How often the rollout stalled and the robot let go."""
    recording: dict[str, np.ndarray]

    @property
    def reached_s(self) -> float:
        """When the first goal was reached; NaN if never [s]."""
        return self.reached_at[0] if self.reached_at else np.nan


def run_trial(
    plant: Plant,
    servo: Servo,
    detector: ContactDetector,
    mpc: Mpc,
    theta: ModelParams,
    weights: Any,
    task: Task,
    rng: np.random.Generator,
    *,
    seconds: float,
    period: float,
    latency: float | None,
    stop_when_reached: bool = True,
    command: Callable[[MpcResult], np.ndarray] | None = None,
    remedy: StallRemedy | None = None,
    sensor: PoseSensor = PERFECT,
    pushes: Pushes = NO_PUSHES,
) -> Trial:
    """Run the task once.

    Every ``period`` [s] the controller sees the state; its command reaches the servo ``latency`` [s] later, while the plant goes on;
    without ``latency`` it is as late as its own computation was on the wall clock, and the trial is not repeatable.
    ``command`` makes the servo's target (N,) [rad] from a plan, for exploration; without it the plan's own target is sent.
    The servo runs at its own period on the plant's joint angles. ``rng`` draws the start pose, the sensor's noise and the pushes: the
    trial is repeatable. Where a task follows the one reached, the robot goes back to its start pose first, if a remedy knows it.
    """
    q0 = np.array(mpc.robot.pose(task.start.hand_pose), float)
    plant.reset(q0, task.start_pose(rng))
    servo.reset()
    servo.enable()
    mpc.reset()
    if remedy is not None:
        remedy.reset()
    record = Recording()
    pending: list[tuple[float, np.ndarray]] = []
    tau = np.zeros(len(q0))
    ticks = replans = 0
    inside_since, is_reached = np.nan, False
    reached_at: list[float] = []
    truth: collections.deque[np.ndarray] = collections.deque(maxlen=1 + round(sensor.pose_delay / plant.dt))
    steps = round(seconds / plant.dt)
    for k in range(steps):
        t = k * plant.dt
        if pushes.due(t - plant.dt, t):
            pushes.push(plant, rng)
        truth.append(plant.pose_WO)
        if t >= replans * period - 1e-9:
            replans += 1
            actual, pose, q = truth[-1], sensor.measure(truth[0], rng), np.array(plant.joint_position)
            qd = plant.joint_velocity
            begin, wall = time.process_time(), time.perf_counter()
            contacts = detector.detect(pose, q)
            detected = time.process_time() - begin
            if remedy is None:
                result = mpc.solve(pose, q, contacts, task.goal_WO, theta, weights, qd=qd)
            else:
                result = remedy.solve(t, task.orientation_error(pose), pose, q, contacts, task.goal_WO, theta, weights, qd)
            target = result.q_des if command is None else command(result)
            late = time.perf_counter() - wall if latency is None else latency
            if result.status not in (SolveStatus.BAD_INPUT, SolveStatus.DIVERGED):
                pending.append((t + late, target))
            for name, value in (
                ("t", t), ("pose_WO", actual), ("q", q), ("q_des", target), ("status", int(result.status)),
                ("contacts", int(contacts.active.sum())), ("detect_s", detected), ("solve_s", detected + result.cpu_s), ("latency", late),
            ):  # fmt: skip
                getattr(record, name).append(value)
            if task.orientation_error(actual) >= task.tolerance or task.dropped(actual):
                inside_since = np.nan
            elif np.isnan(inside_since):
                inside_since = t
            if not is_reached and t - inside_since >= task.hold:
                is_reached = True
                reached_at.append(t)
                following = task.following()
                if following is not None:
                    task, inside_since, is_reached = following, np.nan, False
                    if remedy is not None:
                        remedy.release(t)
            if task.dropped(actual) or (stop_when_reached and is_reached):
                break
        while pending and t >= pending[0][0] - 1e-9:
            servo.set_command(pending.pop(0)[1], t)
        if t >= ticks * servo.params.period - 1e-9:
            ticks += 1
            tau = servo.step(plant.joint_position, t).tau
        plant.step(tau)
    pose = np.array(plant.pose_WO)
    return Trial(
        reached=bool(reached_at),
        reached_at=tuple(reached_at),
        orientation_error=task.orientation_error(pose),
        position_error=task.position_error(pose),
        dropped=task.dropped(pose),
        succeeded=task.succeeded(pose),
        stalls=0 if remedy is None else remedy.stalls,
        recording=record.arrays(),
    )
