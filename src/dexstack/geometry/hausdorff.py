"""Hausdorff distance of two surfaces, from dense samples of both.

    d(A, B) = max( max over a in A of dist(a, B),  max over b in B of dist(b, A) )

A surface is sampled at its corners and at points spread over its triangles by area, from a fixed
seed. The distance of a sample to the other surface is that to the nearest of a few candidate
triangles, those with the nearest pieces (triangles are cut to the distance of two samples): exact
where the nearest triangle is a candidate, never too small otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import trimesh

SAMPLES = 10_000
"""Points on each surface, besides its corners."""
_CANDIDATES = 16
"""Nearest pieces whose triangles are candidates."""
_CUTS = 12
"""Maximum number of times that a triangle's edges are halved."""
JOINED = 1e-4
"""Parts nearer to each other than this are joined: their union has no surface between them [m]."""
_BLOCK = 2_000_000
"""Entries of the largest array of points times planes."""


class _Sampled(NamedTuple):
    """Points of a surface and the triangle of each."""

    points: np.ndarray
    """(S, 3) points spread by area, and the corners."""
    normals: np.ndarray
    """(S, 3) normals of their triangles."""
    middles: np.ndarray
    """(C, 3) centres of the pieces that the triangles are cut into."""
    triangles: np.ndarray
    """(C, 3, 3) whole triangle of each piece."""


def largest_plane_distance(points: np.ndarray, planes: np.ndarray) -> np.ndarray:
    """Return the largest n·x + b (n,) over planes (K, 4), rows n and b, at points x (n, 3), block by
    block: the memory needed does not grow with their product."""
    step = max(1, _BLOCK // len(planes))
    found = [
        (points[i : i + step] @ planes[:, :3].T + planes[:, 3]).max(axis=1)
        for i in range(0, len(points), step)
    ]
    return np.concatenate([np.zeros(0), *found])


class Union:
    """Surface of a union of convex bodies: the parts of their surfaces outside all others."""

    def __init__(self, parts: Sequence[trimesh.Trimesh]) -> None:
        self.parts = [part.convex_hull for part in parts]
        normals = [np.asarray(part.face_normals) for part in self.parts]
        planes = [
            np.column_stack([n, -np.einsum("fi,fi->f", n, part.triangles[:, 0])])
            for n, part in zip(normals, self.parts, strict=True)
        ]
        self._planes = [np.unique(np.round(p, 9), axis=0) for p in planes]

    def buried(self, points: np.ndarray, normals: np.ndarray) -> np.ndarray:
        """Return (n,) true where the space just outside a part, at points (n, 3) along its normals
        (n, 3), is inside another part."""
        points = points + JOINED * normals
        inside = np.zeros(len(points), bool)
        for planes in self._planes:
            left = np.flatnonzero(~inside)
            inside[left] = largest_plane_distance(points[left], planes) < 0.0
        return inside

    def sampled(self) -> _Sampled:
        """Sample the union's surface: the samples of all parts that are not buried."""
        area = sum(part.area for part in self.parts)
        each = [_sample(part, int(np.ceil(SAMPLES * part.area / area))) for part in self.parts]
        together = _Sampled(*(np.concatenate(arrays) for arrays in zip(*each, strict=True)))
        seen = ~self.buried(together.points, together.normals)
        outer = ~self.buried(together.middles, _normals(together.triangles))
        return _Sampled(
            together.points[seen], together.normals[seen], together.middles[outer], together.triangles[outer]
        )


def surface_distance(a: trimesh.Trimesh, b: trimesh.Trimesh) -> tuple[np.ndarray, float]:
    """Measure the distances of two surfaces from each other, in their unit of length.

    Returns:
        Samples of ``a`` with their distances from ``b``, rows x, y, z, distance (S, 4); the largest
        distance of a sample of ``b`` from ``a``.
    """
    of_a, of_b = _sample(a, SAMPLES), _sample(b, SAMPLES)
    return np.column_stack([of_a.points, _distances(of_a, of_b)]), float(_distances(of_b, of_a).max())


def union_error(mesh: trimesh.Trimesh, parts: Sequence[trimesh.Trimesh]) -> float:
    """Return the Hausdorff distance of a mesh's surface from the union of its convex ``parts``
    [m]."""
    union = Union(parts)
    of_mesh, of_union = _sample(mesh, SAMPLES), union.sampled()
    return float(max(_distances(of_union, of_mesh).max(), _distances(of_mesh, of_union, union).max()))


def _sample(mesh: trimesh.Trimesh, count: int) -> _Sampled:
    from trimesh.remesh import subdivide_to_size

    triangles = np.asarray(mesh.triangles, float)
    area = (
        np.linalg.norm(np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]), axis=1)
        / 2.0
    )
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(triangles), count, p=area / area.sum())
    u = rng.random((count, 2))
    u = np.where(u.sum(axis=1, keepdims=True) > 1.0, 1.0 - u, u)
    a, b, c = (triangles[chosen, k] for k in range(3))
    points = a + u[:, :1] * (b - a) + u[:, 1:] * (c - a)
    step = 2.0 * np.sqrt(area.sum() / count)
    longest = np.linalg.norm(triangles - np.roll(triangles, 1, axis=1), axis=2).max()
    step = max(step, longest / 2 ** (_CUTS - 1))
    corners, pieces, of = subdivide_to_size(
        triangles.reshape(-1, 3), np.arange(3 * len(triangles)).reshape(-1, 3), step, _CUTS, True
    )
    ends, first = np.unique(triangles.reshape(-1, 3), axis=0, return_index=True)
    on = np.concatenate([chosen, first // 3])
    return _Sampled(
        np.concatenate([points, ends]), _normals(triangles)[on], corners[pieces].mean(axis=1), triangles[of]
    )


def _normals(triangles: np.ndarray) -> np.ndarray:
    """Return unit normals (n, 3) of triangles (n, 3, 3), zero where a triangle has no area."""
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    return normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)


def _distances(of: _Sampled, surface: _Sampled, union: Union | None = None) -> np.ndarray:
    """Return the distances (S,) of the points of one surface from another, without points of its
    triangles that are buried in its ``union``."""
    from scipy.spatial import cKDTree
    from trimesh.triangles import closest_point

    points, count = of.points, min(_CANDIDATES, len(surface.middles))
    distance, nearest = cKDTree(surface.middles).query(points, k=[*range(1, count + 1)])
    best = distance[:, 0]
    for k in range(count):
        on = closest_point(surface.triangles[nearest[:, k]], points)
        reached = np.linalg.norm(on - points, axis=1)
        better = np.flatnonzero(reached < best)
        if union is not None:
            better = better[~union.buried(on[better], _normals(surface.triangles[nearest[better, k]]))]
        best[better] = reached[better]
    return best
