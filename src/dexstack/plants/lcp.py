"""Rigid contact as a plant."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco

from dexengines.lcp.scene import LcpScene
from dexstack.config import param
from dexstack.model.robot import Robot
from dexstack.model.scene import OBJECT_BODY
from dexstack.plants.scene_plant import ScenePlant


@dataclass(frozen=True)
class LcpPlantParams:
    """Parameters of the lcp plant."""

    dt: float = param(0.002, "length of one physics step [s]", 1e-4, 0.01)
    directions: int = param(
        2, "friction directions per contact; the friction polygon has twice as many corners", 2, 16
    )
    restitution: float = param(0.0, "restitution between hand and object", 0.0, 1.0)

    def stiffened(self, factor: float) -> LcpPlantParams:
        """Return the parameters unchanged: contacts are rigid."""
        return self


class LcpPlant(ScenePlant):
    """Robot and object in rigid contact."""

    Params = LcpPlantParams

    @classmethod
    def make_scene(cls, spec: mujoco.MjSpec, robot: Robot, params: LcpPlantParams) -> LcpScene:
        spec.option.timestep = params.dt
        restitution = {"restitution": params.restitution}
        materials = {geom.name: restitution for geom in spec.geoms if geom.parent.name == OBJECT_BODY}
        return LcpScene(spec.compile(), materials, directions=params.directions)
