"""One trial of a task: plant, servo, contact detection and planner in simulated time, with the
controller's latency modelled."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from dexstack.control.base import Observation
from dexstack.control.params import BLIND_PERIOD
from dexstack.plants.base import WatchedPlant
from dexstack.sim.sensor import Seen, Sensor, Sight
from dexstack.tasks.base import Goal, Outcome

if TYPE_CHECKING:
    from dexstack.contact.detector import ContactDetector
    from dexstack.control.params import BlindParams
    from dexstack.control.predictor import StatePredictor
    from dexstack.control.supervisors.base import Supervisor
    from dexstack.model.objects import Start
    from dexstack.plants.base import Plant
    from dexstack.sim.disturbance import Pushes
    from dexstack.tasks.base import Scene, Task


@runtime_checkable
class Servo(Protocol):
    """The robot's own position control, between commands and forces; see
    :class:`dexstack.hand.servo.ServoLaw`."""

    params: Any
    """Its ``period`` is the time between two feedbacks [s]."""
    trip: Any
    """Why it took the forces away; None if it has not."""

    def reset(self) -> None: ...

    def enable(self) -> None: ...

    def set_command(self, q: np.ndarray, t: float) -> Any: ...

    def step(self, q: np.ndarray, t: float) -> Any:
        """Feedback in, a result with the forces ``tau`` out."""


@runtime_checkable
class Timing(Protocol):
    """When the controller acts."""

    pose_period: float
    """Time between two plans [s]."""
    latency: float
    """From a pose to the command that answers it [s]."""


@runtime_checkable
class Rig(Protocol):
    """What a trial runs on; see :class:`dexstack.sim.loop.Loop`."""

    task: Task
    scene: Scene
    """As the controller believes."""
    plant: Plant
    plant_start: Start
    """Where the plant's object starts: an object of another size stands elsewhere."""
    servo: Servo
    sensor: Sensor
    detector: ContactDetector
    predictor: StatePredictor
    supervisor: Supervisor
    blind: BlindParams
    pushes: Pushes
    timing: Timing


@dataclass
class Recording:
    """Samples of one trial, one entry per plan; the names are those of the graph's recordings."""

    t: list[float] = field(default_factory=list)
    pose_WO: list[np.ndarray] = field(default_factory=list)
    twist_WO: list[np.ndarray] = field(default_factory=list)
    q: list[np.ndarray] = field(default_factory=list)
    qd: list[np.ndarray] = field(default_factory=list)
    q_command: list[np.ndarray] = field(default_factory=list)
    """Not a number once the servo has taken the torque away: then no target is in force, and nobody
    is to learn from what it does."""
    goal_WO: list[np.ndarray] = field(default_factory=list)
    error: list[float] = field(default_factory=list)
    """Orientation error [rad]."""
    position_error: list[float] = field(default_factory=list)
    status: list[int] = field(default_factory=list)
    contacts: list[int] = field(default_factory=list)
    detect_s: list[float] = field(default_factory=list)
    solve_s: list[float] = field(default_factory=list)
    """CPU time of detection, prediction and solve."""
    latency: list[float] = field(default_factory=list)
    """From the pose to the command that answers it."""

    def add(self, **row: Any) -> None:
        for name, value in row.items():
            getattr(self, name).append(value)

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: np.asarray(getattr(self, name)) for name in self.__dataclass_fields__}


