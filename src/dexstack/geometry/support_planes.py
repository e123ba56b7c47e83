"""Convex objects as support planes: {x | n_i · x + b_i ≤ 0 for all i}, contactsdf [8]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import trimesh

FACE_ANGLE = np.deg2rad(2.0)
"""Faces whose normals differ by less are one support plane."""

REACH = 0.02
"""Distance from the object up to which the planes are made metric [m]; the contact margin of the detector."""

NEAR = 0.002
"""Distance from the object below which bodies touch for all a planner cares [m]."""


@dataclass(frozen=True)
class SupportPlanes:
    """Support planes of the convex hull of a mesh, in the mesh's frame B.

    A plane through the hull's support point is valid for *every* direction, and the largest plane distance over all directions is the
    Euclidean distance to the hull. Planes beyond those of the faces therefore leave the inside as it is and make the outside near edges
    and corners metric; they are chosen greedily to that end.
    """

    nhat_B: np.ndarray
    """(K, 3) unit outward normals."""
    offset: np.ndarray
    """(K,) b_i = −max over the hull of n_i · x [m]."""
    distance_error: float
    """Largest shortfall of the plane distance against the Euclidean one, over a dense sample of points up to REACH outside the hull [m];
    it is largest off the corners, where few planes serve a wide range of directions."""
    contact_error: float
    """The same up to NEAR outside the hull, where contacts are made [m]."""
    hull_error: float
    """How far the planes' intersection reaches beyond a face of the hull [m] (0 when every face has its plane)."""
    concavity: float
    """Largest distance of a point on the hull from the mesh surface [m]: what a convex model cannot see."""


def fibonacci_directions(n: int) -> np.ndarray:
    """``n`` nearly uniform unit vectors (n, 3)."""
    i = np.arange(n) + 0.5
    z, turn = 1 - 2 * i / n, np.pi * (1 + np.sqrt(5)) * i
    r = np.sqrt(1 - z * z)
    return np.column_stack([r * np.cos(turn), r * np.sin(turn), z])


def _distinct(normals: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Heaviest representative normals such that every normal lies within FACE_ANGLE of one of them."""
    kept: list[np.ndarray] = []
    for k in np.argsort(-weights, kind="stable"):
        if not kept or np.max(np.asarray(kept) @ normals[k]) < np.cos(FACE_ANGLE):
            kept.append(normals[k])
    return np.asarray(kept)


def _edge_normals(hull: trimesh.Trimesh) -> np.ndarray:
    """Directions on the arcs between the normals of neighbouring faces: the planes that touch a whole edge."""
    a, b = (np.asarray(hull.face_normals)[hull.face_adjacency[:, side]] for side in (0, 1))
    bent = np.einsum("ei,ei->e", a, b) < np.cos(FACE_ANGLE)
    arcs = [(1 - s) * a[bent] + s * b[bent] for s in np.linspace(0, 1, 9)[1:-1]]
    normals = np.concatenate(arcs) if arcs else np.zeros((0, 3))
    return normals / np.linalg.norm(normals, axis=1, keepdims=True)


def normal_cones(hull: trimesh.Trimesh) -> tuple[np.ndarray, np.ndarray]:
    """Samples of a convex surface with its normals: points p (n, 3) and unit n (n, 3) such that p + r n is r away from the hull.

    Every face with its normal, points along every edge with the normals between its faces, every corner with those between its edges.
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
    outward = [np.repeat(normals, faces.shape[1], axis=0), np.tile(arcs, (1, along.shape[1], 1)).reshape(-1, 3), directions]
    n = np.concatenate(outward)
    return np.concatenate(points), n / np.linalg.norm(n, axis=1, keepdims=True)


def choose_planes(mesh: trimesh.Trimesh, num_planes: int) -> tuple[np.ndarray, np.ndarray]:
    """n_i (K, 3) and b_i (K,) [m]: the faces of the hull, largest first, and the directions that best mend the distance outside.

    At most half of the planes go to faces, so that edges and corners keep planes of their own.
    """
    hull = mesh.convex_hull
    vertices = np.asarray(hull.vertices, float)
    chosen = _distinct(np.asarray(hull.face_normals, float), np.asarray(hull.area_faces))[: num_planes // 2]
    candidates = np.vstack([_edge_normals(hull), fibonacci_directions(400)])

    surface, outward = normal_cones(hull)
    rng = np.random.default_rng(0)
    sample = rng.choice(len(surface), min(len(surface), 3000), replace=False)
    distance = rng.uniform(0, REACH, len(sample))
    points = surface[sample] + distance[:, None] * outward[sample]

    def plane_values(nhat: np.ndarray) -> np.ndarray:
        return nhat @ points.T - np.max(nhat @ vertices.T, axis=1)[:, None]

    best, offered = np.max(plane_values(chosen), axis=0), plane_values(candidates)
    short = np.empty_like(offered)  # one buffer: every controller runs this when it starts
    while len(chosen) < num_planes:
        np.maximum(best, offered, out=short)
        np.subtract(distance, short, out=short)
        k = int(np.argmin(np.einsum("kp,kp->k", short, short)))
        chosen = np.vstack([chosen, candidates[k]])
        best = np.maximum(best, offered[k])

    return chosen, -np.max(chosen @ vertices.T, axis=1)


def support_planes(mesh: trimesh.Trimesh, num_planes: int = 128) -> SupportPlanes:
    """The planes of :func:`choose_planes` and how well they represent ``mesh``."""
    import trimesh
    from scipy.spatial import HalfspaceIntersection, cKDTree

    chosen, offset = choose_planes(mesh, num_planes)
    hull = mesh.convex_hull
    vertices = np.asarray(hull.vertices, float)
    surface, outward = normal_cones(hull)

    def shortfall(reach: float) -> float:  # it grows along every normal, so it is largest at the end
        return float(reach - np.min(np.max((surface + reach * outward) @ chosen.T + offset, axis=1)))

    face_n, face_b = np.asarray(hull.face_normals), np.einsum("fi,fi->f", hull.face_normals, hull.triangles[:, 0])
    corners = HalfspaceIntersection(np.column_stack([chosen, offset]), np.mean(vertices, axis=0)).intersections
    skin, _ = trimesh.sample.sample_surface(hull, 4000, seed=0)
    samples, _ = trimesh.sample.sample_surface(mesh, 40000, seed=0)
    gap, _ = cKDTree(np.vstack([samples, mesh.vertices])).query(skin)
    spacing = np.sqrt(mesh.area / 40000)  # a hull point on the mesh still is about one sample spacing from its nearest sample
    return SupportPlanes(
        nhat_B=chosen,
        offset=offset,
        distance_error=shortfall(REACH),
        contact_error=shortfall(NEAR),
        hull_error=float(max(np.max(corners @ face_n.T - face_b), 0.0)),
        concavity=float(max(np.max(gap) - 3 * spacing, 0.0)),
    )
