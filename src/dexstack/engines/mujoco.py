"""The reference plant: MuJoCo."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from dexstack.config import param
from dexstack.engines.common import ScenePlant
from dexstack.model.objects import ObjectModel
from dexstack.model.robot import Robot
from dexstack.model.scene import TIMESTEP, robot_scene


@dataclass(frozen=True)
class MujocoPlantParams:
    """Parameters of the MuJoCo plant."""

    dt: float = param(TIMESTEP, "length of one physics step [s]", 1e-4, 0.01)


class MujocoPlant(ScenePlant):
    """Hand (or balls) and object in MuJoCo, with force-driven, passively damped joints; see :class:`dexstack.engines.base.Plant`."""

    def __init__(self, robot: Robot, obj: ObjectModel, params: MujocoPlantParams | None = None) -> None:
        params = params or MujocoPlantParams()
        spec = robot_scene(robot, obj)
        spec.option.timestep = params.dt
        self.dt = params.dt
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        super().__init__(robot, obj)

    @property
    def time(self) -> float:
        return self.data.time

    def _state(self) -> tuple[np.ndarray, np.ndarray]:
        return self.data.qpos, self.data.qvel

    def _place(self, q: np.ndarray, v: np.ndarray) -> None:
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:], self.data.qvel[:] = q, v
        mujoco.mj_forward(self.model, self.data)

    def _advance(self, tau: np.ndarray) -> bool:
        self.data.qfrc_applied[: self._n] = tau
        mujoco.mj_step(self.model, self.data)
        return bool(np.isfinite(self.data.qvel).all())
