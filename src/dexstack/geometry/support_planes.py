"""Convex objects as support planes: {x | n_i · x + b_i ≤ 0 for all i}, contactsdf [8]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dexstack.geometry.hausdorff import largest_plane_distance

if TYPE_CHECKING:
    import trimesh

FACE_ANGLE = np.deg2rad(2.0)
"""Faces whose normals differ by less share one support plane [rad]."""

REACH = 0.02
"""Distance from the object up to which the planes approximate the Euclidean distance [m]: the
detector's contact margin."""

MOST_CANDIDATES = 4000
"""Number of directions along edges that are compared: the memory needed does not grow with the number
of faces."""


def fibonacci_directions(n: int) -> np.ndarray:
    """Return ``n`` nearly uniform unit vectors (n, 3)."""
    i = np.arange(n) + 0.5
    z, turn = 1 - 2 * i / n, np.pi * (1 + np.sqrt(5)) * i
    r = np.sqrt(1 - z * z)
    return np.column_stack([r * np.cos(turn), r * np.sin(turn), z])


def _distinct(normals: np.ndarray, weights: np.ndarray, most: int) -> np.ndarray:
    """Return at most ``most`` normals, largest weight first, no two within FACE_ANGLE of each
    other."""
    kept: list[np.ndarray] = []
    for k in np.argsort(-weights, kind="stable"):
        if not kept or np.max(np.asarray(kept) @ normals[k]) < np.cos(FACE_ANGLE):
            kept.append(normals[k])
        if len(kept) == most:
            break
    return np.asarray(kept)


def _edge_normals(hull: trimesh.Trimesh) -> np.ndarray:
    """Return directions on the arcs between the normals of neighbouring faces: those of planes that
    touch a whole edge."""
    a, b = (np.asarray(hull.face_normals)[hull.face_adjacency[:, side]] for side in (0, 1))
    bent = np.einsum("ei,ei->e", a, b) < np.cos(FACE_ANGLE)
    arcs = [(1 - s) * a[bent] + s * b[bent] for s in np.linspace(0, 1, 9)[1:-1]]
    normals = np.concatenate(arcs)
    if len(normals) > MOST_CANDIDATES:
        normals = normals[np.linspace(0, len(normals) - 1, MOST_CANDIDATES).round().astype(int)]
    return normals / np.linalg.norm(normals, axis=1, keepdims=True)


def normal_cones(hull: trimesh.Trimesh) -> tuple[np.ndarray, np.ndarray]:
    """Sample a convex surface with its normals: points p (n, 3) and unit n (n, 3) such that p + r n
    is r away from the hull.

    Samples are points of every face with its normal, points along every edge with the normals
    between its faces, and every corner with those between its edges.
    """
    normals, corners = np.asarray(hull.face_normals), np.asarray(hull.vertices)
    weights = np.array([(i, j, 6 - i - j) for i in range(1, 5) for j in range(1, 6 - i)]) / 6
    faces = np.einsum("fvi,sv->fsi", hull.triangles, weights)
    pairs = normals[hull.face_adjacency]
    arcs = np.einsum("epi,sp->esi", pairs, [[1 - s, s] for s in np.linspace(0, 1, 9)])
    ends = corners[hull.face_adjacency_edges]
    along = np.einsum("epi,sp->esi", ends, [[1 - s, s] for s in (0.1, 0.3, 0.5, 0.7, 0.9)])
    directions = fibonacci_directions(6000)
    points = [
        faces.reshape(-1, 3),
        np.repeat(along, arcs.shape[1], axis=1).reshape(-1, 3),
        corners[np.argmax(directions @ corners.T, axis=1)],
    ]
    outward = [
        np.repeat(normals, faces.shape[1], axis=0),
        np.tile(arcs, (1, along.shape[1], 1)).reshape(-1, 3),
        directions,
    ]
    n = np.concatenate(outward)
    return np.concatenate(points), n / np.linalg.norm(n, axis=1, keepdims=True)


def choose_planes(mesh: trimesh.Trimesh, num_planes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n_i (K, 3) and b_i (K,) [m]: the faces of the hull, largest first, and the directions
    that most reduce the error of the distance outside.

    A plane through the hull's support point is valid for *every* direction, and the largest plane
    distance over all directions is the Euclidean distance to the hull. Planes beyond those of the
    faces therefore do not change the inside, and improve the distance near edges and corners. At
    most half of the planes belong to faces, so that edges and corners keep some.
    """
    hull = mesh.convex_hull
    vertices = np.asarray(hull.vertices, float)
    normals = np.asarray(hull.face_normals, float)
    chosen = _distinct(normals, np.asarray(hull.area_faces), num_planes // 2)
    candidates = np.vstack([_edge_normals(hull), fibonacci_directions(400)])

    surface, outward = normal_cones(hull)
    rng = np.random.default_rng(0)
    sample = rng.choice(len(surface), min(len(surface), 3000), replace=False)
    distance = rng.uniform(0, REACH, len(sample))
    points = surface[sample] + distance[:, None] * outward[sample]

    def support(nhat: np.ndarray) -> np.ndarray:
        return largest_plane_distance(nhat, np.column_stack([vertices, np.zeros(len(vertices))]))

    def plane_values(nhat: np.ndarray) -> np.ndarray:
        return nhat @ points.T - support(nhat)[:, None]

    best, offered = np.max(plane_values(chosen), axis=0), plane_values(candidates)
    short = np.empty_like(offered)  # one buffer: this runs at every start of a controller
    while len(chosen) < num_planes:
        np.maximum(best, offered, out=short)
        np.subtract(distance, short, out=short)
        k = int(np.argmin(np.einsum("kp,kp->k", short, short)))
        chosen = np.vstack([chosen, candidates[k]])
        best = np.maximum(best, offered[k])

    return chosen, -support(chosen)