@dataclass(frozen=True)
class Trial:
    """Outcome of one trial."""

    goal: Goal
    """The last one."""
    reached_at: tuple[float, ...]
    """Simulated time at which each goal was reached [s]."""
    orientation_error: float
    """Geodesic error at the end [rad]."""
    position_error: float
    """[m]"""
    dropped: bool
    succeeded: bool
    """By the task's own judgement."""
    stalls: int
    """How often the rollout got stuck and was freed."""
    trouble: str
    """What the plant could not do as it should, see :class:`dexstack.plants.base.WatchedPlant`, or
    why the servo took the torque away."""
    wall_s: float
    recording: dict[str, np.ndarray]

    @property
    def reached(self) -> bool:
        """Whether a goal was reached at all."""
        return bool(self.reached_at)

    @property
    def reached_s(self) -> float:
        """When the first goal was reached; NaN if never [s]."""
        return self.reached_at[0] if self.reached_at else np.nan

    @property
    def seconds(self) -> float:
        """Simulated time at the last plan [s]."""
        return float(self.recording["t"][-1])

    @property
    def judged(self) -> Outcome:
        """What its task judges it by."""
        return Outcome(self.recording["pose_WO"][-1], self.goal, self.reached_at, self.seconds, self.dropped)


class _Progress:
    """Which goal is asked for, and since when the object is inside its tolerance."""

    def __init__(self, rig: Rig, goals: Iterator[Goal]) -> None:
        self._task, self._start, self._goals = rig.task, rig.scene.start, goals
        self.goal = next(goals)
        self.reached_at: list[float] = []
        self._since, self._done = np.nan, False

    def judge(self, t: float, pose_WO: np.ndarray) -> None:
        """Look at the object at time ``t`` [s]; the next goal follows where this one is reached."""
        if self._task.dropped(pose_WO, self._start) or not self._task.inside(pose_WO, self.goal):
            self._since = np.nan
        elif np.isnan(self._since):
            self._since = t
        if self._done or not t - self._since >= self._task.params.hold:
            return
        self.reached_at.append(t)
        following = next(self._goals, None)
        if following is None:
            self._done = True
        else:
            self.goal, self._since = following, np.nan

    @property
    def complete(self) -> bool:
        """Every goal was reached."""
        return self._done


class _Commands:
    """What reaches the servo, and when; where nothing is seen any more, what was commanded last is
    commanded again."""

    def __init__(self, rig: Rig) -> None:
        self._servo, self._blind = rig.servo, rig.blind
        self._pending: list[tuple[float, np.ndarray]] = []
        self._held: np.ndarray | None = None
        self._t = 0.0
        self.seen_at = 0.0
        """Time of the last sight [s]."""

    def answer(self, t: float, target: np.ndarray) -> None:
        """A target (N,) that is to act at time ``t`` [s]."""
        self._pending.append((t, target))

    def act(self, t: float) -> None:
        """What is due at time ``t`` [s]."""
        while self._pending and t >= self._pending[0][0] - 1e-9:
            self._set(self._pending.pop(0)[1], t)
        if self._held is not None and t >= self._t + BLIND_PERIOD and self._blind.hold(t - self.seen_at):
            self._set(self._held, t)

    def _set(self, target: np.ndarray, t: float) -> None:
        self._held, self._t = target, t
        self._servo.set_command(target, t)


