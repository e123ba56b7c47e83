"""Pressure fields and rigid surfaces of simple shapes.

Every convex shape is a surface of triangles and, for each surface vertex, a point of the core (the
medial axis or its approximation) where ε = 1. A triangle and the core points of its corners span a
prism, split into at most three tets; where core points coincide the prism is a pyramid or one tet.
ε is then linear from surface to core, and exactly the depth over the inscribed radius wherever the
two are parallel.
"""

from __future__ import annotations

import math

import numpy as np

from dexengines.errors import EngineError
from dexengines.hydroelastic.fields import CompliantMesh, RigidMesh

HALF_SPACE_SIZE = 10.0
"""Half width of the triangle that represents a half-space [m]."""


def sphere(radius: float, modulus: float, *, size: float, name: str = "sphere") -> CompliantMesh:
    """Return a sphere about the origin; ``size`` is the longest edge on its surface [m]."""
    return ellipsoid((radius, radius, radius), modulus, size=size, name=name)


def ellipsoid(
    semi_axes: tuple[float, float, float], modulus: float, *, size: float, name: str = "ellipsoid"
) -> CompliantMesh:
    """Return an ellipsoid about the origin; ε falls linearly from its centre."""
    axes = _positive("semi-axes of an ellipsoid", *semi_axes)
    points, triangles = _unit_sphere(_levels(math.sqrt(2) * axes.max(), size))
    return _to_core(points * axes, triangles, np.zeros_like(points), modulus, name)


def box(dims: tuple[float, float, float], modulus: float, *, name: str = "box") -> CompliantMesh:
    """Return a box about the origin with side lengths ``dims``; ε is the depth over half the
    shortest side."""
    half = 0.5 * _positive("sides of a box", *dims)
    points = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)]) * half
    # the diagonals of opposite faces meet in the core
    triangles = np.array(
        [
            [0, 1, 3],
            [0, 3, 2],
            [4, 7, 5],
            [4, 6, 7],
            [0, 5, 1],
            [0, 4, 5],
            [2, 3, 7],
            [2, 7, 6],
            [0, 2, 6],
            [0, 6, 4],
            [1, 7, 3],
            [1, 5, 7],
        ]
    )
    return _to_core(points, triangles, np.sign(points) * (half - half.min()), modulus, name)


def cylinder(
    radius: float,
    length: float,
    modulus: float,
    *,
    size: float,
    name: str = "cylinder",
    segments: int | None = None,
) -> CompliantMesh:
    """Return a cylinder about the z axis, centred at the origin; ``size`` determines the
    ``segments`` around it unless given."""
    r, h = _positive("radius and half length of a cylinder", radius, 0.5 * length)
    n = segments or _segments(r, size)
    if n < 3:
        raise EngineError(f"a cylinder needs at least 3 segments, not {n}")
    inner = r - min(r, h), h - min(r, h)
    profile = [(0.0, h, 0.0, inner[1]), (r, h, *inner)]
    return _revolution(_mirrored(profile), n, modulus, name)


