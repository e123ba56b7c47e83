"""The reference plant: MuJoCo."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from dexstack.config import param
from dexstack.errors import ConfigError
from dexstack.model.description import number_list, quaternion
from dexstack.model.objects import ObjectModel
from dexstack.model.robot import Robot
from dexstack.model.scene import TIMESTEP, robot_scene


@dataclass(frozen=True)
class MujocoPlantParams:
    """Parameters of the MuJoCo plant."""

    dt: float = param(TIMESTEP, "length of one physics step [s]", 1e-4, 0.01)


class MujocoPlant:
    """Hand (or balls) and object in MuJoCo, with force-driven, passively damped joints; see :class:`dexstack.engines.base.Plant`."""

    def __init__(self, robot: Robot, obj: ObjectModel, params: MujocoPlantParams | None = None) -> None:
        params = params or MujocoPlantParams()
        spec = robot_scene(robot, obj)
        spec.option.timestep = params.dt
        self.dt = params.dt
        self.model = spec.compile()
        """The compiled scene; state layout as :mod:`dexstack.model.scene` says."""
        self.data = mujoco.MjData(self.model)
        self._n = len(robot.joint_names)
        start = next(iter(obj.starts.values()))
        self.reset(robot.pose(start.hand_pose), start.pose_WO)

    @property
    def time(self) -> float:
        return self.data.time

    @property
    def joint_position(self) -> np.ndarray:
        return self.data.qpos[: self._n].copy()

    @property
    def joint_velocity(self) -> np.ndarray:
        return self.data.qvel[: self._n].copy()

    @property
    def pose_WO(self) -> np.ndarray:
        return self.data.qpos[self._n :].copy()

    @property
    def twist_WO(self) -> np.ndarray:
        return self.data.qvel[self._n :].copy()

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
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[: self._n] = q
        self.data.qpos[self._n :] = pose
        self.data.qvel[:] = velocity
        mujoco.mj_forward(self.model, self.data)

    def step(self, tau: np.ndarray) -> None:
        """Advance by ``dt``; torques are applied as given, whoever computes them limits them.

        Raises:
            ConfigError: ``tau`` is not (N,) and finite.
            FloatingPointError: the simulation diverged.
        """
        if tau.shape != (self._n,) or not np.isfinite(tau).all():
            raise ConfigError(f"the plant needs {self._n} finite torques, got {tau!r}")
        self.data.qfrc_applied[: self._n] = tau
        mujoco.mj_step(self.model, self.data)
        if not np.isfinite(self.data.qvel).all():
            raise FloatingPointError(f"the MuJoCo plant diverged at {self.data.time:.3f} s")
