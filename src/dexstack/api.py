"""The stack as a library: a planner to ask, and a closed loop to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.control.base import Observation, Plan
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.process.compilation import use_compilation_cache
from dexstack.sim.loop import Loop
from dexstack.tasks.base import AS_BELIEVED, Goal, Scene, Task, World
from dexstack.tasks.controller import Controller


def _spec(
    task: str | type[Task],
    obj: str,
    hand: str,
    files: Sequence[str | Path],
    set: Mapping[str, Any],
    plant: str,
) -> Spec:
    return Spec(task, obj, hand, tuple(map(str, files)), tuple(sorted(set.items())), plant)


class Planner:
    """Contact detection and planner of one task, object and hand; compiled when it is made.

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
            task: name, path of a Python file, or a class.
            object: name, or the path of an object's YAML.
            hand: side, or the path of a hand's YAML.
            files: parameter files after the task's own.
            set: single parameters that win over all files, e.g. ``{"model": "dual"}``.

        Raises:
            ConfigError: an unknown name, a file that cannot be used, a parameter out of its range.
        """
        use_compilation_cache()
        spec = _spec(task, object, hand, files, set or {}, "mujoco")
        settings = read_settings(spec)
        self.task = make_task(spec, settings)
        self.scene: Scene = self.task.scene()
        self._controller = Controller(self.task, self.scene, settings)
        self._controller.warm_up()

    @property
    def weights(self) -> Any:
        """The cost's weights: an immutable block, to be replaced as a whole
        (``dataclasses.replace``)."""
        return self._controller.planner.weights

    @weights.setter
    def weights(self, weights: Any) -> None:
        self._controller.planner.weights = weights

    @property
    def theta(self) -> Any:
        """θ of the model that is planned with, to be replaced as a whole."""
        return self._controller.planner.theta

    @theta.setter
    def theta(self, theta: Any) -> None:
        self._controller.planner.theta = theta

    def start(self) -> Observation:
        """The state in which a trial starts, without its noise."""
        return self.observe(self.scene.start.pose_WO, self.scene.rest)

    def observe(self, pose_WO: np.ndarray, q: np.ndarray, t: float = 0.0) -> Observation:
        """What is seen of an object pose (7,) [m, wxyz] and joint positions (N,) [rad, m] at time
        ``t`` [s]: these, and their contacts."""
        return Observation(
            t, np.asarray(pose_WO, float), np.asarray(q, float), self._controller.detector.detect(pose_WO, q)
        )

    def plan(self, observation: Observation, goal: Goal | np.ndarray) -> Plan:
        """The next command and what it leads to; the warm start is that of the plan before."""
        return self._controller.planner.plan(observation, _pose(goal))

    def plan_batch(self, observations: Sequence[Observation], goals: Sequence[Goal | np.ndarray]) -> Plan:
        """Plans from many states at once, each from a cold start; every array of the plan has a
        leading axis.

        Raises:
            ConfigError: the planner has no batches.
        """
        import jax

        from dexstack.errors import ConfigError

        batch = getattr(self._controller.planner, "plan_batch", None)
        if batch is None:
            raise ConfigError(
                f"the planner {type(self._controller.planner).__name__} plans one state at a time"
            )
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *observations)
        return batch(stacked, np.stack([_pose(goal) for goal in goals]))

    def reset(self) -> None:
        """Forget the warm start."""
        self._controller.planner.reset()


def closed_loop(
    task: str | type[Task] = "palm_turn",
    object: str = "cube",
    hand: str = "right",
    *,
    plant: str = "mujoco",
    world: World = AS_BELIEVED,
    files: Sequence[str | Path] = (),
    set: Mapping[str, Any] | None = None,
) -> Loop:
    """A closed loop in this process: ``closed_loop().run(k=0, seed=0)`` runs the first trial of the
    task.

    Args:
        plant: name of a physics engine, see :data:`dexstack.plants.PLANTS`.
        world: factors on mass, friction and size that the plant has and the controller does not
            know.

    Raises:
        ConfigError: see :class:`Planner`; or the plant refuses hand, object or parameters.
    """
    use_compilation_cache()
    spec = _spec(task, object, hand, files, set or {}, plant)
    settings = read_settings(spec)
    return Loop(make_task(spec, settings), settings, plant, world)


def _pose(goal: Goal | np.ndarray) -> np.ndarray:
    return goal.pose_WO if isinstance(goal, Goal) else np.asarray(goal, float)
