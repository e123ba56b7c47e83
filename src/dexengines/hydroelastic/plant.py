"""A model with hydroelastic contact: what collides as pressure fields, or as rigid surfaces; and
the plant, soft at the fingertips."""

from __future__ import annotations

from dataclasses import dataclass, replace

import mujoco
import numpy as np
import trimesh

from dexengines.collision import Geom, Materials, body_name
from dexengines.forces import bare, contactless
from dexengines.hydroelastic import shapes
from dexengines.hydroelastic.convex import LAGGED, SAP, SolveStatus
from dexengines.hydroelastic.fields import CompliantMesh, RigidMesh
from dexengines.hydroelastic.meshing import compliant_mesh
from dexengines.hydroelastic.system import JOINTS, Geometry, HydroelasticSystem, Wrench, moved
from dexengines.scene import Contact, Scene
from dexstack.config import param
from dexstack.errors import ConfigError
from dexstack.model.hand import HandModel
from dexstack.model.objects import ObjectModel
from dexstack.model.robot import Robot
from dexstack.model.scene import OBJECT_BODY
from dexstack.plants.base import Patch
from dexstack.plants.scene_plant import ScenePlant

SCHEMES = {"lagged": LAGGED, "sap": SAP}
OBJECT_KINDS = ("rigid", "compliant")


class HydroelasticScene(Scene):
    """A model whose geoms are pressure fields or rigid surfaces, as their materials say.

    Args:
        model, materials: see :class:`dexengines.scene.Scene`.
        scheme: how friction is made convex, of :data:`SCHEMES`.

    Raises:
        ConfigError: see :class:`~dexengines.scene.Scene`.
    """

    engine = "hydroelastic"
    lacks = (
        *JOINTS,
        "adhesion",
        "flexible body",
        "body moved from outside",
        "height field",
        "signed distance field",
        "moving plane",
    )

    def __init__(self, model: mujoco.MjModel, materials: Materials = None, *, scheme: str = "lagged") -> None:
        super().__init__(model, materials)
        if scheme not in SCHEMES:
            raise ConfigError(
                f"parameter 'scheme' of the hydroelastic plant must be {' or '.join(SCHEMES)}, got '{scheme}'"
            )
        geometries = [
            Geometry(
                g.name,
                body_name(model, g.body),
                moved(geom_mesh(g), g.R, g.p),
                g.friction,
                g.material.relaxation_time,
            )
            for g in self.collision.geoms
        ]
        self.system = HydroelasticSystem(
            contactless(bare(model)),
            geometries,
            SCHEMES[scheme],
            self.collision.pairs,
            self._forces.inertance,
        )
        self.data = self.system.data
        self.activation = np.zeros(model.na)

    @property
    def time(self) -> float:
        return self.data.time

    def values(self) -> tuple[np.ndarray, np.ndarray]:
        return self.data.qpos, self.data.qvel

    def place(
        self, q: np.ndarray, v: np.ndarray, time: float = 0.0, activation: np.ndarray | None = None
    ) -> None:
        mujoco.mj_resetData(self.system.model, self.data)
        self.data.qpos[:], self.data.qvel[:], self.data.time = q, v, time
        self.activation = np.zeros(self.model.na) if activation is None else activation
        mujoco.mj_kinematics(self.system.model, self.data)
        self.system.forget()

    def advance(self, tau: np.ndarray) -> bool:
        """A step whose contact problem did not converge is counted in ``system.unsolved``."""
        self.data.qfrc_applied[:] = tau
        return self.system.step() != SolveStatus.NOT_FINITE

    def damp(self, damping: np.ndarray) -> None:
        self.system.damp(damping)

    def trouble(self) -> str:
        parts = []
        if self.system.unsolved:
            parts.append(f"{self.system.unsolved} steps' contact problems were not solved")
        if self.system.unsettled:
            parts.append(f"in {self.system.unsettled} steps friction was not quite that of the normal forces")
        if self.system.overrun:
            names = ", ".join(f"{name} ({n} steps)" for name, n in self.system.overrun.items())
            parts.append(f"pressed past the medial axis, where force is lost: {names}")
        return "; ".join(parts)

    def patches(self) -> list[Patch]:
        """See :class:`dexstack.plants.base.PatchPlant`."""
        return self.system.patches()

    def _contacts(self, control: np.ndarray) -> list[Contact]:
        self._drive(control)
        geoms = {g.name: g for g in self.collision.geoms}
        result = []
        for patch in self.system.patches():
            a, b = geoms[patch.a], geoms[patch.b]
            vector = np.zeros((len(patch.pressure), 3))
            for k, (start, end) in enumerate(zip(patch.start[:-1], patch.start[1:], strict=True)):
                spokes = patch.vertex_W[start + 1 : end] - patch.vertex_W[start]
                vector[k] = 0.5 * np.cross(spokes[:-1], spokes[1:]).sum(axis=0)
            normal = patch.pressure @ vector
            normal *= np.sign(normal @ patch.force_W) / max(np.linalg.norm(normal), 1e-300)
            gap = self._contact(a, b, self.data).gap
            area = float(np.linalg.norm(vector, axis=1).sum())
            result.append(self._report(a, b, patch.point_W, normal, gap, patch.force_W, area))
        return result


