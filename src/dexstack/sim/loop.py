"""The closed loop of one task in one process: plant, servo, sensor and controller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dexstack.control.params import PlannerParams
from dexstack.sim.simulation import Simulation, Until
from dexstack.sim.trial import Trial, run_trial
from dexstack.tasks.base import NOMINAL_WORLD, Goal, Task, World
from dexstack.tasks.controller import make_controller


class Loop(Simulation):
    """Runs trials of one task; the planner is compiled at construction."""

    def __init__(
        self, task: Task, params: Mapping[type, Any], plant: str = "mujoco", world: World = NOMINAL_WORLD
    ) -> None:
        """See :class:`~dexstack.sim.simulation.Simulation`.

        Raises:
            ConfigError: rejected by controller or plant.
        """
        super().__init__(task, params, plant, world)
        self.controller = make_controller(task, self.setup, params)
        self.compile_s = self.controller.warm_up()
        """Time in which the planner compiled [s]."""
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
        until: Until = "time",
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
            until=until,
        )
