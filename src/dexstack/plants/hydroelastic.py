"""Pressure field contact as a plant: compliant fingertips, a rigid or compliant object."""

from __future__ import annotations

from dataclasses import dataclass, replace

import mujoco
import numpy as np

from dexengines.hydroelastic.scene import SCHEMES, HydroelasticScene
from dexengines.report import Patch
from dexstack.config import param
from dexstack.errors import ConfigError
from dexstack.model.hand import HandModel
from dexstack.model.robot import Robot
from dexstack.model.scene import OBJECT_BODY
from dexstack.plants.scene_plant import ScenePlant

OBJECT_KINDS = ("rigid", "compliant")


@dataclass(frozen=True)
class HydroelasticPlantParams:
    """Parameters of the hydroelastic plant."""

    dt: float = param(0.002, "length of one physics step [s]", 1e-4, 0.01)
    scheme: str = param("lagged", f"how friction is made convex: {' or '.join(SCHEMES)}")
    tip_modulus: float = param(2e5, "pressure in the core of the fingertips [Pa]", 1e3, 1e10)
    hand_modulus: float = param(1e7, "pressure in the core of palm and links [Pa]", 1e3, 1e10)
    object_kind: str = param("rigid", f"the object is {' or '.join(OBJECT_KINDS)}")
    object_modulus: float = param(1e7, "pressure in the core of a compliant object [Pa]", 1e3, 1e10)
    tip_resolution: float = param(0.006, "longest edge of the fingertips' meshes [m]", 1e-4, 0.1)
    link_resolution: float = param(0.02, "longest edge of the other round shapes' meshes [m]", 1e-4, 0.1)
    relaxation_time: float = param(0.01, "time constant in which contact dissipates, per body [s]", 0.0, 1.0)

    def stiffened(self, factor: float) -> HydroelasticPlantParams:
        """Return parameters with the moduli of compliant bodies scaled by ``factor``."""
        tip, hand, obj = (
            factor * modulus for modulus in (self.tip_modulus, self.hand_modulus, self.object_modulus)
        )
        return replace(self, tip_modulus=tip, hand_modulus=hand, object_modulus=obj)


class HydroelasticPlant(ScenePlant):
    """Robot and object with pressure field contact, compliant at the fingertips."""

    Params = HydroelasticPlantParams

    @classmethod
    def make_scene(
        cls, spec: mujoco.MjSpec, robot: Robot, params: HydroelasticPlantParams
    ) -> HydroelasticScene:
        kind, known = params.object_kind, " or ".join(OBJECT_KINDS)
        if kind not in OBJECT_KINDS:
            raise ConfigError(
                f"parameter 'object_kind' of the hydroelastic plant must be {known}, got {kind!r}"
            )
        spec.option.timestep = params.dt
        model = spec.compile()
        return HydroelasticScene(model, _materials(model, robot, params), scheme=params.scheme)

    def patches(self) -> list[Patch]:
        """Return the contact surfaces of the last step; see
        :class:`dexstack.plants.base.PatchPlant`."""
        return self.scene.patches()


def _materials(
    model: mujoco.MjModel, robot: Robot, p: HydroelasticPlantParams
) -> dict[str, dict[str, float]]:
    """Return the materials: fingertips are compliant, the object is compliant or rigid."""
    object_modulus = np.inf if p.object_kind == "rigid" else p.object_modulus
    result = {"default": {"relaxation_time": p.relaxation_time}}
    soft = tips(robot)
    for g in range(model.ngeom):
        name, body = model.geom(g).name, model.body(model.geom_bodyid[g]).name
        tip = name in soft
        result[name] = {
            "modulus": object_modulus if body == OBJECT_BODY else p.tip_modulus if tip else p.hand_modulus,
            "resolution": p.tip_resolution if tip else p.link_resolution,
        }
    return result


def tips(robot: Robot) -> set[str]:
    """Return the names of a robot's fingertip geoms: the round shapes around a hand's fingertip
    centres, or the balls."""
    if not isinstance(robot, HandModel):
        return {part.name for part in robot.bodies[1:]}
    return {
        f"{body.name}/{k}"
        for i, body in enumerate(robot.bodies)
        for k, shape in enumerate(body.shapes)
        for tip in robot.fingertips
        if tip.body == i
        and shape.kind in ("capsule", "sphere")
        and np.linalg.norm(shape.p - tip.p_BT) < 2.0 * robot.fingertip_radius
    }
