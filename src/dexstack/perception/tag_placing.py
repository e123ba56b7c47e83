"""Placing of tags on an object: one on every flat outer face that is large enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dexstack.errors import ConfigError
from dexstack.perception.bundle import Tag, TagBundle
from dexstack.perception.se3 import Transform
from dexstack.perception.tags import COUNT, MODULES

if TYPE_CHECKING:
    import trimesh

FIRST = 100
"""Number of the first tag, above those of packaged objects, base and fingertips."""
LEAST, LARGEST = 0.016, 0.04
"""Bounds of a tag's edge [m]."""
BORDER = (MODULES + 2) / MODULES
"""Ratio of a tag's side with its white border to its edge."""
_FLAT = 2e-3
_GRID = 24
_STEP = 5e-4


def place_tags(name: str, mesh: trimesh.Trimesh, first: int = FIRST) -> TagBundle | None:
    """Place the largest tag, with its border, on each flat face, largest face first; None if no face
    is large enough.

    Args:
        mesh: the object, in its frame [m].
        first: number of the first tag; the others follow.

    Raises:
        ConfigError: the family has too few tags.
    """
    tags: dict[int, Tag] = {}
    for triangles in _flat_faces(mesh):
        found = _largest_square(triangles)
        if found is None:
            continue
        number = first + len(tags)
        if number >= COUNT:
            raise ConfigError(f"'{name}' would need the tag {number}; the last one is {COUNT - 1}")
        edge, X_OT = found
        tags[number] = Tag(number, edge, X_OT)
    return TagBundle(name, tags) if tags else None


def _flat_faces(mesh: trimesh.Trimesh) -> list[np.ndarray]:
    """Return the triangles (n, 3, 3) of each flat outer face with the area of a tag, largest
    first."""
    import trimesh

    flat = np.asarray(mesh.face_adjacency)[np.asarray(mesh.face_adjacency_angles) < _FLAT]
    face = trimesh.graph.connected_component_labels(flat, node_count=len(mesh.faces))
    area = np.bincount(face, weights=mesh.area_faces)
    large = [k for k in np.argsort(-area, kind="stable") if area[k] >= (BORDER * LEAST) ** 2]
    found = [np.asarray(mesh.triangles)[face == k] for k in large]
    return [triangles for triangles in found if _is_outer(triangles, np.asarray(mesh.vertices))]


def _is_outer(triangles: np.ndarray, corners: np.ndarray) -> bool:
    """Return true if no part of the object lies in front of a face, as it does inside a cup."""
    normal = _normal(triangles)
    return bool((corners @ normal).max() < float(triangles[0, 0] @ normal) + _STEP)


def _normal(triangles: np.ndarray) -> np.ndarray:
    normal = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]).sum(axis=0)
    return normal / np.linalg.norm(normal)


def _largest_square(triangles: np.ndarray) -> tuple[float, Transform] | None:
    """Return the edge, in whole millimetres [m], and the pose of the largest tag on a flat face, its
    sides along the face's longest side."""
    z = _normal(triangles)
    ends = _border(triangles)
    sides = ends[:, 1] - ends[:, 0]
    x = sides[int(np.argmax(np.linalg.norm(sides, axis=1)))]
    x = x - (x @ z) * z
    x /= np.linalg.norm(x)
    R = np.column_stack([x, np.cross(z, x), z])
    shares = (np.linspace(0, 1, max(2, int(np.linalg.norm(b - a) / _STEP)))[:, None] for a, b in ends)
    rim = np.concatenate([a + s * (b - a) for s, (a, b) in zip(shares, ends, strict=True)]) @ R[:, :2]
    flat = triangles @ R[:, :2]
    low, high = rim.min(axis=0), rim.max(axis=0)
    steps = [np.linspace(low[k], high[k], _GRID + 1) for k in range(2)]
    centres = np.stack(np.meshgrid(*steps), axis=-1).reshape(-1, 2)
    centres = centres[[_inside(flat, c) for c in centres]]
    if not len(centres):
        return None
    half = np.abs(centres[:, None] - rim[None]).max(axis=2).min(axis=1)
    off = np.linalg.norm(centres - (low + high) / 2.0, axis=1)
    best = int(np.lexsort((off, -np.round(half, 4)))[0])
    edge = min(np.floor(1e3 * 2.0 * half[best] / BORDER + 1e-6) / 1e3, LARGEST)
    if edge < LEAST:
        return None
    return float(edge), Transform(R, R @ np.array([*centres[best], float(triangles[0, 0] @ z)]))


def _border(triangles: np.ndarray) -> np.ndarray:
    """Return the edges (n, 2, 3) of one triangle only."""
    edges = np.concatenate([triangles[:, [k, (k + 1) % 3]] for k in range(3)])
    _, corner = np.unique(np.round(edges.reshape(-1, 3), 9), axis=0, return_inverse=True)
    keys = np.sort(corner.reshape(-1, 2), axis=1)
    _, which, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    return edges[count[which.ravel()] == 1]


def _inside(triangles: np.ndarray, point: np.ndarray) -> bool:
    """Return true if a point (2,) lies in one of the triangles (n, 3, 2)."""
    to = triangles - point
    turn = [to[:, k, 0] * to[:, (k + 1) % 3, 1] - to[:, k, 1] * to[:, (k + 1) % 3, 0] for k in range(3)]
    return bool((np.min(turn, axis=0) >= -1e-12).any())
