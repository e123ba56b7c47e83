"""The collision geometry of a MuJoCo model, read once for all engines: geoms with their materials,
and the pairs that may touch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import mujoco
import numpy as np
import yaml

from dexengines.errors import EngineError, unknown_name
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
"""How many of MuJoCo's three sizes describe a kind."""
DEFAULT = "default"
Materials: TypeAlias = Mapping[str, Mapping[str, float]] | str | Path | None
"""By geom, or "default" for all, fields of :class:`Material`; or a YAML file of that."""


@dataclass(frozen=True)
class Material:
    """What MuJoCo's own fields do not say of a surface; each engine reads what it needs.

    A model sets it in ``<custom>``, for all geoms or one: ``<numeric name="contact_modulus"
    data="1e6"/>``, ``contact_modulus:GEOM``.
    """

    modulus: float | None = None
    """Pressure in the core, for hydroelastic contact [Pa]; infinite: rigid. None: rigid where fixed
    to the world, else :data:`MODULUS`."""
    relaxation_time: float = 0.01
    """In which hydroelastic contact dissipates, per body [s]."""
    stiffness: float = 1e4
    """Of soft contact; of two surfaces the smaller counts [N/m]."""
    restitution: float = 0.0
    """Of lcp; between two surfaces the larger counts."""
    resolution: float | None = None
    """Longest edge of hydroelastic meshes, spacing of soft contact's points [m]. None: half of the
    geom's smallest half extent."""

    tets: float | None = None
    """Longest edge of tets that fill a mesh as it is, hollows and all, for hydroelastic contact
    [m]. None: its convex hull."""


MODULUS = 1e7
_FIELDS = tuple(field.name for field in dataclasses.fields(Material))
_PREFIX = "contact_"
_MEASURED = {
    int(kind) for kind, name in KINDS.items() if name not in ("height field", "signed distance field")
}
"""Of whose distances MuJoCo knows."""
_TOUCH = 1e-6
"""Depth that is none [m]."""
_SMALLEST = 1e-3
"""Resolution that no default goes below [m]."""


@dataclass(frozen=True)
class Geom:
    """One geom that may touch another, in the frame of the body that carries it: the world's for
    what is fixed to the world."""

    id: int
    """In the model."""
    name: str
    body: int
    """That carries it: 0, the world, for all that is fixed to it."""
    kind: str
    size: np.ndarray
    """Sphere: radius; capsule and cylinder: radius, half length; box: half extents; ellipsoid: semi-axes [m]."""
    p: np.ndarray
    """(3,) [m]"""
    R: np.ndarray
    """(3, 3)"""
    friction: float
    material: Material
    vertices: np.ndarray
    """(V, 3) of a mesh, in its own frame; its convex hull is what collides, as in MuJoCo. (0, 3)
    for other kinds."""
    triangles: np.ndarray
    """(F, 3) corners of the mesh as it is, outward."""

    @property
    def resolution(self) -> float:
        """The material's, or its default [m]."""
        if self.material.resolution is not None:
            return self.material.resolution
        half = (
            np.ptp(self.vertices, axis=0) / 2.0
            if self.kind == "mesh"
            else self.size[:1]
            if self.kind != "box"
            else self.size
        )
        return max(_SMALLEST, 0.5 * float(np.min(half))) if half.size else 1.0

    @property
    def half(self) -> np.ndarray:
        """(3,) half extents of the geom's box in its own frame, of all but planes [m]."""
        s = self.size
        if self.kind == "mesh":
            return np.ptp(self.vertices, axis=0) / 2.0
        return {
            1: np.repeat(s, 3),
            2: np.array([s[0], s[0], s[-1] + (s[0] if self.kind == "capsule" else 0.0)]),
        }.get(len(s), s)

    @property
    def modulus(self) -> float:
        """The material's, or its default [Pa]."""
        return (
            self.material.modulus if self.material.modulus is not None else MODULUS if self.body else np.inf
        )


class Pair(NamedTuple):
    """Two geoms that may touch, by their places in :attr:`Collision.geoms`."""

    a: int
    b: int
    friction: float
    """Of sliding; zero for a contact without friction."""


class Collision(NamedTuple):
    """What of a model collides."""

    geoms: tuple[Geom, ...]
    pairs: tuple[Pair, ...]
    nested: tuple[tuple[str, str], ...] = ()
    """Bodies that do not collide because they overlap as built; see :func:`overlap_as_built`."""


def body_name(model: mujoco.MjModel, body: int) -> str:
    """A body's name; "world", or one made of its number where it has none."""
    return "world" if body == 0 else model.body(body).name or f"body {body}"


def geom_name(model: mujoco.MjModel, geom: int) -> str:
    """A geom's name, or one made of its body's and its number."""
    return model.geom(geom).name or f"{body_name(model, int(model.geom_bodyid[geom]))}/geom {geom}"


def may_touch(model: mujoco.MjModel, a: int, b: int) -> bool:
    """MuJoCo's rules of which bodies collide: not with what they are welded to, their parent unless
    it is fixed, or by exclusion."""
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
    """Pairs i < j of entries of ``bodies`` that may touch."""
    allowed = {(a, b): may_touch(model, a, b) for a in set(bodies) for b in set(bodies)}
    return [(i, j) for j in range(len(bodies)) for i in range(j) if allowed[bodies[i], bodies[j]]]


