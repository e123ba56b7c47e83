"""The closed loop of one task in one process: plant, servo, sensor and controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dexstack.control.params import PlannerParams
from dexstack.plants import make_plant, plant_params
from dexstack.sim.disturbance import Pushes
from dexstack.sim.params import LoopParams
from dexstack.sim.sensor import PoseSensor, Sensor
from dexstack.sim.trial import Servo, Trial, run_trial
from dexstack.tasks.base import NOMINAL_WORLD, Goal, Setup, Task, World
from dexstack.tasks.controller import make_controller


class Loop:
    """Runs trials of one task; the planner is compiled at construction."""

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
            ConfigError: rejected by controller or plant.
        """
        self.task, self.params = task, params
        self.setup: Setup = task.setup()
        """Setup as the controller assumes it."""
        self.actual: Setup = self.setup if world == NOMINAL_WORLD else task.setup(world)
        """Setup of the plant."""
        self.plant_start = self.actual.start
        """Start of the plant's object, which depends on its size."""
        self.plant = make_plant(plant, self.actual.robot, self.actual.obj, params[plant_params(plant)])
        self.servo: Servo = task.servo(self.setup.robot, params[task.servo_params()])
        self.controller = make_controller(task, self.setup, params)
        self.compile_s = self.controller.warm_up()
        """Time in which the planner compiled [s]."""
        self.timing: LoopParams = params[LoopParams]
        self.sensor: Sensor = params[PoseSensor]
        self.pushes: Pushes = params[Pushes]
        self.detector, self.planner = self.controller.detector, self.controller.planner
        self.supervisor = self.controller.supervisor

    @property
    def model(self) -> str:
        """Name of the time-stepping model."""
        return self.params[PlannerParams].model

    def run(
        self,
        k: int,
        seed: int,
        seconds: float | None = None,
        *,
        goals: Iterator[Goal] | None = None,
        measured_latency: bool = False,
        until_reached: bool = False,
    ) -> Trial:
        """Run the k-th trial of the task, see :func:`~dexstack.sim.trial.run_trial`.

        Args:
            seed: seed of random goals; the noise of the k-th trial has the seed ``seed`` + k.
            seconds: simulated time [s]; None: the task's.
            goals: None: the task's.
        """
        return run_trial(
            self,
            goals or self.task.goals(k, seed),
            seed + k,
            self.task.seconds() if seconds is None else seconds,
            measured_latency=measured_latency,
            until_reached=until_reached,
        )