def capsule(
    radius: float, length: float, modulus: float, *, size: float, name: str = "capsule"
) -> CompliantMesh:
    """Return a capsule about the z axis; ``length`` is that of the cylinder between the half
    spheres."""
    r, h = _positive("radius and half length of a capsule", radius, 0.5 * length)
    n = 4 * math.ceil(_segments(r, size) / 4)
    latitudes = np.arange(n // 4, -1, -1) * (2 * math.pi / n)
    profile = [(r * math.cos(x), h + r * math.sin(x), 0.0, h) for x in latitudes]
    profile[0] = (0.0, h + r, 0.0, h)
    return _revolution(_mirrored(profile), n, modulus, name)


def convex(points: np.ndarray, modulus: float, *, name: str = "convex") -> CompliantMesh:
    """Return the convex hull of points (n, 3); ε falls linearly from the centre of the largest
    inscribed ball."""
    points = np.asarray(points, float)
    if points.ndim != 2 or points.shape[1] != 3 or len(points) < 4 or not np.isfinite(points).all():
        raise EngineError(
            f"the convex mesh {name} needs at least four finite points, not an array of shape {points.shape}"
        )
    triangles = _hull(points)
    used, triangles = np.unique(triangles, return_inverse=True)
    points, triangles = points[used], triangles.reshape(-1, 3)
    v = points[triangles]
    normal = np.cross(v[:, 1] - v[:, 0], v[:, 2] - v[:, 0])
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    # largest r with normal·(c − v0) + r ≤ 0 for every face
    from scipy.optimize import linprog

    a = np.column_stack([normal, np.ones(len(normal))])
    bounds = [(None, None)] * 3 + [(0, None)]
    result = linprog([0, 0, 0, -1], a, np.einsum("ij,ij->i", normal, v[:, 0]), bounds=bounds)
    if not result.success or result.x[3] <= 0:
        raise EngineError(f"the convex mesh {name} encloses no volume")
    return _to_core(points, triangles, np.tile(result.x[:3], (len(points), 1)), modulus, name)


def half_space(modulus: float, *, depth: float, name: str = "half_space") -> CompliantMesh:
    """Return the half-space z < 0: one tet of pressure E·(−z)/depth, which keeps rising beyond
    ``depth``, so that nothing falls through."""
    (depth,) = _positive("depth of a half-space", depth)
    s = HALF_SPACE_SIZE
    points = np.array(
        [[-math.sqrt(3) * s, -s, 0.0], [math.sqrt(3) * s, -s, 0.0], [0.0, 2 * s, 0.0], [0.0, 0.0, -s]]
    )
    return CompliantMesh(
        name, points, np.array([[0, 2, 1, 3]]), np.array([0.0, 0.0, 0.0, modulus * s / depth]), modulus
    )


def rigid_half_space(name: str = "ground") -> RigidMesh:
    """Return the plane z = 0 as one large triangle, outward up."""
    s = HALF_SPACE_SIZE
    return RigidMesh(
        name,
        np.array([[-math.sqrt(3) * s, -s, 0.0], [math.sqrt(3) * s, -s, 0.0], [0.0, 2 * s, 0.0]]),
        np.array([[0, 1, 2]]),
    )


def rigid(mesh: CompliantMesh, name: str | None = None) -> RigidMesh:
    """Return the surface of a compliant mesh as a rigid body."""
    used, triangles = np.unique(mesh.boundary_triangles, return_inverse=True)
    return RigidMesh(name or mesh.name, mesh.vertices_B[used], triangles.reshape(-1, 3))


def _positive(name: str, *values: float) -> np.ndarray:
    values = np.array(values, float)
    if not (np.isfinite(values).all() and values.min() > 0):
        raise EngineError(f"the {name} must be positive, not {values.tolist()}")
    return values


def _levels(edge: float, size: float) -> int:
    """Return the number of halvings that bring an edge below ``size``."""
    (size,) = _positive("mesh size", size)
    return max(0, math.ceil(math.log2(edge / size) - 1e-9))


def _segments(radius: float, size: float) -> int:
    (size,) = _positive("mesh size", size)
    return max(6, math.ceil(2 * math.pi * radius / size - 1e-9))


def _unit_sphere(levels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points (n, 3) and triangles (8·4^levels, 3) of an octahedron that is subdivided
    ``levels`` times and projected on the unit sphere."""
    points = np.array([[1.0, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])
    triangles = np.array(
        [[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4], [1, 0, 5], [2, 1, 5], [3, 2, 5], [0, 3, 5]]
    )
    for _ in range(levels):
        edges, which = np.unique(
            np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1),
            axis=0,
            return_inverse=True,
        )
        middle = points[edges].sum(axis=1)
        m = len(points) + which.reshape(-1, 3)
        points = np.concatenate([points, middle / np.linalg.norm(middle, axis=1)[:, None]])
        a, b, c = triangles.T
        ab, bc, ca = m.T
        triangles = np.concatenate(
            [np.column_stack(t) for t in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))]
        )
    return points, triangles


def _mirrored(upper: list[tuple[float, float, float, float]]) -> np.ndarray:
    """Return the profile of a body symmetric about z = 0 from its upper half, from the top down."""
    rows = np.array(upper)
    return np.concatenate([(rows * [1.0, -1.0, 1.0, -1.0]), rows[::-1]])


def _revolution(profile: np.ndarray, n: int, modulus: float, name: str) -> CompliantMesh:
    """Return a body of revolution about z with n segments.

    Args:
        profile: (k, 4) radius and z of the surface and of the core, from pole to pole upwards.
    """
    angle = 2 * math.pi * np.arange(n) / n
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    rings = profile[1:-1]
    points, core = (
        np.concatenate(
            [
                [(0.0, 0.0, profile[0, z])],
                *(np.column_stack([row[z - 1] * circle, np.full(n, row[z])]) for row in rings),
                [(0.0, 0.0, profile[-1, z])],
            ]
        )
        for z in (1, 3)
    )
    i, j, last = np.arange(n), (np.arange(n) + 1) % n, len(points) - 1
    triangles = [np.column_stack([np.zeros(n, int), 1 + j, 1 + i])]
    for low in 1 + n * np.arange(len(rings) - 1):
        high = low + n
        triangles += [
            np.column_stack([low + i, low + j, high + j]),
            np.column_stack([low + i, high + j, high + i]),
        ]
    triangles.append(np.column_stack([np.full(n, last), last - n + i, last - n + j]))
    return _to_core(points, np.concatenate(triangles), core, modulus, name)


def _hull(points: np.ndarray) -> np.ndarray:
    """Return the outward triangles (k, 3) of the convex hull."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(points)
    except QhullError:
        raise EngineError("the points of a convex mesh lie in one plane") from None
    triangles = hull.simplices.copy()
    v = points[triangles]
    inward = np.einsum("ij,ij->i", np.cross(v[:, 1] - v[:, 0], v[:, 2] - v[:, 0]), hull.equations[:, :3]) < 0
    triangles[inward] = triangles[inward][:, ::-1]
    return triangles


def _to_core(
    points: np.ndarray, triangles: np.ndarray, core: np.ndarray, modulus: float, name: str
) -> CompliantMesh:
    """Return the tets between the surface (ε = 0) and the core points (ε = 1) of its vertices;
    coinciding core points become one vertex."""
    scale = np.abs(points).max()
    _, first, which = np.unique(
        np.round(core / (1e-9 * scale)) + 0.0, axis=0, return_index=True, return_inverse=True
    )
    n = len(points)
    # Prisms are split along their lowest vertex numbers, so that neighbours agree on diagonals.
    # Vertices with the same core point are numbered consecutively: any other vertex is before or
    # after all of them, and no split leaves a flat tet.
    order = np.argsort(which.ravel(), kind="stable")
    rank = np.empty(n, int)
    rank[order] = np.arange(n)
    vertices = np.concatenate([points[order], core[first]])
    inner = n + which.ravel()[order]
    tets: list[list[int]] = []
    for triangle in rank[triangles]:
        turn = int(np.argmin(triangle))
        a, b, c = (int(triangle[(turn + i) % 3]) for i in range(3))
        d, e, f = int(inner[a]), int(inner[b]), int(inner[c])
        split = (
            [[a, d, e, f], [a, b, c, f], [a, b, f, e]]
            if b < c
            else [[a, d, e, f], [a, b, c, e], [a, c, f, e]]
        )
        tets += [t for t in split if len(set(t)) == 4]
    tets = np.array(tets)
    v = vertices[tets]
    volume = np.einsum("ij,ij->i", np.cross(v[:, 1] - v[:, 0], v[:, 2] - v[:, 0]), v[:, 3] - v[:, 0])
    tets[volume < 0] = tets[volume < 0][:, [0, 2, 1, 3]]
    pressure = np.concatenate([np.zeros(n), np.full(len(first), float(modulus))])
    return CompliantMesh(name, vertices, tets, pressure, modulus)
