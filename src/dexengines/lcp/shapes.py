"""Collision shapes: rounded convex hulls (the hull of points, thickened by a radius) and cylinders,
all exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import ConvexHull, QhullError

from dexengines.errors import EngineError
from dexengines.kernels import tuple_type

INSIDE = 1e-4
"""Share of a hull's size by which a corner may lie inside it, as through rounding."""
FLAT = 1e-6
"""Share of a hull's size by which corners of one face may lie off its plane; compiled models keep
meshes in single precision."""
REST = 1e-5
"""Gap that a resting contact keeps [m], if neither geometry is small."""
REST_OF_SIZE = 0.01
"""Largest share of the smaller geometry's least half extent that it is."""
LEAST_REST = 2e-6
"""Smallest gap at rest, above the floor at which pairs are found to hit [m]."""


@dataclass(frozen=True)
class Geometry:
    """One shape on one body, in the body's frame: the convex hull of ``points_B`` and everything
    within ``radius`` of it."""

    name: str
    body: str
    """Name of a body of the MuJoCo model; ``"world"`` is the ground."""
    points_B: np.ndarray
    """(n, 3) corners of the hull [m]; one for a sphere, two for a capsule or a cylinder."""
    radius: float = 0.0
    """[m]"""
    disc: float = 0.0
    """Radius of a disc that is swept along the line of two points to a cylinder, to which
    ``radius`` is added [m]."""
    friction: float = 0.5
    """Of two surfaces the larger is used."""
    restitution: float = 0.0
    """0 … 1; of two surfaces the larger is used."""
    plane: np.ndarray | None = None
    """(3,) outward normal of a half-space through ``points_B[0]``, on the world only."""


def box(
    name: str, body: str, half: ArrayLike, p: ArrayLike = (0, 0, 0), R: np.ndarray | None = None, **more
) -> Geometry:
    """Return a box of half extents ``half`` [m]."""
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float) * half
    return Geometry(name, body, corners @ (np.eye(3) if R is None else R).T + p, **more)


def sphere(name: str, body: str, radius: float, p: ArrayLike = (0, 0, 0), **more) -> Geometry:
    """Return a sphere."""
    return Geometry(name, body, np.array([p], float), radius, **more)


def capsule(
    name: str,
    body: str,
    radius: float,
    half: float,
    p: ArrayLike = (0, 0, 0),
    R: np.ndarray | None = None,
    **more,
) -> Geometry:
    """Return a capsule along z; ``half`` from its middle to the centre of either end [m]."""
    ends = np.array([[0, 0, -half], [0, 0, half]], float)
    return Geometry(name, body, ends @ (np.eye(3) if R is None else R).T + p, radius, **more)


def cylinder(
    name: str,
    body: str,
    radius: float,
    half: float,
    p: ArrayLike = (0, 0, 0),
    R: np.ndarray | None = None,
    **more,
) -> Geometry:
    """Return a cylinder with flat ends along z; ``half`` its half length [m]."""
    ends = np.array([[0, 0, -half], [0, 0, half]], float)
    return Geometry(name, body, ends @ (np.eye(3) if R is None else R).T + p, disc=radius, **more)


def hull(name: str, body: str, points: np.ndarray, **more) -> Geometry:
    """Return the convex hull of points (n, 3) that span a volume."""
    try:
        return Geometry(name, body, points[np.sort(ConvexHull(points).vertices)], **more)
    except QhullError:
        raise EngineError(f"geometry '{name}' needs corners that span a volume") from None


def plane(name: str, point: ArrayLike = (0, 0, 0), normal: ArrayLike = (0, 0, 1), **more) -> Geometry:
    """Return the half-space behind a plane of the world."""
    n = np.asarray(normal, float)
    return Geometry(name, "world", np.array([point], float), plane=n / np.linalg.norm(n), **more)


def prism(name: str, body: str, sides: int, radius: float, half: float, **more) -> Geometry:
    """Return a regular prism along z whose corners lie at ``radius`` from its axis."""
    angle = 2.0 * np.pi * np.arange(sides) / sides
    ring = radius * np.stack([np.cos(angle), np.sin(angle)], 1)
    return Geometry(
        name, body, np.concatenate([np.c_[ring, np.full(sides, z)] for z in (-half, half)]), **more
    )


