"""A plant of a robot and one free object in any engine."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import mujoco
import numpy as np

from dexengines.scene import Scene
from dexstack.errors import ConfigError
from dexstack.model.description import number_list, quaternion
from dexstack.model.objects import ObjectModel
from dexstack.model.robot import Robot
from dexstack.model.scene import JointLayout, robot_scene
from dexstack.plants import engine_errors


def stiffened(params: Any, obj: ObjectModel) -> Any:
    """Return a plant's parameters with contact stiffness scaled by the object's
    ``contact_stiffness``.

    Raises:
        ConfigError: the factor is not one and the parameters' class has no ``stiffened(factor)``.
    """
    if obj.contact_stiffness == 1.0:
        return params
    if not hasattr(params, "stiffened"):
        raise ConfigError(
            f"{type(params).__name__} has no 'stiffened', which a world's 'contact_stiffness' needs"
        )
    return params.stiffened(obj.contact_stiffness)


class ScenePlant(abc.ABC):
    """A :class:`dexstack.plants.base.Plant` of a scene whose state has the layout of
    :mod:`dexstack.model.scene`.

    Args:
        robot, obj: set to the object's first start.
        params: of the class :attr:`Params`; its defaults if None.

    Raises:
        ConfigError: the engine rejects a parameter, shape or feature.
    """

    Params: ClassVar[type]
    """Dataclass of the plant's parameters, declared with :func:`dexstack.config.param`."""

    @engine_errors()
    def __init__(self, robot: Robot, obj: ObjectModel, params: Any = None) -> None:
        params = stiffened(params or self.Params(), obj)
        self.scene = scene = self.make_scene(robot_scene(robot, obj), robot, params)
        self.dt, self.model = scene.dt, scene.model
        self._n, self._layout = len(robot.joint_names), JointLayout(scene.model)
        self._tau = np.zeros(scene.model.nv)
        self._gain = robot.torque
        start = next(iter(obj.starts.values()))
        self.reset(robot.pose(start.hand_pose), start.pose_WO)

    @classmethod
    @abc.abstractmethod
    def make_scene(cls, spec: mujoco.MjSpec, robot: Robot, params: Any) -> Scene:
        """Return the scene of a robot and an object, which may have actuators; changes the spec.

        Raises:
            ConfigError, EngineError: the engine rejects a parameter, shape or feature.
        """

    @property
    def time(self) -> float:
        return self.scene.time

    def trouble(self) -> str:
        """See :class:`dexstack.plants.base.WatchedPlant`."""
        return self.scene.trouble()

    @property
    def joint_position(self) -> np.ndarray:
        return self.scene.values()[0][self._layout.own]

    @property
    def joint_velocity(self) -> np.ndarray:
        return self.scene.values()[1][self._layout.own]

    @property
    def pose_WO(self) -> np.ndarray:
        return self.scene.values()[0][-7:].copy()

    @property
    def twist_WO(self) -> np.ndarray:
        return self.scene.values()[1][-6:].copy()

    @engine_errors()
    def reset(self, q_hand: np.ndarray, pose_WO: np.ndarray, v: np.ndarray | None = None) -> None:
        """Restart at time zero; see :meth:`Plant.reset`.

        Raises:
            ConfigError: wrong size, not finite, or a quaternion that is not of unit length.
        """
        where = "reset of the plant"
        q = number_list(where, "q_hand", q_hand, self._n)
        pose = number_list(where, "pose_WO", pose_WO, 7)
        pose[3:] = quaternion(where, "pose_WO[3:7]", pose[3:])
        velocity = np.zeros(self._n + 6) if v is None else number_list(where, "v", v, self._n + 6)
        joints, rates = self._layout.coordinates(q), self._layout.rates(velocity[: self._n])
        self.scene.place(np.concatenate([joints, pose]), np.concatenate([rates, velocity[self._n :]]))

    def step(self, tau: np.ndarray) -> None:
        """Advance by ``dt`` under torques (N,), which are not limited here.

        Raises:
            ConfigError: ``tau`` is not (N,) and finite.
            FloatingPointError: the simulation diverged.
        """
        if tau.shape != (self._n,) or not np.isfinite(tau).all():
            raise ConfigError(f"the plant needs {self._n} finite torques, got {tau!r}")
        self._tau[self._layout.own] = self._gain * tau
        if not self.scene.push(self._tau):
            raise FloatingPointError(f"the simulation diverged at {self.time:.3f} s ({self.scene.engine})")
