"""The hydroelastic engine: geoms are pressure fields or rigid surfaces."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import mujoco
import numpy as np
import trimesh

from dexengines.collision import Geom, body_name
from dexengines.errors import EngineError
from dexengines.forces import bare, contactless
from dexengines.hydroelastic import shapes
from dexengines.hydroelastic.fields import CompliantMesh, RigidMesh
from dexengines.hydroelastic.meshing import compliant_mesh
from dexengines.hydroelastic.placement import Symmetry
from dexengines.hydroelastic.problem import LAGGED, SAP, SolveStatus
from dexengines.hydroelastic.system import JOINTS, Geometry, HydroelasticSystem, moved
from dexengines.materials import Materials
from dexengines.report import Contact, Patch
from dexengines.scene import Scene

ROUND, ROUND_EDGE = ("sphere", "ellipsoid", "capsule", "cylinder"), 0.25
"""Shapes whose edges are by default this share of their least radius, so that they roll on one that is
right to 1 %."""
SUNK = 0.005
"""Share of its least half extent by which a body on one point may sink in under the weight of all, half
of what :data:`ROUND_EDGE` costs."""
SCHEMES = {"lagged": LAGGED, "sap": SAP}


class HydroelasticScene(Scene):
    """A model whose geoms are pressure fields or rigid surfaces, depending on their materials.

    Args:
        model, materials, whole: see :class:`dexengines.scene.Scene`.
        scheme: convex approximation of friction, of :data:`SCHEMES`.

    Raises:
        EngineError: see :class:`~dexengines.scene.Scene`.
    """

    engine = "hydroelastic"
    fills = True
    deepest = 0.5
    lacks = (
        *JOINTS,
        "adhesion",
        "flexible body",
        "body moved from outside",
        "height field",
        "signed distance field",
        "moving plane",
    )

    def __init__(
        self,
        model: mujoco.MjModel,
        materials: Materials = None,
        *,
        scheme: str = "lagged",
        whole: Sequence[str] = (),
    ) -> None:
        super().__init__(model, materials, whole)
        if scheme not in SCHEMES:
            known = " or ".join(SCHEMES)
            raise EngineError(
                f"parameter 'scheme' of the hydroelastic engine must be {known}, got {scheme!r}"
            )
        geometries = []
        for g in map(self._stiffened, self.collision.geoms):
            try:
                mesh = geom_mesh(g, g.name in whole)
            except EngineError:
                if g.name not in whole or g.material.tets is not None:
                    raise
                mesh = geom_mesh(g)
                self.notes += (f"the mesh of geom '{g.name}' cannot be filled and collides as its hull",)
            geometries.append(
                Geometry(
                    name=g.name,
                    body=body_name(model, g.body),
                    mesh=moved(mesh, g.R, g.p),
                    friction=g.friction,
                    symmetry=_symmetry(g),
                    frame=np.vstack([g.R.T, g.p]),
                    relaxation_time=g.material.relaxation_time,
                )
            )
        pairs, inertance = self.collision.pairs, self._forces.inertance
        self.system = HydroelasticSystem(
            contactless(bare(model)), geometries, SCHEMES[scheme], pairs, inertance
        )
        self.data = self.system.data
        self.activation = np.zeros(model.na)

    def _stiffened(self, geom: Geom) -> Geom:
        """Return a geom that moves with its default modulus, at least such that :data:`SUNK` holds.

        A ball of radius L and modulus E bears π E d² at the depth d.
        """
        if not geom.body or geom.material.modulus is not None:
            return geom
        bodies = self.model.jnt_bodyid[self.model.jnt_type == mujoco.mjtJoint.mjJNT_FREE]
        weight = np.linalg.norm(self.model.opt.gravity) * self.model.body_subtreemass[bodies].sum()
        modulus = float(weight / (np.pi * (SUNK * np.min(geom.half)) ** 2))
        material = dataclasses.replace(geom.material, modulus=max(modulus, geom.modulus))
        return dataclasses.replace(geom, material=material)

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
        """See :meth:`Scene.advance`; ``system.unsolved`` counts steps that did not converge."""
        self.data.qfrc_applied[:] = tau
        return self.system.step() != SolveStatus.NOT_FINITE

    def damp(self, damping: np.ndarray) -> None:
        self.system.damp(damping)

    def _stored(self) -> float:
        faces = self.system.contacts.stiffness[: self.system.faces]
        return float(0.5 * faces[:, 0] @ faces[:, 1] ** 2)

    def _own_trouble(self) -> str:
        parts = []
        if self.system.unsolved:
            parts.append(f"the contact problems of {self.system.unsolved} steps were not solved")
        if self.system.unsettled:
            parts.append(f"in {self.system.unsettled} steps friction lagged behind the normal forces")
        if self.system.overrun:
            names = ", ".join(f"{name} ({n} steps)" for name, n in self.system.overrun.items())
            parts.append(f"pressed past the medial axis, so that force was lost: {names}")
        return "; ".join(parts)

    def patches(self) -> list[Patch]:
        """Return the contact surfaces of the last step, at the poses it began with."""
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


def _symmetry(geom: Geom) -> Symmetry:
    kinds = {"plane": Symmetry.PLANE, "sphere": Symmetry.BALL}
    round_ends = geom.kind in ("cylinder", "capsule") or (
        geom.kind == "ellipsoid" and geom.size[0] == geom.size[1]
    )
    return kinds.get(geom.kind, Symmetry.AXIS if round_ends else Symmetry.NONE)


def geom_mesh(geom: Geom, whole: bool = False) -> CompliantMesh | RigidMesh:
    """Return the mesh of a geom, in its own frame; ``whole``: not a mesh's hull, but as it is."""
    s, size, name, rigid = geom.size, geom.resolution, geom.name, not np.isfinite(geom.modulus)
    if geom.kind in ROUND and geom.material.resolution is None:
        size = ROUND_EDGE * float(np.min(s[:1] if geom.kind != "ellipsoid" else s))
    tets = geom.material.tets or (size if whole else None)
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
    elif tets is None:
        mesh = shapes.convex(geom.vertices, modulus, name=name)
    elif rigid:
        return RigidMesh(name, geom.vertices, geom.triangles)
    else:
        mesh = compliant_mesh(trimesh.Trimesh(geom.vertices, geom.triangles), modulus, size=tets, name=name)
    return shapes.rigid(mesh) if rigid else mesh
