"""Properties of contact surfaces in random overlapping poses: finite, balanced, complete,
continuous."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.spatial.transform import Rotation

from dexengines.hydroelastic import shapes
from dexengines.hydroelastic.fields import MESH, CompliantMesh, RigidMesh
from dexengines.hydroelastic.flood import visit
from dexengines.hydroelastic.surface import (
    ContactSurface,
    Workspace,
    place,
    query,
    trace_surface,
)
from dexengines.hydroelastic.workspace import SURFACE
from dexengines.kernels import KERNEL, entry, load
from experiments.hydroelastic.forces import wrench
from experiments.hydroelastic.surfaces import Check, Pose

SIZE = 0.1
"""Size of the bodies [m]."""
KINDS = ("random", "touching", "aligned", "coplanar", "a_in_b", "b_in_a")
EXHAUSTIVE_EVERY = 10
"""Poses between two comparisons of the flood fill with all pairs."""
BISECTIONS = (24, 40)
"""Smallest number, and the largest while the change is still large."""
CONTINUOUS = 1e-4
MOST_PAIRS = 1 << 17
"""Pairs of elements of any two bodies."""
ROUNDING = 1e-16
"""Rounding of a position [m] at this size."""


def bodies() -> list[CompliantMesh | RigidMesh]:
    """Return bodies of every kind: convex and not, with tets down to slivers, and rigid ones."""
    e = 1e5
    ball = shapes.sphere(0.05, e, size=0.04)
    # the centre moved so close to one face that its tet is a thousandth as high as the others
    bent = ball.vertices_B.copy()
    bent[np.argmax(ball.pressure)] = 0.999 * bent[ball.boundary_triangles[0]].mean(axis=0)
    sliver = CompliantMesh("sliver", bent, ball.tets, 1.3 * ball.pressure, 1.3 * e)
    left, right = (shapes.sphere(0.03, e, size=0.03, name=side) for side in ("left", "right"))
    pair = CompliantMesh(
        "two parts",
        np.concatenate(
            [left.vertices_B + np.array([-0.025, 0, 0]), right.vertices_B + np.array([0.035, 0, 0])]
        ),
        np.concatenate([left.tets, right.tets + len(left.vertices_B)]),
        np.concatenate([left.pressure, 3 * right.pressure]),
        e,
    )
    block = shapes.box((0.1, 0.08, 0.06), 2 * e)
    return [
        ball,
        block,
        shapes.cylinder(0.04, 0.08, e, size=0.04),
        shapes.capsule(0.03, 0.04, 3 * e, size=0.04),
        shapes.ellipsoid((0.06, 0.04, 0.02), e, size=0.05),
        shapes.box((0.1, 0.1, 1e-4), e, name="sheet"),
        sliver,
        pair,
        shapes.sphere(0.5, 0.5 * e, size=0.4, name="large"),
        shapes.rigid(block, "rigid box"),
        shapes.rigid(ball, "rigid sphere"),
    ]


def _stiffer(m: CompliantMesh) -> CompliantMesh:
    """Return a stiffer copy: no force is defined where two fields coincide in a volume."""
    return CompliantMesh(m.name, m.vertices_B, m.tets, 1.7 * m.pressure, 1.7 * m.modulus)


def random_pose(kind: str, a: CompliantMesh, b: CompliantMesh | RigidMesh, rng: np.random.Generator) -> Pose:
    """Return a pose of one of :data:`KINDS` at which the two bounding boxes overlap."""
    R_A, R_B = (Rotation.random(random_state=rng).as_matrix() for _ in range(2))
    p_A = rng.normal(size=3) * SIZE
    extent = [np.ptp(m.vertices_B, axis=0) / 2 for m in (a, b)]
    direction = rng.normal(size=3)
    direction /= np.linalg.norm(direction)
    reach = min(extent[0].max(), extent[1].max())
    if kind == "random":
        p_B = p_A + direction * rng.uniform(0.0, 1.0) * (extent[0].max() + extent[1].max())
    elif kind == "touching":  # a corner of B on a corner of A
        u, v = a.vertices_B[rng.integers(len(a.vertices_B))], b.vertices_B[rng.integers(len(b.vertices_B))]
        p_B = p_A + R_A @ u - R_B @ v
    elif kind in ("aligned", "coplanar"):
        turns = [
            np.eye(3),
            Rotation.from_euler("z", 90, degrees=True).as_matrix(),
            Rotation.from_euler("x", 180, degrees=True).as_matrix(),
        ]
        if rng.random() < 0.5:
            R_A, p_A = np.eye(3), np.zeros(3)
        R_B = R_A @ turns[rng.integers(3)]
        axis = rng.integers(3)
        shift = np.zeros(3)
        shift[axis] = (
            extent[0][axis] + extent[1][axis]
            if kind == "coplanar" and rng.random() < 0.5
            else extent[0][axis] * rng.integers(0, 5) / 4
        )
        p_B = p_A + R_A @ shift
    else:
        p_B = p_A + direction * rng.uniform(0.0, 0.2) * reach
    return np.ascontiguousarray(R_A), p_A, np.ascontiguousarray(R_B), p_B


def check_poses(n: int, seed: int) -> dict[str, Check]:
    """Try n poses, cycling through kinds and pairs of bodies.

    Returns:
        ``finite`` (every number, unit normals, positive areas), ``third_law`` (the wrench of A and
        B asked in either order, relative to the sum of all face forces and to what moving a body by
        :data:`ROUNDING` may change), ``complete`` (flood fill against all pairs of elements),
        ``continuous`` (change of the wrench over the last 2⁻²⁴ of a random path, halved towards the
        greater change, or, while that is too large, of up to 2⁻⁴⁰; relative to the forces met on
        it).
    """
    rng = np.random.default_rng(seed)
    checks = {
        "finite": Check(0.0),
        "third_law": Check(1e-12),
        "complete": Check(1e-9),
        "continuous": Check(CONTINUOUS),
    }
    out, whole, large = Workspace(), Workspace(drop_angle=math.pi), Workspace(MOST_PAIRS // 4)
    body = bodies()
    pairs = [(a, _stiffer(b) if a is b else b) for a in body for b in body if isinstance(a, CompliantMesh)]
    for i in range(n):
        a, b = pairs[(i // len(KINDS)) % len(pairs)]
        kind = KINDS[i % len(KINDS)]
        if kind in ("a_in_b", "b_in_a") and (np.ptp(a.vertices_B) > np.ptp(b.vertices_B)) != (
            kind == "b_in_a"
        ):
            kind = "random"
        pose = random_pose(kind, a, b, rng)
        surface = query(a, b, *pose, out)
        checks["finite"].add(float(not _finite(surface)))
        w, scale = wrench(surface, pose[1]), _scale(surface)
        if isinstance(b, CompliantMesh):
            other = wrench(query(b, a, *pose[2:], *pose[:2], out), pose[1])
            steepest = max(np.abs(m.gradient_B).max() for m in (a, b))
            scale += ROUNDING / checks["third_law"].tolerance * steepest * float(surface.area.sum())
            if scale > 0:
                checks["third_law"].add(
                    max(
                        np.abs(w[3:] + other[3:]).max() / scale,
                        np.abs(w[:3] + other[:3]).max() / (scale * SIZE),
                    )
                )
        if i % EXHAUSTIVE_EVERY == 0:
            checks["complete"].add(_difference_to_all_pairs(a, b, pose, out, large))
        checks["continuous"].add(jump(a, b, pose, rng, whole))
    return checks


def _finite(surface: ContactSurface) -> bool:
    numbers = (
        surface.centroid_W,
        surface.nhat_W,
        surface.area,
        surface.pressure,
        surface.grad_a,
        surface.grad_b,
        surface.vertex_W,
    )
    return (
        all(np.isfinite(x).all() for x in numbers)
        and bool((surface.area > 0).all())
        and bool((np.abs(np.linalg.norm(surface.nhat_W, axis=1) - 1) < 1e-9).all())
    )


def _scale(surface: ContactSurface) -> float:
    return float((np.abs(surface.pressure) * surface.area).sum())


@entry(cache=False, **KERNEL)
def _all_pairs(a, b, R_WA, p_WA, R_WB, p_WB, out):
    """Compute the surface of two stored bodies from every pair of their elements."""
    pa, pb, surface = load(a, MESH), load(b, MESH), load(out, SURFACE)
    place(R_WA, p_WA, R_WB, p_WB, surface)
    tail = 0
    for i in range(len(pa.element)):
        for j in range(len(pb.element)):
            tail = visit(surface.queue, surface.table, tail, i, j, pb)
    return trace_surface(pa, pb, R_WA, p_WA, surface, tail)


def _difference_to_all_pairs(
    a: CompliantMesh, b: CompliantMesh | RigidMesh, pose: Pose, out: Workspace, large: Workspace
) -> float:
    """Return the relative difference of the wrench when every pair of elements is tried."""
    flood = wrench(query(a, b, *pose, out), pose[1])
    n = _all_pairs(a.stored.address, b.stored.address, *pose, large.address)
    assert n >= 0
    surface = ContactSurface(large.arrays, n, isinstance(b, RigidMesh))
    difference, scale = np.abs(wrench(surface, pose[1]) - flood), _scale(surface)
    return float(
        max(difference[3:].max(), difference[:3].max() / SIZE) / max(scale, 1e-12 * a.modulus * SIZE**2)
    )


def random_path(pose: Pose, rng: np.random.Generator) -> Callable[[float], Pose]:
    """Return poses along a screw motion of B from ``pose``, by the fraction 0 … 1 of the way."""
    turn, shift = rng.normal(size=3) * 0.3, rng.normal(size=3) * 0.2 * SIZE
    return lambda s: (
        pose[0],
        pose[1],
        Rotation.from_rotvec(s * turn).as_matrix() @ pose[2],
        pose[3] + s * shift,
    )


def jump(
    a: CompliantMesh, b: CompliantMesh | RigidMesh, pose: Pose, rng: np.random.Generator, out: Workspace
) -> float:
    """Bisect a random path of B towards the largest change of the wrench; return the remaining
    change relative to the largest forces on the path.

    A steep change halves with the path, a jump stays.
    """
    path = random_path(pose, rng)
    largest = 1e-6 * a.modulus * SIZE**2

    def at(s: float) -> np.ndarray:
        nonlocal largest
        there = path(s)
        surface = query(a, b, *there, out)
        largest = max(largest, _scale(surface))
        w = wrench(surface, there[1])
        w[:3] /= SIZE
        return w

    low, high = 0.0, 1.0
    w_low, w_high = at(low), at(high)
    for i in range(BISECTIONS[1]):
        if i >= BISECTIONS[0] and np.abs(w_high - w_low).max() <= CONTINUOUS * largest:
            break
        middle = 0.5 * (low + high)
        w = at(middle)
        if np.abs(w - w_low).max() > np.abs(w_high - w).max():
            high, w_high = middle, w
        else:
            low, w_low = middle, w
    return float(np.abs(w_high - w_low).max() / largest)
