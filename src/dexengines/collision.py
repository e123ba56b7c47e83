"""Collision geometry of a MuJoCo model, read once for all engines: geoms with their materials, and
the pairs that may touch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np

from dexengines.materials import DEFAULT, PART, Material, Materials, read_materials
from dexengines.rotations import rotation_matrix

KINDS = {
    mujoco.mjtGeom.mjGEOM_PLANE: "plane",
    mujoco.mjtGeom.mjGEOM_HFIELD: "height field",
    mujoco.mjtGeom.mjGEOM_SPHERE: "sphere",
    mujoco.mjtGeom.mjGEOM_CAPSULE: "capsule",
    mujoco.mjtGeom.mjGEOM_ELLIPSOID: "ellipsoid",
    mujoco.mjtGeom.mjGEOM_CYLINDER: "cylinder",
    mujoco.mjtGeom.mjGEOM_BOX: "box",
    mujoco.mjtGeom.mjGEOM_MESH: "mesh",
    mujoco.mjtGeom.mjGEOM_SDF: "signed distance field",
}
SIZES = {"sphere": 1, "capsule": 2, "cylinder": 2, "box": 3, "ellipsoid": 3}
"""Number of MuJoCo's three sizes that a kind uses."""
MODULUS = 1e7
"""Default modulus of moving geoms [Pa]."""
_MEASURED = {
    int(kind) for kind, name in KINDS.items() if name not in ("height field", "signed distance field")
}
"""Kinds whose distances MuJoCo computes."""
_TOUCH = 1e-6
"""Penetration tolerance of :func:`overlap_as_built` [m]."""
_SMALLEST = 1e-3
"""Smallest default resolution [m]."""


@dataclass(frozen=True)
class Geom:
    """A geom that may touch another, in the frame of the body that carries it."""

    id: int
    """In the model."""
    name: str
    body: int
    """Body that carries it: 0, the world, for all that is fixed to it."""
    kind: str
    size: np.ndarray
    """Sphere: radius; capsule, cylinder: radius, half length; box: half extents; ellipsoid:
    semi-axes [m]."""
    p: np.ndarray
    """(3,) [m]"""
    R: np.ndarray
    """(3, 3)"""
    friction: float
    material: Material
    vertices: np.ndarray
    """(V, 3) of a mesh, in its own frame, (0, 3) for other kinds. The convex hull collides, as in
    MuJoCo."""
    triangles: np.ndarray
    """(F, 3) vertices of the mesh's triangles, outward."""

    @property
    def resolution(self) -> float:
        """The material's resolution, or its default [m]."""
        if self.material.resolution is not None:
            return self.material.resolution
        half = self.half if self.kind in ("mesh", "box") else self.size[:1]
        return max(_SMALLEST, 0.5 * float(np.min(half))) if half.size else 1.0

    @property
    def half(self) -> np.ndarray:
        """(3,) half extents of the geom's bounding box in its own frame [m]; not for planes."""
        s = self.size
        if self.kind == "mesh":
            return np.ptp(self.vertices, axis=0) / 2.0
        if len(s) == 3:
            return s
        return np.array([s[0], s[0], s[-1] + (s[0] if self.kind == "capsule" else 0.0)])

    @property
    def modulus(self) -> float:
        """The material's modulus, or its default [Pa]."""
        if self.material.modulus is not None:
            return self.material.modulus
        return MODULUS if self.body else np.inf


class Pair(NamedTuple):
    """Two geoms that may touch, as indices into :attr:`Collision.geoms`."""

    a: int
    b: int
    friction: float
    """Sliding friction; zero for a contact without friction."""


class Collision(NamedTuple):
    """Collision geometry of a model."""

    geoms: tuple[Geom, ...]
    pairs: tuple[Pair, ...]
    nested: tuple[tuple[str, str], ...] = ()
    """Bodies that do not collide because they overlap as built; see :func:`overlap_as_built`."""


def body_name(model: mujoco.MjModel, body: int) -> str:
    """Return a body's name, "world", or one made of its number."""
    return "world" if body == 0 else model.body(body).name or f"body {body}"


def geom_name(model: mujoco.MjModel, geom: int) -> str:
    """Return a geom's name, or one made of its body's name and its number."""
    return model.geom(geom).name or f"{body_name(model, int(model.geom_bodyid[geom]))}/geom {geom}"


def may_touch(model: mujoco.MjModel, a: int, b: int) -> bool:
    """Return whether two bodies may collide by MuJoCo's rules: not if welded together, if one is
    the moving parent of the other, or if excluded."""
    a, b = min(a, b), max(a, b)
    wa, wb = model.body_weldid[a], model.body_weldid[b]
    parents = model.body_weldid[model.body_parentid[wa]], model.body_weldid[model.body_parentid[wb]]
    filtered = not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_FILTERPARENT
    return bool(
        wa != wb
        and not (filtered and wa and wb and (wa == parents[1] or wb == parents[0]))
        and (int(a) << 16) + int(b) not in set(model.exclude_signature.tolist())
    )


def touching_bodies(model: mujoco.MjModel, bodies: Sequence[int]) -> list[tuple[int, int]]:
    """Return the pairs i < j of indices into ``bodies`` that may touch."""
    allowed = {(a, b): may_touch(model, a, b) for a in set(bodies) for b in set(bodies)}
    return [(i, j) for j in range(len(bodies)) for i in range(j) if allowed[bodies[i], bodies[j]]]


