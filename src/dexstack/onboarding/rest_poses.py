"""Resting poses of a rigid body on a flat floor, and their probabilities when it is dropped in a
random orientation without bouncing.

The body stands on a face of its convex hull. It falls on a face with the probability of the face's
solid angle seen from the centre of mass. If the centre of mass does not lie over that face, the
body rolls over the edge beyond which it lies to the next face, and so on; every roll lowers the
centre of mass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import trimesh

FLAT = 2e-3
"""Angle of the normals below which neighbouring triangles are one face [rad]."""
ALIKE = 0.02
"""Relative difference of height and moment of inertia about the vertical up to which poses are of
one kind."""


class RestPose(NamedTuple):
    """One resting pose."""

    down_B: np.ndarray
    """(3,) direction that points down, body's frame."""
    height: float
    """Height of the centre of mass over the floor [m]."""
    probability: float
    kind: int
    """Number shared by poses that look alike, e.g. on all sides of a round can; 0 is the most likely
    kind."""


def rest_poses(hull: trimesh.Trimesh, centre: np.ndarray, inertia: np.ndarray) -> list[RestPose]:
    """Return all resting poses, those of the most likely kind first.

    Args:
        hull: convex hull, normals outward [m].
        centre: (3,) centre of mass [m].
        inertia: (3, 3) about it, of any scale.
    """
    faces = _Faces(hull, centre)
    ends = _ends(faces)
    probability = np.bincount(ends, weights=faces.solid_angle, minlength=len(ends)) / faces.solid_angle.sum()
    stable = np.flatnonzero(np.bincount(ends, minlength=len(ends)))
    moments = np.einsum("fi,ij,fj->f", faces.normals, inertia, faces.normals)
    kinds: list[list[int]] = []
    for f in stable[np.argsort(-probability[stable], kind="stable")]:
        for kind in kinds:
            if all(abs(x[f] - x[kind[0]]) <= ALIKE * max(x[f], x[kind[0]]) for x in (faces.heights, moments)):
                kind.append(int(f))
                break
        else:
            kinds.append([int(f)])
    kinds.sort(key=lambda kind: -probability[kind].sum())
    return [
        RestPose(faces.normals[f], float(faces.heights[f]), float(probability[f]), k)
        for k, kind in enumerate(kinds)
        for f in kind
    ]


class _Faces:
    """Faces of a hull, with the triangles of one plane joined."""

    def __init__(self, hull: trimesh.Trimesh, centre: np.ndarray) -> None:
        adjacency, angles = np.asarray(hull.face_adjacency), np.asarray(hull.face_adjacency_angles)
        self.of_triangle = trimesh.graph.connected_component_labels(
            adjacency[angles < FLAT], node_count=len(hull.faces)
        )
        count = self.of_triangle.max() + 1
        triangles = np.asarray(hull.triangles) - centre
        vectors = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
        self.normals = np.zeros((count, 3))
        np.add.at(self.normals, self.of_triangle, vectors)
        self.normals /= np.linalg.norm(self.normals, axis=1, keepdims=True)
        self.solid_angle = np.bincount(self.of_triangle, weights=solid_angles(triangles), minlength=count)
        corners = np.asarray(hull.vertices) - centre
        self.heights = np.zeros(count)
        distance = np.einsum("fi,fi->f", self.normals[self.of_triangle], triangles[:, 0])
        np.maximum.at(self.heights, self.of_triangle, distance)
        between = self.of_triangle[adjacency]
        real = between[:, 0] != between[:, 1]
        self.sides = between[real]
        """(E, 2) faces on both sides of an edge."""
        self.edges = corners[np.asarray(hull.face_adjacency_edges)[real]]
        """(E, 2, 3) ends of the edges, from the centre of mass."""


def _ends(faces: _Faces) -> np.ndarray:
    """Return, for each face that the body falls on, the face on which it comes to rest."""
    roll_to, beyond = np.arange(len(faces.normals)), np.zeros(len(faces.normals))
    for here, there in ((0, 1), (1, 0)):
        f, g = faces.sides[:, here], faces.sides[:, there]
        a, along = faces.edges[:, 0], faces.edges[:, 1] - faces.edges[:, 0]
        out = np.cross(along, faces.normals[f])
        out /= np.linalg.norm(out, axis=1, keepdims=True) + 1e-300
        # the normal of the neighbour at a convex edge points outwards
        out *= np.sign(np.einsum("ei,ei->e", out, faces.normals[g]))[:, None]
        distance = -np.einsum("ei,ei->e", a, out)  # of the centre of mass beyond the edge
        for e in np.flatnonzero((distance > 0) & (faces.heights[g] < faces.heights[f])):
            if distance[e] > beyond[f[e]]:
                beyond[f[e]], roll_to[f[e]] = distance[e], g[e]
    for f in np.argsort(faces.heights, kind="stable"):  # lower faces are resolved already
        roll_to[f] = roll_to[roll_to[f]]
    return roll_to


def solid_angles(triangles: np.ndarray) -> np.ndarray:
    """Return the solid angles (n,) of triangles (n, 3, 3) seen from the origin, positive if their
    normals point away from it, by van Oosterom and Strackee [sr]."""
    a, b, c = (triangles[:, k] for k in range(3))
    la, lb, lc = (np.linalg.norm(x, axis=1) for x in (a, b, c))
    abc, ab, bc, ca = (np.einsum("ni,ni->n", x, y) for x, y in ((a, np.cross(b, c)), (a, b), (b, c), (c, a)))
    return 2 * np.arctan2(abc, la * lb * lc + ab * lc + bc * la + ca * lb)


def resting_rotation(down_B: np.ndarray, corners_B: np.ndarray) -> np.ndarray:
    """Return the rotation (3, 3) of a body to the pose in which ``down_B`` (3,) points down and the
    longer side of its outline lies along x.

    The outline is that of the points ``corners_B`` (n, 3) seen from above; its sides are those of
    the enclosing rectangle of least area.
    """
    from scipy.spatial import ConvexHull

    z = -down_B / np.linalg.norm(down_B)
    x = np.cross(np.eye(3)[int(np.argmin(np.abs(z)))], z)
    x /= np.linalg.norm(x)
    R = np.stack([x, np.cross(z, x), z])
    outline = corners_B @ R[:2].T
    outline = outline[ConvexHull(outline).vertices]
    step = np.roll(outline, -1, axis=0) - outline
    # quarter turns leave the rectangle unchanged; rounding makes the choice among equal angles unique
    angles = np.unique(np.round(np.arctan2(step[:, 1], step[:, 0]) % (np.pi / 2), 9))
    turned = np.stack(
        [np.stack([np.cos(angles), np.sin(angles)], 1), np.stack([-np.sin(angles), np.cos(angles)], 1)], 1
    )
    sides = np.ptp(np.einsum("aij,nj->ani", turned, outline), axis=1)
    best = int(np.argmin(np.round(sides.prod(axis=1), 12)))
    Z = np.eye(3)
    Z[:2, :2] = turned[best]
    if sides[best, 1] > sides[best, 0] + 1e-9:
        Z = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]) @ Z
    return Z @ R