def overlap_as_built(model: mujoco.MjModel, a: int, b: int, data: mujoco.MjData) -> bool:
    """Whether two geoms overlap by more than rounding where every joint is at its reference, and
    the body of one carries that of the other.

    So do the hulls of links around a joint, where parent and child are not the only ones. What is
    only moved together may touch: two fingers that a hand carries, the world and a robot that
    stands on it.
    """
    bodies = int(model.geom_bodyid[a]), int(model.geom_bodyid[b])
    low, high = sorted(bodies)
    while high > low:
        high = int(model.body_parentid[high])
    if low == 0 or high != low or not {int(model.geom_type[a]), int(model.geom_type[b])} <= _MEASURED:
        return False
    return mujoco.mj_geomDistance(model, data, a, b, 0.0, None) < -_TOUCH


def read_collision(model: mujoco.MjModel, materials: Materials = None) -> Collision:
    """Geoms and pairs after contype and conaffinity, excludes, explicit pairs, the parents' rule
    and :func:`overlap_as_built`.

    Args:
        materials: they count before ``<custom>``.

    Raises:
        EngineError: a material for a geom that is not there, an unknown field, a number out of
            range.
    """
    found, nested = _pairs(model)
    ids = sorted({g for pair in found for g in pair[:2]})
    read = _materials(model, materials)
    place = {g: k for k, g in enumerate(ids)}
    geoms = tuple(_geom(model, g, read) for g in ids)
    pairs = tuple(Pair(place[a], place[b], friction) for a, b, friction in found)
    return Collision(geoms, pairs, tuple((body_name(model, a), body_name(model, b)) for a, b in nested))


def _pairs(model: mujoco.MjModel) -> tuple[list[tuple[int, int, float]], list[tuple[int, int]]]:
    """Geoms a < b and their friction; the bodies that overlap as built."""
    if model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_CONTACT:
        return [], []
    result, nested, data = {}, set(), mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    solid = [g for g in range(model.ngeom) if model.geom_contype[g] or model.geom_conaffinity[g]]
    for i, j in touching_bodies(model, [int(model.geom_bodyid[g]) for g in solid]):
        a, b = solid[i], solid[j]
        planes = model.geom_type[a] == model.geom_type[b] == mujoco.mjtGeom.mjGEOM_PLANE
        if planes or not (
            model.geom_contype[a] & model.geom_conaffinity[b]
            or model.geom_contype[b] & model.geom_conaffinity[a]
        ):
            continue
        rank = int(model.geom_priority[a] - model.geom_priority[b])
        leading = [a, b] if rank == 0 else [a] if rank > 0 else [b]
        slides = max(model.geom_condim[g] for g in leading) > 1
        result[a, b] = float(max(model.geom_friction[g, 0] for g in leading)) if slides else 0.0
        if overlap_as_built(model, a, b, data):
            nested.add((int(model.geom_bodyid[a]), int(model.geom_bodyid[b])))
    result = {
        pair: mu
        for pair, mu in result.items()
        if tuple(int(model.geom_bodyid[g]) for g in pair) not in nested
    }
    for k in range(model.npair):
        a, b = sorted((int(model.pair_geom1[k]), int(model.pair_geom2[k])))
        result[a, b] = float(model.pair_friction[k, 0]) if model.pair_dim[k] > 1 else 0.0
    return [
        (a, b, friction) for (a, b), friction in sorted(result.items(), key=lambda item: item[0][::-1])
    ], sorted(nested)


def _geom(model: mujoco.MjModel, g: int, materials: dict[str, dict[str, Any]]) -> Geom:
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
    material = Material(**(materials.get(DEFAULT, {}) | materials.get(name, {})))
    size = np.array(model.geom_size[g][: SIZES.get(kind, 0)])
    return Geom(
        g, name, body, kind, size, p, R, float(model.geom_friction[g, 0]), material, vertices, triangles
    )


def _materials(model: mujoco.MjModel, given: Materials) -> dict[str, dict[str, Any]]:
    where, result = "materials", {}
    for k in range(model.nnumeric):
        field, _, geom = model.numeric(k).name.removeprefix(_PREFIX).partition(":")
        if model.numeric(k).name.startswith(_PREFIX):
            result.setdefault(geom or DEFAULT, {})[field] = float(model.numeric(k).data[0])
    if isinstance(given, str | Path):
        where, given = str(given), _read_yaml(Path(given))
    for geom, fields in (given or {}).items():
        if not isinstance(fields, Mapping):
            raise EngineError(f"{where}: '{geom}' must map fields to numbers, got {fields!r}")
        result[geom] = result.get(geom, {}) | dict(fields)
    names = {geom_name(model, g) for g in range(model.ngeom)} | {DEFAULT}
    for geom, fields in result.items():
        if geom not in names:
            raise unknown_name("geom", geom, names)
        for field, value in list(fields.items()):
            if field not in _FIELDS:
                raise unknown_name("field of a material", field, _FIELDS)
            lowest = 0.0 if field in ("relaxation_time", "restitution") else 1e-12
            try:
                fields[field] = float(value)  # YAML reads 1e7 as a string
            except (TypeError, ValueError):
                fields[field] = math.nan
            if not fields[field] >= lowest:
                raise EngineError(
                    f"{where}: '{field}' of '{geom}' must be a number of at least {lowest:g}, got {value!r}"
                )
    return result


def _read_yaml(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        raise EngineError(f"there is no file {path}")
    try:
        found = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise EngineError(f"{path} is not valid YAML: {error}") from None
    if not isinstance(found, Mapping | None):
        raise EngineError(f"{path} must map geoms to fields")
    return found or {}
