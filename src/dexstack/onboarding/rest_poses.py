"""How a rigid body can lie on a flat floor, and how likely each is when it is dropped at random
without bouncing.

The body stands on a face of its convex hull. It falls on the face that the vertical through the
centre of mass leaves through: with the probability of the face's solid angle seen from there. If
the centre of mass does not lie over that face, the body rolls over the edge that it lies beyond to
the next face, and so on; every roll lowers the centre of mass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import trimesh

FLAT = 2e-3
"""Neighbouring triangles whose normals differ by less are one face [rad]."""
ALIKE = 0.02
"""Poses are of one kind if height and moment of inertia about the vertical agree within this
share."""


class RestPose(NamedTuple):
    """One way to lie."""

    down_B: np.ndarray
    """(3,) the direction that points down, body's frame."""
    height: float
    """Of the centre of mass over the floor [m]."""
    probability: float
    kind: int
    """Poses that look alike have the same number, e.g. all sides of a round can; the likeliest kind
    is 0."""


def rest_poses(hull: trimesh.Trimesh, centre: np.ndarray, inertia: np.ndarray) -> list[RestPose]:
    """All of them, those of the likeliest kind first.

    Args:
        hull: convex hull, normals outward [m].
        centre: (3,) centre of mass [m].
        inertia: (3, 3) about it; only ratios count.
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
    """Faces of a hull: triangles in one plane taken together."""

    def __init__(self, hull: trimesh.Trimesh, centre: np.ndarray) -> None:
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import connected_components

        adjacency, angles = np.asarray(hull.face_adjacency), np.asarray(hull.face_adjacency_angles)
        flat = adjacency[angles < FLAT]
        n = len(hull.faces)
        graph = coo_matrix((np.ones(len(flat)), (flat[:, 0], flat[:, 1])), (n, n))
        count, self.of_triangle = connected_components(graph, directed=False)
        triangles = np.asarray(hull.triangles) - centre
        vectors = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
        self.normals = np.zeros((count, 3))
        np.add.at(self.normals, self.of_triangle, vectors)
        self.normals /= np.linalg.norm(self.normals, axis=1, keepdims=True)
        self.solid_angle = np.bincount(self.of_triangle, weights=solid_angles(triangles), minlength=count)
        corners = np.asarray(hull.vertices) - centre
        self.heights = np.zeros(count)
        np.maximum.at(
            self.heights,
            self.of_triangle,
            np.einsum("fi,fi->f", self.normals[self.of_triangle], triangles[:, 0]),
        )
        between = self.of_triangle[adjacency]
        real = between[:, 0] != between[:, 1]
        self.sides = between[real]
        """(E, 2) faces on both sides of an edge."""
        self.edges = corners[np.asarray(hull.face_adjacency_edges)[real]]
        """(E, 2, 3) from the centre of mass."""


def _ends(faces: _Faces) -> np.ndarray:
    """The face on which the body comes to rest when it has fallen on each."""
    roll_to, beyond = np.arange(len(faces.normals)), np.zeros(len(faces.normals))
    for here, there in ((0, 1), (1, 0)):
        f, g = faces.sides[:, here], faces.sides[:, there]
        a, along = faces.edges[:, 0], faces.edges[:, 1] - faces.edges[:, 0]
        out = np.cross(along, faces.normals[f])
        out /= np.linalg.norm(out, axis=1, keepdims=True) + 1e-300
        out *= np.sign(np.einsum("ei,ei->e", out, faces.normals[g]))[
            :, None
        ]  # the neighbour of a convex edge leans outwards
        distance = -np.einsum("ei,ei->e", a, out)  # of the centre of mass beyond the edge
        for e in np.flatnonzero((distance > 0) & (faces.heights[g] < faces.heights[f])):
            if distance[e] > beyond[f[e]]:
                beyond[f[e]], roll_to[f[e]] = distance[e], g[e]
    for f in np.argsort(faces.heights, kind="stable"):  # the lower face has found its end already
        roll_to[f] = roll_to[roll_to[f]]
    return roll_to


def solid_angles(triangles: np.ndarray) -> np.ndarray:
    """Of triangles (n, 3, 3) seen from the origin, positive where they look away from it, by van
    Oosterom and Strackee [sr]."""
    a, b, c = (triangles[:, k] for k in range(3))
    la, lb, lc = (np.linalg.norm(x, axis=1) for x in (a, b, c))
    dot = lambda x, y: np.einsum("ni,ni->n", x, y)  # noqa: E731
    return 2 * np.arctan2(
        dot(a, np.cross(b, c)), la * lb * lc + dot(a, b) * lc + dot(b, c) * la + dot(c, a) * lb
    )


def resting_rotation(down_B: np.ndarray, corners_B: np.ndarray) -> np.ndarray:
    """The rotation (3, 3) that turns a body to lie on the side that ``down_B`` (3,) points to, the
    longer side of its outline along x.

    The outline is that of the points ``corners_B`` (n, 3) seen from above; its sides are those of
    the rectangle of least area around it.
    """
    from scipy.spatial import ConvexHull

    z = -down_B / np.linalg.norm(down_B)
    x = np.cross(np.eye(3)[int(np.argmin(np.abs(z)))], z)
    x /= np.linalg.norm(x)
    R = np.stack([x, np.cross(z, x), z])
    outline = corners_B @ R[:2].T
    outline = outline[ConvexHull(outline).vertices]
    step = np.roll(outline, -1, axis=0) - outline
    # a quarter turn more or less is the same rectangle; angles that are equal but for rounding make
    # one choice
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
