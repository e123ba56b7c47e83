"""The closed loop of one task in one process: plant, servo, sensor and controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dexstack.control.factory import PlannerParams
from dexstack.control.params import BlindParams
from dexstack.plants import make_plant, plant_params
from dexstack.sim.disturbance import Pushes
from dexstack.sim.params import LoopParams
from dexstack.sim.sensor import PoseSensor
from dexstack.sim.trial import Servo, Trial, run_trial
from dexstack.tasks.base import AS_BELIEVED, Goal, Scene, Task, World
from dexstack.tasks.controller import Controller


class Loop:
    """Everything that runs trials of one task; the planner is compiled when it is made.

    Raises:
        ConfigError: what controller or plant refuses.
    """

    def __init__(
        self, task: Task, params: Mapping[type, Any], plant: str = "mujoco", world: World = AS_BELIEVED
    ) -> None:
        """
        Args:
            params: one object of every parameter class, see
                :func:`dexstack.graph.settings.read_settings`.
            plant: name of the physics engine.
            world: what the plant has of what the controller believes.
        """
        self.task, self.params = task, params
        self.scene: Scene = task.scene()
        self.actual: Scene = self.scene if world == AS_BELIEVED else task.scene(world)
        """As the plant has it."""
        self.plant_start = self.actual.start
        """Where the plant's object starts: an object of another size stands elsewhere."""
        self.plant = make_plant(plant, self.actual.robot, self.actual.obj, params[plant_params(plant)])
        self.servo: Servo = task.servo(self.scene.robot, params[task.servo_params()])
        self.controller = Controller(task, self.scene, params)
        self.compile_s = self.controller.warm_up()
        """Time that the planner took to compile [s]."""
        parts = "detector", "predictor", "planner", "supervisor"
        self.detector, self.predictor, self.planner, self.supervisor = (
            getattr(self.controller, name) for name in parts
        )
        self.blind: BlindParams = params[BlindParams]
        self.timing: LoopParams = params[LoopParams]
        self.sensor: PoseSensor = params[PoseSensor]
        self.pushes: Pushes = params[Pushes]

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
        """The k-th trial of the task, see :func:`~dexstack.sim.trial.run_trial`.

        Args:
            seed: draws goals that are drawn; the noise of the k-th trial is drawn by seed + k.
            seconds: simulated time; None: the task's.
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
