"""Meshes of the hydroelastic engine: a tetrahedral mesh with a pressure field, and a rigid surface
of triangles.

All quantities are in SI units and in the body's frame B. Meshes are validated on construction; the
kernels do not check again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dexengines.errors import EngineError
from dexengines.hydroelastic.bvh import build_tree
from dexengines.kernels import Stored, tuple_type

FACES = np.array([[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]], np.int32)
"""Vertices of face k of a positively oriented tet, counter-clockwise from outside; face k is
opposite vertex k."""


class Packed(NamedTuple):
    """Arrays of a mesh with n vertices, m elements and k boundary triangles, for the kernels."""

    vertex: np.ndarray
    """(n, 4) position and pressure"""
    element: np.ndarray
    """(m, 20): four linear functions u_k(x) = element[4k : 4k + 3]·x + element[4k + 3] that are not
    negative inside, then gradient and offset of p(x) = ∇p·x + offset. Of a tet the u are its
    barycentric coordinates. Of a rigid triangle u_e is zero on the edge from vertex e to e + 1, one at
    the vertex opposite and constant along the normal, u_3 is one, and p minus the distance from its
    plane."""
    element_int: np.ndarray
    """(m, 8) int32: vertices, then the element behind each side or −1; of a triangle three each"""
    triangle: np.ndarray
    """(k,) int32: element of each boundary triangle, in the order of the tree"""
    corner: np.ndarray
    """(k, 13): corners, unit outward normal n and offset o (n·x + o = 0) of every boundary
    triangle, in the same order"""
    box: np.ndarray
    """(N + k, 6) centre and half widths of the tree's nodes and of the triangles"""
    lane: np.ndarray
    """(N, 6, 8) the same for each node's children"""
    child: np.ndarray
    """(N, 8) int32, see :func:`~dexengines.hydroelastic.bvh.build_tree`"""
    seed: np.ndarray
    """(q, 2) int32 vertex and one of its elements: vertices whose pressure no neighbour exceeds; of a
    rigid surface, one of each connected part"""
    scale: np.ndarray
    """(2,) greatest pressure, greatest gradient times size; infinite and zero if rigid"""


MESH = tuple_type(Packed, "f2 f2 i2 i1 f2 f2 f3 i2 i2 f1")


def _pack(
    vertex: np.ndarray,
    element: np.ndarray,
    element_int: np.ndarray,
    boundary: tuple[np.ndarray, np.ndarray],
    seed: np.ndarray,
    scale: list[float],
) -> Packed:
    """Return arrays for the kernels; ``boundary`` has the elements and the corners (k, 3, 3) of the
    boundary triangles."""
    owner, v = boundary
    box, lane, child, order = build_tree(v.min(axis=1), v.max(axis=1))
    normal = np.cross(v[:, 1] - v[:, 0], v[:, 2] - v[:, 0])
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    offset = -np.einsum("ij,ij->i", normal, v[:, 0])
    corner = np.column_stack([v.reshape(-1, 9), normal, offset])[order]
    parts = (vertex, element, element_int, owner[order], corner, box, lane, child, seed, np.array(scale))
    return Packed(*(np.ascontiguousarray(part) for part in parts))


def _frozen(x: np.ndarray, dtype: type) -> np.ndarray:
    x = np.array(x, dtype, order="C")
    x.setflags(write=False)
    return x