class Shapes(NamedTuple):
    """All geometries, packed for the kernels. Geometry g's part begins at ``…_start[g]``."""

    body: np.ndarray
    radius: np.ndarray
    disc: np.ndarray
    """(G,) of cylinders, else 0."""
    side: np.ndarray
    """(G,) thickness of corners and edges: ``radius``, plus ``disc`` for a cylinder's axis."""
    axis: np.ndarray
    """(G, 3) of cylinders, from their first corner to the second, unit length."""
    is_plane: np.ndarray
    normal: np.ndarray
    """(G, 3) of planes."""
    vertex_start: np.ndarray
    vertex: np.ndarray
    """(n, 3) body frame."""
    face_start: np.ndarray
    face: np.ndarray
    """(n, 4) outward normal and offset, body frame."""
    loop_start: np.ndarray
    loop: np.ndarray
    """Corners of every face in order (indices into ``vertex``)."""
    edge_start: np.ndarray
    edge: np.ndarray
    """(n, 2) indices into ``vertex``."""
    centre: np.ndarray
    """(G, 3) of a bounding ball, body frame."""
    reach: np.ndarray
    """(G,) its radius, rounding included."""
    pairs: np.ndarray
    """(P, 2) geometries that may touch; a plane comes first."""
    friction_of: np.ndarray
    """(P,) entry of the parameters' friction of a pair."""
    restitution_of: np.ndarray
    """(P,) geometry whose restitution a pair uses."""
    rest: np.ndarray
    """(P,) gap that a pair keeps at rest [m], see :data:`REST`."""


SHAPES = tuple_type(Shapes, "l1 f1 f1 f1 f2 b1 f2 l1 f2 l1 f2 l1 l1 l1 l2 f2 f1 l2 l1 l1 f1")


class _Hull(NamedTuple):
    vertices: np.ndarray
    faces: list[tuple[np.ndarray, float, list[int]]]
    edges: list[tuple[int, int]]


def _outline(corners: np.ndarray, normal: np.ndarray) -> list[int]:
    """Return the corners of a face's convex outline, in order around ``normal``, of corners (n, 3).

    Corners within the outline, which a face that is flat to :data:`FLAT` only may have, are left
    out.
    """
    x = corners - corners.mean(axis=0)
    u = x[0] / np.linalg.norm(x[0])
    x = np.stack([x @ u, x @ np.cross(normal, u)], 1)
    order = [int(i) for i in np.argsort(np.arctan2(x[:, 1], x[:, 0]))]
    first = int(np.argmax(np.linalg.norm(x[order], axis=1)))  # is one of them
    found: list[int] = []
    for k in (*order[first:], *order[: first + 1]):
        while len(found) > 1:
            (ax, ay), (bx, by) = x[found[-1]] - x[found[-2]], x[k] - x[found[-1]]
            if ax * by - ay * bx > 0.0:
                break
            found.pop()
        found.append(k)
    return found[:-1]


def _hull(g: Geometry) -> _Hull:
    """Return corners, plane faces with their corners in order, and edges between faces that are not
    coplanar."""
    points = np.asarray(g.points_B, float)
    if points.ndim != 2 or points.shape[1] != 3 or not len(points) or not np.isfinite(points).all():
        raise EngineError(f"geometry '{g.name}' needs finite corners (n, 3), got {points.shape}")
    if g.disc > 0.0:
        axis = points[1] - points[0]
        axis /= np.linalg.norm(axis)
        return _Hull(
            points, [(-axis, float(-axis @ points[0]), [0]), (axis, float(axis @ points[1]), [1])], [(0, 1)]
        )
    if len(points) <= 2:
        return _Hull(points, [], [(0, 1)] if len(points) == 2 else [])
    try:
        hull = ConvexHull(points)
    except QhullError:
        raise EngineError(f"geometry '{g.name}' needs corners that span a volume") from None
    keep = np.sort(hull.vertices)
    renumber = np.full(len(points), -1)
    renumber[keep] = np.arange(len(keep))
    vertices = points[keep]
    size = np.ptp(vertices, axis=0).max()
    within = -np.max(points @ hull.equations[:, :3].T + hull.equations[:, 3], axis=1)
    if within.max() > INSIDE * size:
        raise EngineError(
            f"geometry '{g.name}' is not convex: {int((within > INSIDE * size).sum())} of its "
            f"{len(points)} corners lie up to {1e3 * within.max():.2g} mm inside their convex hull; "
            "split the mesh into convex parts"
        )
    groups = np.empty((0, 4))
    for equation in hull.equations:
        same = (groups[:, :3] @ equation[:3] > 1.0 - 1e-10) & (
            np.abs(groups[:, 3] - equation[3]) < FLAT * size
        )
        if not same.any():
            groups = np.vstack([groups, equation])
    faces, edges = [], set()
    for equation in groups:
        n = equation[:3]
        on = np.flatnonzero(np.abs(vertices @ n + equation[3]) < FLAT * size)
        order = on[_outline(vertices[on], n)]
        faces.append((n, float(np.max(vertices[on] @ n)), [int(i) for i in order]))
        edges |= {(int(min(a, b)), int(max(a, b))) for a, b in zip(order, np.roll(order, -1), strict=True)}
    return _Hull(vertices, faces, sorted(edges))


