"""The reference: MuJoCo."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from dexstack.config import param
from dexstack.engines.common.collision import Materials
from dexstack.engines.common.plant import ScenePlant, plant_model
from dexstack.engines.common.scene import Contact, Scene
from dexstack.model.objects import ObjectModel
from dexstack.model.robot import Robot
from dexstack.model.scene import TIMESTEP


class MujocoScene(Scene):
    """A model in MuJoCo, which takes all that MuJoCo takes; of the materials it uses friction alone."""

    engine = "mujoco"

    def __init__(self, model: mujoco.MjModel, materials: Materials = None) -> None:
        self.data = mujoco.MjData(model)
        super().__init__(model, materials)

    @property
    def time(self) -> float:
        return self.data.time

    @property
    def activation(self) -> np.ndarray:
        return self.data.act

    def values(self) -> tuple[np.ndarray, np.ndarray]:
        return self.data.qpos, self.data.qvel

    def place(self, q: np.ndarray, v: np.ndarray, time: float = 0.0, activation: np.ndarray | None = None) -> None:
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:], self.data.qvel[:], self.data.time = q, v, time
        if activation is not None:
            self.data.act[:] = activation
        mujoco.mj_forward(self.model, self.data)

    def advance(self, tau: np.ndarray) -> bool:
        self.data.qfrc_applied[:] = tau
        mujoco.mj_step(self.model, self.data)
        return bool(np.isfinite(self.data.qvel).all())

    def push(self, tau: np.ndarray) -> bool:
        return self.advance(tau)

    def _drive(self, control: np.ndarray) -> bool:
        self.data.ctrl[:] = control
        return self.advance(np.zeros(self.model.nv))

    def _contacts(self, control: np.ndarray) -> list[Contact]:
        self.data.ctrl[:] = control
        mujoco.mj_forward(self.model, self.data)
        result, wrench = [], np.zeros(6)
        geoms = {g.id: g for g in self.collision.geoms}
        for k, c in enumerate(self.data.contact):
            if c.exclude or c.geom.min() < 0:
                continue
            mujoco.mj_contactForce(self.model, self.data, k, wrench)
            R_CW = c.frame.reshape(3, 3)
            result.append(self._report(*(geoms[int(g)] for g in c.geom), c.pos.copy(), R_CW[0].copy(), c.dist, R_CW.T @ wrench[:3]))
        return result


@dataclass(frozen=True)
class MujocoPlantParams:
    """Parameters of the MuJoCo plant."""

    dt: float = param(TIMESTEP, "length of one physics step [s]", 1e-4, 0.01)


class MujocoPlant(ScenePlant):
    """Hand (or balls) and object in MuJoCo, with force-driven, passively damped joints; see :class:`dexstack.engines.base.Plant`."""

    def __init__(self, robot: Robot, obj: ObjectModel, params: MujocoPlantParams | None = None) -> None:
        scene = MujocoScene(plant_model(robot, obj, (params or MujocoPlantParams()).dt))
        self.data = scene.data
        super().__init__(robot, obj, scene)
