"""MuJoCo as a plant."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import mujoco

from dexengines.mujoco import MujocoScene
from dexstack.config import param
from dexstack.model.robot import Robot
from dexstack.model.scene import TIMESTEP
from dexstack.plants.scene_plant import ScenePlant


@dataclass(frozen=True)
class MujocoPlantParams:
    """Parameters of the MuJoCo plant."""

    dt: float = param(TIMESTEP, "length of one physics step [s]", 1e-4, 0.01)
    contact_time: float = param(
        0.02, "time constant of contacts, critically damped; two steps at least (solref) [s]", 1e-4, 1.0
    )

    def stiffened(self, factor: float) -> MujocoPlantParams:
        """Return parameters with contact stiffness, proportional to 1/``contact_time``², scaled by
        ``factor``."""
        return replace(self, contact_time=self.contact_time / math.sqrt(factor))


class MujocoPlant(ScenePlant):
    """Robot and object in MuJoCo, with force-driven, passively damped joints."""

    Params = MujocoPlantParams

    @classmethod
    def make_scene(cls, spec: mujoco.MjSpec, robot: Robot, params: MujocoPlantParams) -> MujocoScene:
        spec.option.timestep = params.dt
        for geom in spec.geoms:
            geom.solref[0] = params.contact_time
        return MujocoScene(spec.compile(), contact_time=params.contact_time)
