"""The hydroelastic plant: the hand's shapes as pressure fields, soft at the fingertips, and one object."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from dexstack.config import param
from dexstack.engines.base import Patch
from dexstack.engines.common import ScenePlant
from dexstack.engines.hydroelastic import shapes
from dexstack.engines.hydroelastic.convex import LAGGED, SAP, SolveStatus
from dexstack.engines.hydroelastic.fields import CompliantMesh, RigidMesh
from dexstack.engines.hydroelastic.system import Geometry, HydroelasticSystem, Wrench, contactless, moved
from dexstack.errors import ConfigError
from dexstack.model.hand import HandModel
from dexstack.model.objects import ObjectModel
from dexstack.model.scene import OBJECT_BODY, build_scene
from dexstack.model.urdf import Shape

SCHEMES = {"lagged": LAGGED, "sap": SAP}
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


class HydroelasticPlant(ScenePlant):
    """Hand and object with pressure field contact; see :class:`dexstack.engines.base.Plant`.

    Raises:
        ConfigError: a parameter, or a shape this engine cannot mesh.
    """

    def __init__(self, hand: HandModel, obj: ObjectModel, params: HydroelasticPlantParams | None = None) -> None:
        p = params or HydroelasticPlantParams()
        for name, value, known in (("scheme", p.scheme, SCHEMES), ("object_kind", p.object_kind, OBJECT_KINDS)):
            if value not in known:
                raise ConfigError(f"parameter '{name}' of the hydroelastic plant must be {' or '.join(known)}, got '{value}'")
        spec = build_scene(hand, obj)
        spec.option.timestep = p.dt
        self.dt = p.dt
        self.model = contactless(spec)
        self.system = HydroelasticSystem(self.model, [*hand_geometries(hand, p), object_geometry(obj, p)], SCHEMES[p.scheme])
        self.data = self.system.data
        super().__init__(hand, obj)

    @property
    def time(self) -> float:
        return self.data.time

    def _state(self) -> tuple[np.ndarray, np.ndarray]:
        return self.data.qpos, self.data.qvel

    def _place(self, q: np.ndarray, v: np.ndarray) -> None:
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:], self.data.qvel[:] = q, v
        mujoco.mj_kinematics(self.model, self.data)
        self.system.forget()

    def _advance(self, tau: np.ndarray) -> bool:
        """A step whose contact problem did not converge is counted in ``system.unsolved``."""
        self.data.qfrc_applied[: self._n] = tau
        return self.system.step() != SolveStatus.NOT_FINITE

    def trouble(self) -> str:
        """See :class:`dexstack.engines.base.WatchedPlant`."""
        parts = []
        if self.system.unsolved:
            parts.append(f"{self.system.unsolved} steps' contact problems were not solved")
        if self.system.unsettled:
            parts.append(f"in {self.system.unsettled} steps friction was not quite that of the normal forces")
        if self.system.overrun:
            names = ", ".join(f"{name} ({n} steps)" for name, n in self.system.overrun.items())
            parts.append(f"pressed past the medial axis, where force is lost: {names}")
        return "; ".join(parts)

    def wrenches(self) -> list[Wrench]:
        """Contact wrenches of the last step."""
        return self.system.wrenches()

    def patches(self) -> list[Patch]:
        """Contact surfaces of the last step; see :class:`dexstack.engines.base.PatchPlant`."""
        return self.system.patches()


def hand_geometries(hand: HandModel, params: HydroelasticPlantParams) -> list[Geometry]:
    """Every shape of the hand as a pressure field; the shapes that hold a fingertip's centre are the soft ones."""
    result = []
    for i, body in enumerate(hand.bodies):
        tips = [tip.p_BT for tip in hand.fingertips if tip.body == i]
        for k, shape in enumerate(body.shapes):
            tip = any(np.linalg.norm(shape.p - p) < 2.0 * hand.fingertip_radius for p in tips) and shape.kind in ("capsule", "sphere")
            modulus, size = (params.tip_modulus, params.tip_resolution) if tip else (params.hand_modulus, params.link_resolution)
            friction = hand.friction_palm if body.joint is None else hand.friction_fingers
            mesh = moved(shape_mesh(shape, modulus, size, f"{body.name}/{k}"), shape.R, shape.p)
            result.append(Geometry(f"{body.name}/{k}", body.name, mesh, friction, params.relaxation_time))
    return result


def shape_mesh(shape: Shape, modulus: float, size: float, name: str) -> CompliantMesh:
    """A primitive in its own frame."""
    s = shape.size
    if shape.kind == "box":
        return shapes.box(tuple(2.0 * s), modulus, name=name)
    if shape.kind == "sphere":
        return shapes.sphere(s[0], modulus, size=size, name=name)
    if shape.kind == "capsule":
        return shapes.capsule(s[0], 2.0 * s[1], modulus, size=size, name=name)
    if shape.kind == "cylinder":
        return shapes.cylinder(s[0], 2.0 * s[1], modulus, size=size, name=name)
    raise ConfigError(f"the hydroelastic plant has no mesh for a {shape.kind}")


def object_geometry(obj: ObjectModel, params: HydroelasticPlantParams) -> Geometry:
    """The object as its convex hull, as in every plant."""
    hull = obj.mesh.convex_hull
    mesh: CompliantMesh | RigidMesh
    if params.object_kind == "rigid":
        mesh = RigidMesh(obj.name, np.asarray(hull.vertices), np.asarray(hull.faces))
    else:
        mesh = shapes.convex(np.asarray(hull.vertices), params.object_modulus, name=obj.name)
    return Geometry(obj.name, OBJECT_BODY, mesh, float(obj.friction[0]), params.relaxation_time)