def run_trial(
    rig: Rig,
    goals: Iterator[Goal],
    seed: int,
    seconds: float,
    *,
    measured_latency: bool = False,
    until_reached: bool = False,
) -> Trial:
    """Run a rig's task once, towards one goal after another.

    Every ``pose_period`` [s] the controller sees the state, unless the sensor has it otherwise; its
    command reaches the servo ``latency`` [s] later, while the plant goes on. The servo runs at its
    own period on the plant's joint angles. The trial ends after ``seconds`` [s], when the object is
    dropped, when the task says so, or with ``until_reached`` when the last goal was reached.

    Args:
        seed: draws the start pose, the sensor's noise and the pushes: the trial is repeatable.
        measured_latency: every command is as late as its own computation was on the wall clock, and
            the trial is not repeatable.
    """
    begin, rng = time.perf_counter(), np.random.default_rng(seed)
    plant, servo, supervisor, task, start = rig.plant, rig.servo, rig.supervisor, rig.task, rig.scene.start
    tau = np.zeros(len(rig.scene.rest))
    plant.reset(rig.scene.rest, task.start_pose(rig.plant_start, rng))
    servo.reset()
    servo.enable()
    supervisor.reset()
    record, progress, commands = Recording(), _Progress(rig, goals), _Commands(rig)
    ticks = looks = 0
    sight = Sight(rig.sensor, rig.timing.pose_period, plant.dt, rng)
    for k in range(round(seconds / plant.dt)):
        t = k * plant.dt
        if rig.pushes.due(t - plant.dt, t):
            rig.pushes.push(plant, rng)
        actual = plant.pose_WO
        sight.note(actual, np.array(plant.joint_position))
        seen = sight.take()
        if seen is not None:
            commands.seen_at = t
            late, target = _plan(rig, t, seen, progress.goal, record, measured_latency)
            record.add(
                pose_WO=actual,
                twist_WO=plant.twist_WO,
                error=task.orientation_error(actual, progress.goal),
                position_error=task.position_error(actual, progress.goal),
            )
            if target is not None:
                commands.answer(t + late, target)
        if t >= looks * rig.timing.pose_period - 1e-9:
            looks += 1
            progress.judge(t, actual)
            if (
                task.dropped(actual, start)
                or task.over(progress.reached_at, t)
                or (until_reached and progress.complete)
            ):
                break
        commands.act(t)
        if t >= ticks * servo.params.period - 1e-9:
            ticks += 1
            tau = servo.step(plant.joint_position, t).tau
        plant.step(tau)
    return _conclude(rig, progress, record, supervisor.stalls, time.perf_counter() - begin)


def _plan(
    rig: Rig, t: float, seen: Seen, goal: Goal, record: Recording, measured_latency: bool
) -> tuple[float, np.ndarray | None]:
    """One plan of what the controller sees: how late its command comes [s], and the command; None
    if there is none."""
    begin, wall = time.process_time(), time.perf_counter()
    contacts = rig.detector.detect(seen.pose_WO, seen.q)
    detected = time.process_time() - begin
    observation = rig.predictor.predict(Observation(t, seen.pose_WO, seen.q, contacts), seen.q_then, t)
    prepared = time.process_time() - begin
    plan = rig.supervisor.plan(observation, goal.pose_WO)
    late = time.perf_counter() - wall if measured_latency else rig.timing.latency
    record.add(
        t=t,
        q=np.array(rig.plant.joint_position),
        qd=rig.plant.joint_velocity,
        q_command=plan.q_des if rig.servo.trip is None else np.full_like(plan.q_des, np.nan),
        goal_WO=rig.task.nearest(seen.pose_WO, goal.pose_WO),
        status=int(plan.status),
        contacts=int(contacts.active.sum()),
        detect_s=detected,
        solve_s=prepared + plan.cpu_s,
        latency=late,
    )
    if not plan.status.usable:
        return late, None
    rig.predictor.sent(t, plan.q_des)
    return late, plan.q_des


def _trouble(rig: Rig) -> str:
    plant = rig.plant.trouble() if isinstance(rig.plant, WatchedPlant) else ""
    return "; ".join(filter(None, [f"the servo is off: {rig.servo.trip}" if rig.servo.trip else "", plant]))


def _conclude(rig: Rig, progress: _Progress, record: Recording, stalls: int, wall_s: float) -> Trial:
    task, plant, goal = rig.task, rig.plant, progress.goal
    pose_WO = np.array(plant.pose_WO)
    dropped = task.dropped(pose_WO, rig.scene.start)
    reached_at = tuple(progress.reached_at)
    return Trial(
        goal=goal,
        reached_at=reached_at,
        orientation_error=task.orientation_error(pose_WO, goal),
        position_error=task.position_error(pose_WO, goal),
        dropped=dropped,
        succeeded=task.succeeded(Outcome(pose_WO, goal, reached_at, record.t[-1], dropped)),
        stalls=stalls,
        trouble=_trouble(rig),
        wall_s=wall_s,
        recording=record.arrays(),
    )
