"""The stack as a library: :class:`Planner` plans once, :func:`closed_loop` runs trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.control.base import Observation, Plan
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.process.compilation import use_compilation_cache
from dexstack.sim.loop import Loop
from dexstack.tasks.base import NOMINAL_WORLD, Goal, Setup, Task, World
from dexstack.tasks.controller import make_controller


class Planner:
    """Contact detection and planner of one task, object and hand; compiled at construction.

    Example::

        planner = dexstack.Planner(object="foambrick")
        plan = planner.plan(planner.start(), planner.task.at_yaw(0.5))
        plan.q_des  # (16,) joint targets [rad]
    """

    def __init__(
        self,
        task: str | type[Task] = "palm_turn",
        object: str = "cube",
        hand: str = "right",
        *,
        files: Sequence[str | Path] = (),
        set: Mapping[str, Any] | None = None,
    ) -> None:
        """
        Args:
            task: name, path of a Python file, or class.
            object: name, or path of an object's YAML file.
            hand: side, or path of a hand's YAML file.
            files: parameter files that follow the task's; the last wins.
            set: single parameters that win over all files, e.g. ``{"model": "dsdf"}``.

        Raises:
            ConfigError: unknown name, unusable file, or parameter out of range.
        """
        use_compilation_cache()
        spec = Spec(task, object, hand, tuple(map(str, files)), tuple(sorted((set or {}).items())))
        settings = read_settings(spec)
        self.task = make_task(spec, settings)
        self.setup: Setup = self.task.setup()
        controller = make_controller(self.task, self.setup, settings)
        controller.warm_up()
        self._detector, self._planner = controller.detector, controller.planner

    @property
    def weights(self) -> Any:
        """Weights of the cost, an immutable block; replace it as a whole
        (``dataclasses.replace``)."""
        return self._planner.weights

    @weights.setter
    def weights(self, weights: Any) -> None:
        self._planner.weights = weights

    @property
    def theta(self) -> Any:
        """θ of the planner's model; replace it as a whole."""
        return self._planner.theta

    @theta.setter
    def theta(self, theta: Any) -> None:
        self._planner.theta = theta

    def start(self) -> Observation:
        """Return the state in which a trial starts, without noise."""
        return self.observe(self.setup.start.pose_WO, self.setup.rest)

    def observe(self, pose_WO: np.ndarray, q: np.ndarray, t: float = 0.0) -> Observation:
        """Detect contacts at object pose (7,) [m, wxyz] and joint positions (N,) [rad, m], and return
        the observation at time ``t`` [s]."""
        contacts = self._detector.detect(pose_WO, q)
        return Observation(t, np.asarray(pose_WO, float), np.asarray(q, float), contacts)

    def plan(self, observation: Observation, goal: Goal | np.ndarray) -> Plan:
        """Plan towards a goal, warm-started by the last plan."""
        return self._planner.plan(observation, _pose(goal))

    def plan_batch(self, observations: Sequence[Observation], goals: Sequence[Goal | np.ndarray]) -> Plan:
        """Plan from many states at once, each from a cold start; return one plan whose arrays have a
        leading axis.

        Raises:
            ConfigError: the planner plans one state at a time.
        """
        import jax

        from dexstack.errors import ConfigError

        batch = getattr(self._planner, "plan_batch", None)
        if batch is None:
            raise ConfigError(f"the planner {type(self._planner).__name__} plans one state at a time")
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *observations)
        return batch(stacked, np.stack([_pose(goal) for goal in goals]))

    def reset(self) -> None:
        """Discard the warm start."""
        self._planner.reset()


def closed_loop(
    task: str | type[Task] = "palm_turn",
    object: str = "cube",
    hand: str = "right",
    *,
    plant: str = "mujoco",
    world: World = NOMINAL_WORLD,
    files: Sequence[str | Path] = (),
    set: Mapping[str, Any] | None = None,
) -> Loop:
    """Return a closed loop in this process: ``closed_loop().run(k=0, seed=0)`` runs the first trial
    of the task.

    Args:
        plant: name of a physics engine, see :data:`dexstack.plants.PLANTS`.
        world: true mass, friction, size and so on of the plant, unknown to the controller.

    Raises:
        ConfigError: see :class:`Planner`; or the plant rejects hand, object or parameters.
    """
    use_compilation_cache()
    spec = Spec(task, object, hand, tuple(map(str, files)), tuple(sorted((set or {}).items())), plant)
    settings = read_settings(spec)
    return Loop(make_task(spec, settings), settings, plant, world)


def _pose(goal: Goal | np.ndarray) -> np.ndarray:
    return goal.pose_WO if isinstance(goal, Goal) else np.asarray(goal, float)
