"""The plant of a robot and one free object in any engine: its state, how it is set, and what is
refused."""

from __future__ import annotations

import abc
from typing import Any

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
    """A plant's parameters with contacts as stiff as the object says, relative to what they say.

    Raises:
        ConfigError: the object asks for another stiffness, and the parameters' class has no
            ``stiffened(factor)``.
    """
    if obj.contact_stiffness == 1.0:
        return params
    if not hasattr(params, "stiffened"):
        raise ConfigError(
            f"{type(params).__name__} has no 'stiffened', which a world's 'contact_stiffness' needs"
        )
    return params.stiffened(obj.contact_stiffness)


class ScenePlant(abc.ABC):
    """A :class:`dexstack.plants.base.Plant` of a scene whose state is laid out as
    :mod:`dexstack.model.scene` says.

    The constructor puts everything to the object's first start.
    """

    @engine_errors()
    def __init__(self, robot: Robot, obj: ObjectModel, params: Any) -> None:
        self.scene = scene = self.make_scene(robot_scene(robot, obj), robot, stiffened(params, obj))
        self.dt, self.model = scene.dt, scene.model
        self._n, self._layout = len(robot.joint_names), JointLayout(scene.model)
        self._tau = np.zeros(scene.model.nv)
        self._gain = robot.torque
        start = next(iter(obj.starts.values()))
        self.reset(robot.pose(start.hand_pose), start.pose_WO)

    @classmethod
    @abc.abstractmethod
    def make_scene(cls, spec: mujoco.MjSpec, robot: Robot, params: Any) -> Scene:
        """The scene of this plant, with its parameters, of a robot and an object, who may have
        actuators; changes the spec.

        Raises:
            ConfigError: what the engine refuses.
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
        """Start again at time zero; see :meth:`Plant.reset`.

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
        """Advance by ``dt``; torques are applied as given, whoever computes them limits them.

        Raises:
            ConfigError: ``tau`` is not (N,) and finite.
            FloatingPointError: the simulation diverged.
        """
        if tau.shape != (self._n,) or not np.isfinite(tau).all():
            raise ConfigError(f"the plant needs {self._n} finite torques, got {tau!r}")
        self._tau[self._layout.own] = self._gain * tau
        if not self.scene.push(self._tau):
            raise FloatingPointError(f"the simulation diverged at {self.time:.3f} s ({self.scene.engine})")