@dataclass(frozen=True, eq=False)
class CompliantMesh:
    """A compliant body: tets with a pressure at every vertex, zero on the boundary."""

    name: str
    vertices_B: np.ndarray
    """(n, 3) [m]"""
    tets: np.ndarray
    """(m, 4) int32, positively oriented: (v1−v0)×(v2−v0)·(v3−v0) > 0"""
    pressure: np.ndarray
    """(n,) E·ε at the vertices [Pa]"""
    modulus: float
    """E, the pressure where the penetration extent ε is one [Pa]"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "vertices_B", _frozen(self.vertices_B, np.float64))
        object.__setattr__(self, "tets", _frozen(self.tets, np.int32))
        object.__setattr__(self, "pressure", _frozen(self.pressure, np.float64))
        _check_indices(self.name, self.vertices_B, self.tets, 4)
        if self.pressure.shape != (len(self.vertices_B),) or not np.isfinite(self.pressure).all():
            raise EngineError(
                f"the mesh {self.name} needs one finite pressure for each of {len(self.vertices_B)} vertices"
            )
        if not (np.isfinite(self.modulus) and self.modulus > 0):
            raise EngineError(f"the mesh {self.name} needs a positive modulus")
        if len(self.tets) and self.volumes.min() <= 0.0:
            raise EngineError(
                f"tet {int(self.volumes.argmin())} of the mesh {self.name} is flat or turned inside out"
            )
        if (self.neighbours == -2).any():
            raise EngineError(f"the mesh {self.name} has a face that more than two tets share")

    @cached_property
    def rank(self) -> tuple[float, bytes]:
        """Sort key of bodies: the greater peak pressure first, then by a digest of the mesh."""
        content = hashlib.sha256(self.vertices_B.tobytes() + self.tets.tobytes() + self.pressure.tobytes())
        return -float(np.abs(self.pressure).max()), content.digest()

    @cached_property
    def volumes(self) -> np.ndarray:
        """(m,) [m³]"""
        v = self.vertices_B[self.tets]
        return np.einsum("ij,ij->i", np.cross(v[:, 1] - v[:, 0], v[:, 2] - v[:, 0]), v[:, 3] - v[:, 0]) / 6

    @cached_property
    def planes(self) -> np.ndarray:
        """(m, 4, 4): barycentric coordinate k at x is planes[:, k, :3]·x + planes[:, k, 3]."""
        v = self.vertices_B[self.tets]
        planes = np.empty((len(v), 4, 4))
        for k, (a, b, c) in enumerate(FACES):  # b_k = 0 on face k and 1 at vertex k
            inward = -np.cross(v[:, b] - v[:, a], v[:, c] - v[:, a])
            inward /= np.einsum("ij,ij->i", inward, v[:, k] - v[:, a])[:, None]
            planes[:, k, :3] = inward
            planes[:, k, 3] = -np.einsum("ij,ij->i", inward, v[:, a])
        return planes

    @cached_property
    def gradient_B(self) -> np.ndarray:
        """(m, 3) ∇p of every tet [Pa/m]."""
        p = self.pressure[self.tets]
        # differences first: the gradient of a constant pressure is exactly zero
        return np.einsum("mk,mkj->mj", p[:, 1:] - p[:, :1], self.planes[:, 1:, :3])

    @cached_property
    def offset(self) -> np.ndarray:
        """(m,) p(x) = gradient_B·x + offset [Pa]."""
        return self.pressure[self.tets[:, 0]] - np.einsum(
            "mj,mj->m", self.gradient_B, self.vertices_B[self.tets[:, 0]]
        )

    @cached_property
    def neighbours(self) -> np.ndarray:
        """(m, 4) int32: tet behind face k, −1 on the boundary, −2 where more than two tets meet."""
        return _neighbours(self.tets, FACES)

    @cached_property
    def boundary(self) -> np.ndarray:
        """(k, 2) int32: tet and local face of every boundary triangle."""
        return np.argwhere(self.neighbours == -1).astype(np.int32)

    @property
    def boundary_triangles(self) -> np.ndarray:
        """(k, 3) int32: vertices of the boundary triangles, outward."""
        return self.tets[self.boundary[:, :1], FACES[self.boundary[:, 1]]]

    @cached_property
    def stored(self) -> Stored:
        """:attr:`packed` for :func:`~dexengines.kernels.load`, of type :data:`MESH`."""
        return Stored(self.packed, MESH)

    @cached_property
    def packed(self) -> Packed:
        """Flat arrays for the kernels."""
        steepest = np.linalg.norm(self.gradient_B, axis=1).max()
        return _pack(
            np.column_stack([self.vertices_B, self.pressure]),
            np.column_stack([self.planes.reshape(-1, 16), self.gradient_B, self.offset]),
            np.concatenate([self.tets, self.neighbours], axis=1),
            (self.boundary[:, 0], self.vertices_B[self.boundary_triangles]),
            self._peaks(),
            [np.abs(self.pressure).max(), steepest * np.ptp(self.vertices_B, axis=0).max()],
        )

    def _peaks(self) -> np.ndarray:
        """Return vertices whose pressure no neighbour exceeds, each with one of its tets (q, 2).

        All vertices of a plateau count: another body's pressure may exceed it in the middle and
        leave separate patches at its corners.
        """
        p = self.pressure
        pairs = np.concatenate([self.tets[:, [i, j]] for i in range(4) for j in range(i)])
        tolerance = 1e-9 * max(p.max(initial=0.0), 0.0)
        is_peak = p > tolerance
        for i, j in (pairs.T, pairs.T[::-1]):
            is_peak[i[p[j] > p[i] + tolerance]] = False
        peak = np.flatnonzero(is_peak)
        owner = np.zeros(len(p), np.int64)
        for k in range(4):
            owner[self.tets[:, k]] = np.arange(len(self.tets))
        return np.column_stack([peak, owner[peak]]).astype(np.int32)


@dataclass(frozen=True, eq=False)
class RigidMesh:
    """A rigid body: its surface."""

    name: str
    vertices_B: np.ndarray
    """(n, 3) [m]"""
    triangles: np.ndarray
    """(k, 3) int32, counter-clockwise from outside"""
    normals_B: np.ndarray = field(init=False)
    """(k, 3) unit, outward"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "vertices_B", _frozen(self.vertices_B, np.float64))
        object.__setattr__(self, "triangles", _frozen(self.triangles, np.int32))
        _check_indices(self.name, self.vertices_B, self.triangles, 3)
        v = self.vertices_B[self.triangles]
        normal = np.cross(v[:, 1] - v[:, 0], v[:, 2] - v[:, 0])
        length = np.linalg.norm(normal, axis=1)
        if len(length) and length.min() <= 0.0:
            raise EngineError(f"triangle {int(length.argmin())} of the mesh {self.name} has no area")
        object.__setattr__(self, "normals_B", _frozen(normal / length[:, None], np.float64))
        if (self.neighbours == -2).any():
            raise EngineError(f"the mesh {self.name} has an edge that more than two triangles share")

    @cached_property
    def neighbours(self) -> np.ndarray:
        """(k, 3) int32: triangle behind the edge from vertex e to vertex e + 1, −1 if none."""
        return _neighbours(self.triangles, np.array([[0, 1], [1, 2], [2, 0]]))

    @cached_property
    def stored(self) -> Stored:
        """:attr:`packed` for :func:`~dexengines.kernels.load`, of type :data:`MESH`."""
        return Stored(self.packed, MESH)

    @cached_property
    def packed(self) -> Packed:
        """Flat arrays for the kernels."""
        k = len(self.triangles)
        inner = np.argwhere(self.neighbours >= 0)
        part = np.unique(_parts(k, np.column_stack([inner[:, 0], self.neighbours[tuple(inner.T)]])))
        sides = np.full((k, 8), -1, np.int32)
        sides[:, :3], sides[:, 4:7] = self.triangles, self.neighbours
        return _pack(
            np.column_stack([self.vertices_B, np.zeros(len(self.vertices_B))]),
            self._functions(),
            sides,
            (np.arange(k, dtype=np.int32), self.vertices_B[self.triangles]),
            np.column_stack([self.triangles[part, 0], part]).astype(np.int32),
            [np.inf, 0.0],
        )

    def _functions(self) -> np.ndarray:
        """Return ``element`` of :class:`Packed`."""
        v = self.vertices_B[self.triangles]
        out = np.zeros((len(v), 20))
        for e in range(3):
            a, b, c = v[:, e], v[:, (e + 1) % 3], v[:, (e + 2) % 3]
            inward = np.cross(self.normals_B, b - a)
            inward /= np.einsum("ij,ij->i", inward, c - a)[:, None]
            out[:, 4 * e : 4 * e + 3] = inward
            out[:, 4 * e + 3] = -np.einsum("ij,ij->i", inward, a)
        out[:, 15] = 1.0
        out[:, 16:19] = -self.normals_B
        out[:, 19] = np.einsum("ij,ij->i", self.normals_B, v[:, 0])
        return out


