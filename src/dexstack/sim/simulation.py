"""A task's simulated world without a controller: plant, servo and pose sensor in simulated time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from dexstack.errors import ConfigError
from dexstack.model.hand import HandModel
from dexstack.perception import require_camera
from dexstack.perception.camera_params import EstimatorParams, MountParams, SimulatedCameraParams
from dexstack.plants import make_plant, plant_params
from dexstack.plants.base import WatchedPlant
from dexstack.sim.disturbance import Pushes
from dexstack.sim.params import LoopParams
from dexstack.sim.sensor import PoseSensor, PoseStream, Sample, Sensor
from dexstack.tasks.base import NOMINAL_WORLD, Goal, Setup, Task, World
from dexstack.tasks.judge import Judge

Until = Literal["time", "reached", "settled"]
"""End of a rollout: after its time, where its last goal is reached, or where the object also rests
there."""


@runtime_checkable
class Servo(Protocol):
    """Position control of the robot, from targets to forces; see
    :class:`dexstack.hand.servo.ServoLaw`."""

    params: Any
    """Its ``period`` is the time between two feedbacks [s]."""
    trip: Any
    """Reason for which it took the forces away; None if it has not."""

    def reset(self) -> None:
        """Discard the target."""

    def enable(self) -> None:
        """Switch the forces on."""

    def set_command(self, q: np.ndarray, t: float) -> Any:
        """Set the target (N,) [rad, m] at time ``t`` [s]."""

    def step(self, q: np.ndarray, t: float) -> Any:
        """Return a result with the forces ``tau`` (N,) for the feedback (N,)."""


class Simulation:
    """Plant, servo and pose sensor of one task; :meth:`rollout` begins a rollout."""

    def __init__(
        self, task: Task, params: Mapping[type, Any], plant: str = "mujoco", world: World = NOMINAL_WORLD
    ) -> None:
        """
        Args:
            params: one object of every parameter class, see
                :func:`dexstack.graph.settings.read_settings`.
            plant: name of the physics engine.
            world: true properties of the plant, unknown to the controller.

        Raises:
            ConfigError: rejected by the plant.
        """
        self.task, self.params = task, params
        self.setup: Setup = task.setup()
        """Setup as a controller assumes it."""
        self.timing: LoopParams = params[LoopParams]
        self.sensor = make_sensor(task, self.setup, params)
        self.pushes: Pushes = params[Pushes]
        self.servo: Servo = task.servo(self.setup.robot, params[task.servo_params()])
        self.watch: Callable[[float], None] | None = None
        """Called with the simulated time of a rollout [s], once per pose."""
        self._plant_name = plant
        self.set_world(world)

    def set_world(self, world: World) -> None:
        """Make the plant of a world.

        Raises:
            ConfigError: rejected by the plant.
        """
        actual = self.setup if world == NOMINAL_WORLD else self.task.setup(world)
        self.world, self.actual = world, actual
        """Setup of the plant."""
        self.plant_start = actual.start
        """Start of the plant's object, which depends on its size."""
        name = self._plant_name
        self.plant = make_plant(name, actual.robot, actual.obj, self.params[plant_params(name)])

    def rollout(
        self,
        goals: Iterator[Goal],
        seed: int,
        seconds: float,
        *,
        hold: Callable[[float], np.ndarray | None] | None = None,
        until: Until = "time",
    ) -> Rollout:
        """Begin a rollout, see :class:`Rollout`."""
        return Rollout(self, goals, seed, seconds, hold=hold, until=until)

    def trouble(self) -> str:
        """Return the reason for which the servo tripped and the failures that the plant reports;
        empty if there are none."""
        plant = self.plant.trouble() if isinstance(self.plant, WatchedPlant) else ""
        trip = f"the servo is off: {self.servo.trip}" if self.servo.trip else ""
        return "; ".join(filter(None, [trip, plant]))


