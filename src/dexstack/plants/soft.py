"""Soft contact as a plant."""

from __future__ import annotations

from dataclasses import dataclass, replace

import mujoco

from dexengines.soft.scene import DISSIPATIONS, SoftScene
from dexengines.soft.scm import ContactParams
from dexstack.config import param
from dexstack.model.robot import Robot
from dexstack.model.scene import OBJECT_BODY
from dexstack.plants.scene_plant import ScenePlant


@dataclass(frozen=True)
class SoftPlantParams:
    """Parameters of the soft plant."""

    dt: float = param(0.002, "length of one physics step [s]", 1e-4, 0.01)
    stiffness: float = param(1e4, "contact stiffness of a pair of bodies, k [N/m]", 1.0, 1e6)
    dissipation_speed: float = param(0.1, "separation speed scale of dissipation, v_d [m/s]", 1e-3, 10.0)
    stiction_speed: float = param(2e-5, "speed below which friction is viscous, v_s [m/s]", 1e-6, 0.1)
    onset: float = param(2e-4, "smoothing of the onset of force, ε3 [m]", 1e-6, 0.01)
    spread: float = param(5e-4, "smoothing among the points that touch, ε2 [m]", 1e-6, 0.01)
    roundness: float = param(0.2, "smoothing among planes, √ε1, in spacings of the points", 0.05, 5.0)
    dissipation: str = param(
        "paper", f"dissipation d(r): {' or '.join(DISSIPATIONS)} (paper: once, smooth: twice differentiable)"
    )
    palm_spacing: float = param(
        0.007, "spacing of the points on palm and object where they meet [m]", 1e-3, 0.05
    )
    finger_spacing: float = param(
        0.004, "spacing of the points on fingers and object where they meet [m]", 1e-3, 0.05
    )
    tolerance: float = param(
        1e-6, "share of the load that points and planes too far away to count may carry together", 1e-9, 1e-2
    )

    def stiffened(self, factor: float) -> SoftPlantParams:
        """Return parameters with contact stiffness scaled by ``factor``."""
        return replace(self, stiffness=factor * self.stiffness)


class SoftPlant(ScenePlant):
    """Robot and object with soft contact.

    The object touches the base and the links; the links do not touch each other.
    """

    Params = SoftPlantParams

    @classmethod
    def make_scene(cls, spec: mujoco.MjSpec, robot: Robot, params: SoftPlantParams) -> SoftScene:
        p, materials = params, {}
        spec.option.timestep = p.dt
        for geom in spec.geoms:
            body = geom.parent.name
            if geom.contype and body != OBJECT_BODY:
                geom.contype, geom.conaffinity = 1, 2
            elif geom.contype:
                geom.contype, geom.conaffinity = 2, 1
            base = body in ("world", robot.bodies[0].name)
            materials[geom.name] = {
                "stiffness": p.stiffness,
                "resolution": p.finger_spacing if body != OBJECT_BODY and not base else p.palm_spacing,
            }
        law = ContactParams(eps2=p.spread, eps3=p.onset, v_d=p.dissipation_speed, v_s=p.stiction_speed)
        how = {"roundness": p.roundness, "dissipation": p.dissipation, "tolerance": p.tolerance}
        return SoftScene(spec.compile(), materials, law=law, **how)