def overlap_as_built(model: mujoco.MjModel, a: int, b: int, data: mujoco.MjData) -> bool:
    """Return whether two geoms of one chain of bodies overlap in the reference configuration.

    Hulls of links around a joint do, not only those of parent and child. Bodies of different chains
    may touch: two fingers of a hand, the world and a robot that stands on it.
    """
    low, high = sorted((int(model.geom_bodyid[a]), int(model.geom_bodyid[b])))
    while high > low:
        high = int(model.body_parentid[high])
    if low == 0 or high != low or not {int(model.geom_type[a]), int(model.geom_type[b])} <= _MEASURED:
        return False
    return mujoco.mj_geomDistance(model, data, a, b, 0.0, None) < -_TOUCH


def read_collision(model: mujoco.MjModel, materials: Materials = None) -> Collision:
    """Return the geoms and pairs of a model after contype and conaffinity, excludes, explicit
    pairs, the parents' rule and :func:`overlap_as_built`.

    Raises:
        EngineError: see :func:`~dexengines.materials.read_materials`.
    """
    found, nested = _pairs(model)
    ids = sorted({g for pair in found for g in pair[:2]})
    read = read_materials(model, materials, {geom_name(model, g) for g in range(model.ngeom)})
    index = {g: k for k, g in enumerate(ids)}
    return Collision(
        tuple(_geom(model, g, read) for g in ids),
        tuple(Pair(index[a], index[b], friction) for a, b, friction in found),
        tuple((body_name(model, a), body_name(model, b)) for a, b in nested),
    )


def find_lines(model: mujoco.MjModel, collision: Collision) -> None:
    """Let MuJoCo's older collision find contacts if two cylinders, or a cylinder and a capsule, may
    touch: of two that lie side by side the newer one finds one end of the line in which they touch,
    the older one the whole line. Other shapes have as many points in either."""
    kinds = ({collision.geoms[p.a].kind, collision.geoms[p.b].kind} for p in collision.pairs)
    if any("cylinder" in k and k <= {"cylinder", "capsule"} for k in kinds):
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_NATIVECCD


def _pairs(model: mujoco.MjModel) -> tuple[list[tuple[int, int, float]], list[tuple[int, int]]]:
    """Return geoms a < b with their friction, and the bodies that overlap as built."""
    if model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_CONTACT:
        return [], []
    result, nested, data = {}, set(), mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    contype, conaffinity = model.geom_contype, model.geom_conaffinity
    solid = [g for g in range(model.ngeom) if contype[g] or conaffinity[g]]
    for i, j in touching_bodies(model, [int(model.geom_bodyid[g]) for g in solid]):
        a, b = solid[i], solid[j]
        planes = model.geom_type[a] == model.geom_type[b] == mujoco.mjtGeom.mjGEOM_PLANE
        if planes or not (contype[a] & conaffinity[b] or contype[b] & conaffinity[a]):
            continue
        rank = int(model.geom_priority[a] - model.geom_priority[b])
        leading = [a, b] if rank == 0 else [a] if rank > 0 else [b]
        slides = max(model.geom_condim[g] for g in leading) > 1
        result[a, b] = float(max(model.geom_friction[g, 0] for g in leading)) if slides else 0.0
        if overlap_as_built(model, a, b, data):
            nested.add((int(model.geom_bodyid[a]), int(model.geom_bodyid[b])))
    result = {
        (a, b): mu
        for (a, b), mu in result.items()
        if (int(model.geom_bodyid[a]), int(model.geom_bodyid[b])) not in nested
    }
    for k in range(model.npair):
        a, b = sorted((int(model.pair_geom1[k]), int(model.pair_geom2[k])))
        result[a, b] = float(model.pair_friction[k, 0]) if model.pair_dim[k] > 1 else 0.0
    ordered = sorted(result.items(), key=lambda item: item[0][::-1])
    return [(a, b, friction) for (a, b), friction in ordered], sorted(nested)


def _geom(model: mujoco.MjModel, g: int, materials: dict[str, dict[str, float]]) -> Geom:
    body, kind, name = (
        int(model.geom_bodyid[g]),
        KINDS[mujoco.mjtGeom(model.geom_type[g])],
        geom_name(model, g),
    )
    R, p = rotation_matrix(model.geom_quat[g]), np.array(model.geom_pos[g])
    while body and model.body_weldid[body] == 0:
        R_PB = rotation_matrix(model.body_quat[body])
        R, p, body = R_PB @ R, model.body_pos[body] + R_PB @ p, int(model.body_parentid[body])
    vertices, triangles = np.zeros((0, 3)), np.zeros((0, 3), int)
    if kind == "mesh":
        mesh = model.geom_dataid[g]
        start, first = model.mesh_vertadr[mesh], model.mesh_faceadr[mesh]
        vertices = np.array(model.mesh_vert[start : start + model.mesh_vertnum[mesh]], float)
        triangles = np.array(model.mesh_face[first : first + model.mesh_facenum[mesh]], int)
    return Geom(
        id=g,
        name=name,
        body=body,
        kind=kind,
        size=np.array(model.geom_size[g][: SIZES.get(kind, 0)]),
        p=p,
        R=R,
        friction=float(model.geom_friction[g, 0]),
        material=Material(
            **(
                materials.get(DEFAULT, {})
                | materials.get(name.rpartition(PART)[0], {})
                | materials.get(name, {})
            )
        ),
        vertices=vertices,
        triangles=triangles,
    )