def make_sensor(task: Task, setup: Setup, params: Mapping[type, Any]) -> Sensor:
    """Return the pose sensor that the parameters choose.

    Raises:
        ConfigError: pictures of a robot that is no hand, or of an object without tags, or without the
            extra [camera].
    """
    sensor: PoseSensor = params[PoseSensor]
    if sensor.pose_source == "errors":
        return sensor
    require_camera()
    from dexstack.perception.bundle import object_bundle
    from dexstack.sim.camera_sensor import CameraSensor

    if not isinstance(setup.robot, HandModel):
        raise ConfigError(f"the camera sees hands; the robot of the task '{task.name}' is none")
    return CameraSensor(
        setup.robot,
        setup.obj,
        object_bundle(task.object),
        params[MountParams].X_WC(setup.robot.side),
        params[SimulatedCameraParams],
        params[EstimatorParams],
    )


class Sight(NamedTuple):
    """A sample of the pose sensor with the time at which it arrives and the true state at that time."""

    t: float
    """[s]"""
    sample: Sample
    pose_WO: np.ndarray
    """(7,) true object pose."""


class Rollout:
    """One rollout in simulated time, towards one goal after another.

    A pose arrives every ``pose_period`` [s], unless the sensor delays or omits it; a command reaches
    the servo when :meth:`command` says, while the plant goes on. The servo runs at its own period on
    the plant's joint positions. The rollout ends after its time, when the object is dropped, when the
    task ends it, or, if asked, when the last goal is reached or the object also rests there.
    """

    def __init__(
        self,
        world: Simulation,
        goals: Iterator[Goal],
        seed: int,
        seconds: float,
        *,
        hold: Callable[[float], np.ndarray | None] | None = None,
        until: Until = "time",
    ) -> None:
        """
        Args:
            seed: draws the start pose, the sensor's noise and the pushes: the rollout is repeatable.
            seconds: simulated time [s].
            hold: target (N,) that is in force at a time [s] although no sample came; None: none is.
            until: end before the time when the last goal is ``"reached"``, whether or not the
                object stays there, or ``"settled"``, see :attr:`Judge.settled`.
        """
        self._world, self._seconds, self._until = world, seconds, until
        self._rng = np.random.default_rng(seed)
        plant, task, setup = world.plant, world.task, world.setup
        plant.reset(setup.rest, task.start_pose(world.plant_start, self._rng))
        world.servo.reset()
        world.servo.enable()
        self.judge = Judge(task, setup.start, goals)
        self.t = 0.0
        """Time of the last physics step [s]."""
        self.torque = np.zeros(len(world.setup.rest))
        """(N,) joint torques in force [N m, N]."""
        self._hold = hold
        self._pending: list[tuple[float, np.ndarray]] = []

    def command(self, target: np.ndarray, at: float) -> None:
        """Send a joint target (N,) [rad, m] that reaches the servo at a time [s]."""
        self._pending.append((at, target))

    def _decided(self) -> bool:
        if self._until == "settled":
            return self.judge.settled
        return self._until == "reached" and self.judge.complete

    def sights(self) -> Iterator[Sight]:
        """Advance the rollout; yield every sample as it arrives, to be answered by :meth:`command`
        before the next."""
        world, plant, servo, judge = self._world, self._world.plant, self._world.servo, self.judge
        ticks, looks = 0, 0
        stream = PoseStream(world.sensor, world.timing.pose_period, plant.dt, self._rng)
        for k in range(round(self._seconds / plant.dt)):
            t = self.t = k * plant.dt
            if world.pushes.due(t - plant.dt, t):
                world.pushes.push(plant, self._rng)
            actual = plant.pose_WO
            stream.note(actual, np.array(plant.joint_position))
            if (sample := stream.take()) is not None:
                yield Sight(t, sample, actual)
            if t >= looks * world.timing.pose_period - 1e-9:
                looks += 1
                judge.look(t, actual)
                if world.watch is not None:
                    world.watch(t)
                if judge.dropped or judge.over or self._decided():
                    return
            while self._pending and t >= self._pending[0][0] - 1e-9:
                servo.set_command(self._pending.pop(0)[1], t)
            if self._hold is not None and (held := self._hold(t)) is not None:
                servo.set_command(held, t)
            if t >= ticks * servo.params.period - 1e-9:
                ticks += 1
                self.torque = servo.step(plant.joint_position, t).tau
            plant.step(self.torque)