def geom_mesh(geom: Geom) -> CompliantMesh | RigidMesh:
    """A geom in its own frame."""
    s, size, name, rigid = geom.size, geom.resolution, geom.name, not np.isfinite(geom.modulus)
    modulus = 1.0 if rigid else geom.modulus
    if geom.kind == "plane":
        return shapes.rigid_half_space(name) if rigid else shapes.half_space(modulus, depth=size, name=name)
    if geom.kind == "box":
        mesh = shapes.box(tuple(2.0 * s), modulus, name=name)
    elif geom.kind in ("sphere", "ellipsoid"):
        mesh = shapes.ellipsoid(tuple(s if len(s) == 3 else np.repeat(s, 3)), modulus, size=size, name=name)
    elif geom.kind == "capsule":
        mesh = shapes.capsule(s[0], 2.0 * s[1], modulus, size=size, name=name)
    elif geom.kind == "cylinder":
        mesh = shapes.cylinder(s[0], 2.0 * s[1], modulus, size=size, name=name)
    elif geom.material.tets is None:
        mesh = shapes.convex(geom.vertices, modulus, name=name)
    elif rigid:
        return RigidMesh(name, geom.vertices, geom.triangles)
    else:
        mesh = compliant_mesh(
            trimesh.Trimesh(geom.vertices, geom.triangles), modulus, size=geom.material.tets, name=name
        )
    return shapes.rigid(mesh) if rigid else mesh


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
        """With all that is not rigid so many times as stiff."""
        tip, hand, obj = (
            factor * modulus for modulus in (self.tip_modulus, self.hand_modulus, self.object_modulus)
        )
        return replace(self, tip_modulus=tip, hand_modulus=hand, object_modulus=obj)


class HydroelasticPlant(ScenePlant):
    """Robot and object with pressure field contact, soft at the fingertips; see
    :class:`dexstack.plants.base.Plant`.

    Raises:
        ConfigError: a parameter, or a shape this engine cannot mesh.
    """

    def __init__(self, robot: Robot, obj: ObjectModel, params: HydroelasticPlantParams | None = None) -> None:
        super().__init__(robot, obj, params or HydroelasticPlantParams())
        self.system, self.data = self.scene.system, self.scene.data

    @classmethod
    def make_scene(
        cls, spec: mujoco.MjSpec, robot: Robot, params: HydroelasticPlantParams
    ) -> HydroelasticScene:
        kind = params.object_kind
        if kind not in OBJECT_KINDS:
            raise ConfigError(
                f"parameter 'object_kind' of the hydroelastic plant must be {' or '.join(OBJECT_KINDS)}, got '{kind}'"
            )
        spec.option.timestep = params.dt
        model = spec.compile()
        return HydroelasticScene(model, _materials(model, robot, params), scheme=params.scheme)

    def wrenches(self) -> list[Wrench]:
        """Contact wrenches of the last step."""
        return self.system.wrenches()

    def patches(self) -> list[Patch]:
        """Contact surfaces of the last step; see :class:`dexstack.plants.base.PatchPlant`."""
        return self.system.patches()


def _materials(
    model: mujoco.MjModel, robot: Robot, p: HydroelasticPlantParams
) -> dict[str, dict[str, float]]:
    """The shapes that hold a fingertip's centre are the soft ones; the object may be rigid."""
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
    """Names of a robot's geoms that are fingertips: the round shapes that hold a hand's fingertips'
    centres, and balls."""
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
