"""The box, capsule or sphere nearest to the convex hull of points, which is what simulators use of a
mesh."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import trimesh

from dexstack.errors import ConfigError
from dexstack.geometry.hausdorff import largest_plane_distance
from dexstack.geometry.support_planes import fibonacci_directions

ALL = ("box", "capsule", "sphere")
ROUND = ("capsule", "sphere")
ALIGNED = 1.1
"""Largest volume of a box along the given axes, relative to the smallest box, at which it is
preferred."""
MOST_CORNERS = 4000
"""Number of corners of a hull for MuJoCo, which refuses files of more than 200,000 faces. The directions
are 3° apart, so that a round hull shrinks by less than 0.2 %."""
_SAMPLES = 2000


class Primitive(NamedTuple):
    """A shape and the distance of its surface from the hull's."""

    kind: str
    size: np.ndarray
    """Box: three half extents; sphere: (radius,); capsule: (radius, half length between the centres
    of its ends), axis along z [m]."""
    p: np.ndarray
    """(3,) centre [m]."""
    R: np.ndarray
    """(3, 3) axes."""
    error: float
    """Upper bound of the Hausdorff distance from the hull's surface, from samples [m]."""


def convex_hull(points: np.ndarray, what: str) -> trimesh.Trimesh:
    """Return the hull of points (n, 3), called ``what`` in errors.

    Raises:
        ConfigError: the points are not finite, or span no volume.
    """
    points = np.unique(np.asarray(points, float), axis=0)
    if not np.isfinite(points).all():
        raise ConfigError(f"{what} has corners that are not finite numbers")
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            hull = trimesh.Trimesh(points, process=False).convex_hull
    except Exception:  # Qhull's error for points in a plane has many lines
        hull = None
    if hull is None or not hull.volume > 1e-15:
        raise ConfigError(f"{what} is flat or a point: it spans no volume")
    return hull


def coarse_hull(points: np.ndarray, what: str) -> trimesh.Trimesh:
    """Return :func:`convex_hull`, with more than :data:`MOST_CORNERS` corners replaced by those that are
    farthest in as many directions.

    Raises:
        ConfigError: see :func:`convex_hull`.
    """
    hull = convex_hull(points, what)
    if len(hull.vertices) <= MOST_CORNERS:
        return hull
    corners, blocks = np.asarray(hull.vertices), np.array_split(fibonacci_directions(MOST_CORNERS), 100)
    kept = np.unique(np.concatenate([np.argmax(block @ corners.T, axis=1) for block in blocks]))
    return convex_hull(corners[kept], what)


def nearest_primitive(points: np.ndarray, kinds: Sequence[str] = ALL, what: str = "the mesh") -> Primitive:
    """Return the nearest of a box around the hull of ``points`` (n, 3), capsules along the box's
    axes, and a sphere.

    The radii of capsules and sphere are means, so that their surfaces lie partly inside the hull
    and partly outside.

    Raises:
        ConfigError: the points are not finite, or span no volume.
    """
    hull = convex_hull(points, what)
    sampled, _ = trimesh.sample.sample_surface(hull, _SAMPLES, seed=0)
    on_hull = np.concatenate([sampled, hull.vertices])
    p, R, half = _box(hull)
    candidates = [("box", half, R)] if "box" in kinds else []
    if "sphere" in kinds:
        candidates.append(("sphere", np.array([np.linalg.norm(on_hull - p, axis=1).mean()]), R))
    for axis in range(3) if "capsule" in kinds else ():
        across = np.delete(half, axis)
        radius = float(across.mean())
        if half[axis] > 1.05 * radius:
            turned = np.column_stack([R[:, axis - 2], R[:, axis - 1], R[:, axis]])
            candidates.append(("capsule", np.array([radius, half[axis] - radius]), turned))
    found = [
        Primitive(kind, size, p, R, _error(hull, on_hull, kind, size, p, R)) for kind, size, R in candidates
    ]
    return min(found, key=lambda primitive: primitive.error)


def depth(kind: str, size: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the signed distance (n,) of points (n, 3), in a primitive's frame, from its surface,
    positive inside [m]."""
    if kind in ("box", "cylinder"):
        radial = np.column_stack([np.hypot(points[:, 0], points[:, 1]), np.abs(points[:, 2])])
        q = (np.abs(points) if kind == "box" else radial) - size
        return -(np.linalg.norm(np.maximum(q, 0.0), axis=1) + np.minimum(q.max(axis=1), 0.0))
    length = size[1] if kind == "capsule" else 0.0
    along = np.clip(points[:, 2], -length, length)
    return size[0] - np.linalg.norm(points - along[:, None] * [0.0, 0.0, 1.0], axis=1)


def _box(hull: trimesh.Trimesh) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return centre, axes and half extents of a box around a hull."""
    low, high = hull.bounds
    to_box, extents = trimesh.bounds.oriented_bounds(hull)
    if np.prod(high - low) <= ALIGNED * np.prod(extents):
        return (low + high) / 2.0, np.eye(3), (high - low) / 2.0
    R = to_box[:3, :3].T
    return -R @ to_box[:3, 3], R, np.asarray(extents) / 2.0


def _error(
    hull: trimesh.Trimesh, on_hull: np.ndarray, kind: str, size: np.ndarray, p: np.ndarray, R: np.ndarray
) -> float:
    from scipy.spatial import cKDTree

    of_hull = np.abs(depth(kind, size, (on_hull - p) @ R)).max()
    points = _surface(kind, size) @ R.T + p
    normals, corners = np.asarray(hull.face_normals), hull.triangles[:, 0]
    planes = np.column_stack([normals, -np.einsum("fi,fi->f", normals, corners)])
    inside = -largest_plane_distance(points, planes)
    to_hull = np.where(inside > 0.0, inside, cKDTree(on_hull).query(points)[0])
    return float(max(of_hull, to_hull.max()))


def _surface(kind: str, size: np.ndarray) -> np.ndarray:
    """Return points on a primitive: the corners of a box, which lie farthest out, or 400 points of
    a round shape."""
    if kind == "box":
        return size * np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
    unit = fibonacci_directions(400)
    sphere = size[0] * unit
    return sphere if kind == "sphere" else sphere + size[1] * np.sign(unit[:, 2:]) * [0.0, 0.0, 1.0]