def _half(g: Geometry, hull: _Hull) -> float:
    """Return the least half extent of a geometry [m], infinite for a plane."""
    if g.plane is not None:
        return np.inf
    widths = [offset - float(np.min(hull.vertices @ n)) for n, offset, _ in hull.faces]
    return min([g.radius + 0.5 * w for w in widths] + [g.radius + g.disc] * (len(hull.vertices) <= 2))


def pack(
    geometries: Sequence[Geometry], bodies: dict[str, int], pairs: np.ndarray, friction_of: np.ndarray
) -> Shapes:
    """Pack geometries for the kernels; ``friction_of`` (P,) becomes :attr:`Shapes.friction_of`.

    Raises:
        EngineError: an unknown body, a geometry without volume, numbers out of range, a plane on a
            body that moves.
    """
    for g in geometries:
        if g.body not in bodies:
            raise EngineError(f"geometry '{g.name}' is on body '{g.body}', which the model does not have")
        numbers = [g.friction, g.radius, g.disc]
        if not (np.isfinite(numbers).all() and min(numbers) >= 0.0 and 0.0 <= g.restitution <= 1.0):
            raise EngineError(
                f"geometry '{g.name}' needs friction and radius not negative and a restitution of 0 to 1"
            )
        if g.disc > 0.0 and (len(g.points_B) != 2 or not np.linalg.norm(np.subtract(*g.points_B)) > 0.0):
            raise EngineError(f"the cylinder '{g.name}' needs two different ends")
        if g.plane is not None and bodies[g.body] != 0:
            raise EngineError(f"the half-space '{g.name}' must belong to the world")
        if len(g.points_B) <= 2 and g.radius == g.disc == 0.0 and g.plane is None:
            raise EngineError(f"geometry '{g.name}' has neither volume nor radius")
    hulls = [_hull(g) for g in geometries]
    vertex_start = np.concatenate([[0], np.cumsum([len(h.vertices) for h in hulls])]).astype(np.int64)
    face_start = np.concatenate([[0], np.cumsum([len(h.faces) for h in hulls])]).astype(np.int64)
    edge_start = np.concatenate([[0], np.cumsum([len(h.edges) for h in hulls])]).astype(np.int64)
    loops = [[v + int(vertex_start[k]) for v in f[2]] for k, h in enumerate(hulls) for f in h.faces]
    centre = np.array([0.5 * (h.vertices.min(axis=0) + h.vertices.max(axis=0)) for h in hulls]).reshape(-1, 3)
    radius = np.array([g.radius for g in geometries], float)
    disc = np.array([g.disc for g in geometries], float)
    axis = np.array(
        [h.faces[1][0] if g.disc > 0.0 else np.zeros(3) for g, h in zip(geometries, hulls, strict=True)]
    ).reshape(-1, 3)
    reach = [np.linalg.norm(h.vertices - c, axis=1).max() for h, c in zip(hulls, centre, strict=True)]
    restitution = np.array([g.restitution for g in geometries])
    half = [_half(g, h) for g, h in zip(geometries, hulls, strict=True)]
    pairs = np.array(
        [(b, a) if geometries[b].plane is not None else (a, b) for a, b in pairs], np.int64
    ).reshape(-1, 2)
    return Shapes(
        body=np.array([bodies[g.body] for g in geometries], np.int64),
        radius=radius,
        disc=disc,
        side=radius + disc,
        axis=axis,
        is_plane=np.array([g.plane is not None for g in geometries], bool),
        normal=np.array([np.zeros(3) if g.plane is None else g.plane for g in geometries]).reshape(-1, 3),
        vertex_start=vertex_start,
        vertex=np.concatenate([np.zeros((0, 3)), *(h.vertices for h in hulls)]),
        face_start=face_start,
        face=np.array([[*f[0], f[1]] for h in hulls for f in h.faces]).reshape(-1, 4),
        loop_start=np.concatenate([[0], np.cumsum([len(loop) for loop in loops])]).astype(np.int64),
        loop=np.array([v for loop in loops for v in loop], np.int64),
        edge_start=edge_start,
        edge=np.array(
            [[a + vertex_start[k], b + vertex_start[k]] for k, h in enumerate(hulls) for a, b in h.edges],
            np.int64,
        ).reshape(-1, 2),
        centre=centre,
        reach=np.hypot(np.array(reach, float), disc) + radius,
        pairs=pairs,
        friction_of=friction_of,
        rest=np.clip([REST_OF_SIZE * min(half[a], half[b]) for a, b in pairs], LEAST_REST, REST),
        restitution_of=np.array([a if restitution[a] >= restitution[b] else b for a, b in pairs], np.int64),
    )
