"""Convex solids of a scene as a camera sees them, all vertices transformed and projected together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np
from scipy.spatial import ConvexHull

from dexstack.geometry.support_planes import fibonacci_directions
from dexstack.perception.camera import CameraModel
from dexstack.perception.se3 import Transform

_ENDS = np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]])
_LIGHT_W = np.array([0.3, -0.4, 0.85]) / np.linalg.norm([0.3, -0.4, 0.85])


@dataclass(frozen=True)
class Solid:
    """A convex solid fixed to a body of the model."""

    body: int
    vertices: np.ndarray
    """(n, 3) in the body's frame [m]."""
    faces: tuple[np.ndarray, ...]
    """Vertex indices around every flat face; empty: drawn as a silhouette."""
    normals: np.ndarray
    """(faces, 3) outward."""
    colour: np.ndarray
    """(3,) 0 to 255."""

    @classmethod
    def of_geom(cls, model: mujoco.MjModel, g: int, colour: np.ndarray) -> Solid | None:
        """Return the hull of a geom in its body's frame; None if it has no vertices (a plane)."""
        vertices = _geom_vertices(model, g)
        if vertices is None:
            return None
        R = np.empty(9)
        mujoco.mju_quat2Mat(R, model.geom_quat[g])
        vertices = vertices @ R.reshape(3, 3).T + model.geom_pos[g]
        flat = int(model.geom_type[g]) in (mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_MESH)
        faces, normals = _flat_faces(vertices) if flat else ((), np.zeros((0, 3)))
        return cls(int(model.geom_bodyid[g]), vertices, faces, normals, colour)


class View(NamedTuple):
    """``s`` solids with ``n`` vertices and ``f`` flat faces as a camera sees them."""

    p_C: np.ndarray
    """(n, 3) [m]."""
    uv: np.ndarray
    """(n, 2) [px]; without meaning for points behind the camera."""
    nearest: np.ndarray
    """(s,) least depth [m]."""
    depth: np.ndarray
    """(s,) mean depth [m]."""
    low: np.ndarray
    """(s, 2) least pixels."""
    high: np.ndarray
    """(s, 2) largest pixels."""
    facing: np.ndarray
    """(f,) whether the camera sees the outside of the face."""
    normals_C: np.ndarray
    """(f, 3) outward."""
    shades: np.ndarray
    """(f, 3) colours, 0 to 255."""


class Solids:
    """Solids of a scene, at least one.

    Attributes:
        parts: the vertices of each, as a slice.
        faces: the faces of each: number of the face, indices of its vertices.
        silhouettes: colour of each where its faces are not drawn.
    """

    def __init__(self, solids: Sequence[Solid]) -> None:
        sizes = np.array([len(s.vertices) for s in solids])
        self._starts, self._sizes = np.cumsum(sizes) - sizes, sizes
        self.parts = [slice(a, a + n) for a, n in zip(self._starts, sizes, strict=True)]
        self.faces: list[list[tuple[int, np.ndarray]]] = []
        corners, colours, bodies = [], [], []
        for s, start in zip(solids, self._starts, strict=True):
            first = len(corners)
            self.faces.append([(first + i, start + face) for i, face in enumerate(s.faces)])
            corners += [start + face[0] for face in s.faces]
            colours += [s.colour] * len(s.faces)
            bodies += [s.body] * len(s.faces)
        self.silhouettes = [shade(s.colour, np.array([0.0, 0.0, 0.7])) for s in solids]
        self._vertices = np.concatenate([s.vertices for s in solids])
        self._bodies = np.repeat([s.body for s in solids], sizes)
        self._normals = np.concatenate([s.normals for s in solids])
        self._corners, self._face_bodies = np.array(corners, int), np.array(bodies, int)
        self._colours = np.array(colours).reshape(-1, 3)

    def seen(self, data: mujoco.MjData, X_CW: Transform, camera: CameraModel) -> View:
        """Return what the camera sees at ``data``, with up-to-date kinematics."""
        R_WB = data.xmat.reshape(-1, 3, 3)
        R_CB, p_CB = X_CW.R @ R_WB, X_CW.apply(data.xpos)
        p_C = np.einsum("nij,nj->ni", R_CB[self._bodies], self._vertices) + p_CB[self._bodies]
        with np.errstate(divide="ignore", invalid="ignore"):
            uv = camera.project(p_C)
        normals_W = np.einsum("nij,nj->ni", R_WB[self._face_bodies], self._normals)
        normals_C = normals_W @ X_CW.R.T
        return View(
            p_C,
            uv,
            np.minimum.reduceat(p_C[:, 2], self._starts),
            np.add.reduceat(p_C[:, 2], self._starts) / self._sizes,
            np.minimum.reduceat(uv, self._starts),
            np.maximum.reduceat(uv, self._starts),
            np.einsum("fi,fi->f", normals_C, p_C[self._corners]) < 0.0,
            normals_C,
            shade(self._colours, normals_W),
        )

    def heights(self, p_C: np.ndarray, normal_C: np.ndarray, point_C: np.ndarray) -> np.ndarray:
        """Return how far the solids reach in front of a plane, (s,) [m]."""
        return np.maximum.reduceat((p_C - point_C) @ normal_C, self._starts)


