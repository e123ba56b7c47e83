"""What the plants of a robot and one free object have in common: their state, how it is set, and what is refused."""

from __future__ import annotations

import abc

import mujoco
import numpy as np

from dexstack.errors import ConfigError
from dexstack.model.description import number_list, quaternion
from dexstack.model.objects import ObjectModel
from dexstack.model.robot import Robot


class ScenePlant(abc.ABC):
    """A :class:`dexstack.engines.base.Plant` of a scene whose state is laid out as :mod:`dexstack.model.scene` says.

    An engine sets ``dt`` and ``model``, then calls this constructor, which puts everything to the object's first start.
    """

    dt: float
    model: mujoco.MjModel
    """The compiled scene."""

    def __init__(self, robot: Robot, obj: ObjectModel) -> None:
        self._n = len(robot.joint_names)
        start = next(iter(obj.starts.values()))
        self.reset(robot.pose(start.hand_pose), start.pose_WO)

    @property
    @abc.abstractmethod
    def time(self) -> float: ...

    @abc.abstractmethod
    def _state(self) -> tuple[np.ndarray, np.ndarray]:
        """The engine's own positions (N + 7,) and velocities (N + 6,)."""

    @abc.abstractmethod
    def _place(self, q: np.ndarray, v: np.ndarray) -> None:
        """Start again at time zero, at positions (N + 7,) and velocities (N + 6,)."""

    @abc.abstractmethod
    def _advance(self, tau: np.ndarray) -> bool:
        """One step; whether the state is finite after it."""

    @property
    def joint_position(self) -> np.ndarray:
        return self._state()[0][: self._n].copy()

    @property
    def joint_velocity(self) -> np.ndarray:
        return self._state()[1][: self._n].copy()

    @property
    def pose_WO(self) -> np.ndarray:
        return self._state()[0][self._n :].copy()

    @property
    def twist_WO(self) -> np.ndarray:
        return self._state()[1][self._n :].copy()

    def reset(self, q_hand: np.ndarray, pose_WO: np.ndarray, v: np.ndarray | None = None) -> None:
        """Start again at time zero; see :meth:`Plant.reset`.

        Raises:
            ConfigError: wrong size, not finite, or a quaternion that is not of unit length.
        """
        where = "reset of the plant"
        q = number_list(where, "q_hand", q_hand, self._n)
        pose = number_list(where, "pose_WO", pose_WO, 7)
        pose[3:] = quaternion(where, "pose_WO[3:7]", pose[3:])
        velocity = np.zeros(self.model.nv) if v is None else number_list(where, "v", v, self.model.nv)
        self._place(np.concatenate([q, pose]), velocity)

    def step(self, tau: np.ndarray) -> None:
        """Advance by ``dt``; torques are applied as given, whoever computes them limits them.

        Raises:
            ConfigError: ``tau`` is not (N,) and finite.
            FloatingPointError: the simulation diverged.
        """
        if tau.shape != (self._n,) or not np.isfinite(tau).all():
            raise ConfigError(f"the plant needs {self._n} finite torques, got {tau!r}")
        if not self._advance(tau):
            raise FloatingPointError(f"the simulation diverged at {self.time:.3f} s ({type(self).__name__})")