def _check_indices(name: str, vertices: np.ndarray, elements: np.ndarray, width: int) -> None:
    if vertices.ndim != 2 or vertices.shape[1] != 3 or not np.isfinite(vertices).all():
        raise EngineError(f"the mesh {name} needs finite vertices of shape (n, 3), not {vertices.shape}")
    if elements.ndim != 2 or elements.shape[1] != width or len(elements) == 0:
        raise EngineError(f"the mesh {name} needs elements of shape (m, {width}), not {elements.shape}")
    if elements.min() < 0 or elements.max() >= len(vertices):
        raise EngineError(f"the elements of the mesh {name} refer to vertices that it does not have")


def _neighbours(elements: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Return the element that shares face k, −1 if none, −2 if several: (m, f) int32."""
    m, f = len(elements), len(faces)
    key = np.sort(elements[:, faces].reshape(m * f, -1), axis=1)
    _, group, count = np.unique(key, axis=0, return_inverse=True, return_counts=True)
    group = group.ravel()
    by_group = np.argsort(group, kind="stable")
    first = np.concatenate([[0], np.cumsum(count)])
    out = np.full(m * f, -1, np.int32)
    two = np.flatnonzero(count == 2)
    a, b = by_group[first[two]], by_group[first[two] + 1]
    out[a], out[b] = b // f, a // f
    out[np.isin(group, np.flatnonzero(count > 2))] = -2
    return out.reshape(m, f)


def _parts(n: int, pairs: np.ndarray) -> np.ndarray:
    """Return the least member of the connected part of each of n items, given connected pairs."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    pairs = np.asarray(pairs).reshape(-1, 2)
    graph = coo_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), (n, n))
    _, label = connected_components(graph, directed=False)
    least = np.full(label.max(initial=-1) + 1, n)
    np.minimum.at(least, label, np.arange(n))
    return least[label]