def shade(colour: np.ndarray, normal_W: np.ndarray) -> np.ndarray:
    """Return the colours (..., 3) that surfaces with normals (..., 3) have in the light."""
    return colour * (0.55 + 0.45 * np.maximum(normal_W @ _LIGHT_W, 0.0))[..., None]


def _flat_faces(vertices: np.ndarray) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return the faces of a convex hull, with the triangles of one plane joined, and their
    normals."""
    hull = ConvexHull(vertices)
    planes: list[np.ndarray] = []
    members: list[set[int]] = []
    for simplex, equation in zip(hull.simplices, hull.equations, strict=True):
        for k, plane in enumerate(planes):
            if plane[:3] @ equation[:3] > 1.0 - 1e-6 and abs(plane[3] - equation[3]) < 1e-6:
                members[k].update(simplex)
                break
        else:
            planes.append(equation)
            members.append(set(simplex))
    faces = []
    for plane, member in zip(planes, members, strict=True):
        index = np.array(sorted(member))
        n = plane[:3]
        a = np.cross(n, [1.0, 0.0, 0.0] if abs(n[0]) < 0.9 else [0.0, 1.0, 0.0])
        d = vertices[index] - vertices[index].mean(axis=0)
        faces.append(index[np.argsort(np.arctan2(d @ np.cross(n, a), d @ a))])
    return tuple(faces), np.array(planes)[:, :3]


def _ball(radius: float) -> np.ndarray:
    """Return points (n, 3) whose hull has the silhouette of a ball within 1 %."""
    return radius * 1.01 * fibonacci_directions(96)


def _geom_vertices(model: mujoco.MjModel, g: int) -> np.ndarray | None:
    """Return points (n, 3) in the geom's frame whose hull it is; None for other geoms."""
    kind, size = int(model.geom_type[g]), model.geom_size[g]
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        return np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * size
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return _ball(size[0])
    if kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
        return np.concatenate([_ball(size[0]) + size[1] * end for end in _ENDS])
    if kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        a = np.linspace(0, 2 * np.pi, 24, endpoint=False)
        ring = np.stack([size[0] * np.cos(a), size[0] * np.sin(a), 0 * a], axis=1)
        return np.concatenate([ring + size[1] * end for end in _ENDS])
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        first = model.mesh_vertadr[model.geom_dataid[g]]
        return model.mesh_vert[first : first + model.mesh_vertnum[model.geom_dataid[g]]].astype(float)
    return None


def clip(p_C: np.ndarray, normal: np.ndarray, point: np.ndarray) -> np.ndarray | None:
    """Return points whose hull is the part of the hull of ``p_C`` in front of a plane; None if there
    is none."""
    height = (p_C - point) @ normal
    front, behind = height > 1e-6, height <= 1e-6
    if not front.any():
        return None
    if not behind.any():
        return p_C
    a, b = p_C[front], p_C[behind]
    share = height[front][:, None] / (height[front][:, None] - height[behind][None, :])
    cut = a[:, None] + share[..., None] * (b[None] - a[:, None])
    return np.concatenate([a, cut.reshape(-1, 3)])
