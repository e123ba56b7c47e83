"""Contact surface of two bodies: the surface of equal pressure, or the part of a rigid surface
inside a compliant body.

The surface is found by flood fill. Trees of boxes over the *boundary* triangles find pairs whose
triangles may cross: the rim of every open patch passes through such a pair. From there the surface
is followed: each edge of a polygon is labelled with the face that cut it, and so with the one pair
behind it (``clip.py``). Patches without a rim, of a body wholly inside another, are found from the
pressure's peaks, or from a vertex of each part of a rigid surface. The fill continues through faces
of zero area and faces dropped for their angle; otherwise patches would be missed.

The elements of a compliant body are tets, those of a rigid one triangles, whose surface is where
minus the distance from their plane is zero; one kernel serves both.

All work arrays are in :class:`~dexengines.hydroelastic.workspace.Surface`; a query allocates
nothing.
"""

from __future__ import annotations

import math

import numpy as np

from dexengines.hydroelastic.clip import cut_all, slice_tet
from dexengines.hydroelastic.faces import (
    NEAR,
    lost_beyond,
    pressure_force,
    report_lost,
    write_polygon,
    write_pressure,
)
from dexengines.hydroelastic.fields import MESH, CompliantMesh, RigidMesh
from dexengines.hydroelastic.flood import find_rims, forget, visit, visit_neighbours
from dexengines.hydroelastic.interior import seed_pair
from dexengines.hydroelastic.vectors import corner, dot, slope, turn, turn_back
from dexengines.hydroelastic.workspace import (
    DEEP_A,
    DEEP_B,
    DROP_ANGLE,
    FULL,
    PAIRS,
    SURFACE,
    ContactSurface,
    Surface,
    Workspace,
    workspace,
)
from dexengines.kernels import KERNEL, entry, inner, load

__all__ = [
    "FULL",
    "ContactSurface",
    "Surface",
    "Workspace",
    "query",
    "surface_kernel",
    "trace_surface",
    "workspace",
]

SNAP = 1e-13
"""p_A − p_B below this fraction of the lesser of the two greatest pressures is zero."""
ROUNDING = 4e-16
"""… and so is a difference below this fraction of the pressure's variation over a body: the effect
of rounded positions."""
COS_TURNED = math.cos(DROP_ANGLE)
"""Cosine of the angle between normal and pressure gradient at which a face has turned away."""


def query(
    a: CompliantMesh,
    b: CompliantMesh | RigidMesh,
    R_WA: np.ndarray,
    p_WA: np.ndarray,
    R_WB: np.ndarray,
    p_WB: np.ndarray,
    out: Workspace,
) -> ContactSurface:
    """Return the contact surface of A and B at the given poses.

    Two compliant bodies are computed in the same order whichever is A: action equals reaction to
    the last digit.

    Args:
        a, b: the bodies; A is compliant.
        R_WA, p_WA, R_WB, p_WB: (3, 3) rotations and (3,) positions of the bodies in world.
        out: arrays, reused from query to query; grow if they are too small.
    """
    rigid = isinstance(b, RigidMesh)
    if not rigid and (b.rank < a.rank or (b.rank == a.rank and tuple(p_WB) < tuple(p_WA))):
        n = query(b, a, R_WB, p_WB, R_WA, p_WA, out).n
        _exchange(out.address, n)
        return ContactSurface(out.arrays, n, False)
    stored_a, stored_b = a.stored.address, b.stored.address
    while (n := stored_surface(stored_a, stored_b, R_WA, p_WA, R_WB, p_WB, out.address)) == FULL:
        out.grow()
    return ContactSurface(out.arrays, n, rigid)


@entry(**KERNEL)
def stored_surface(a, b, R_WA, p_WA, R_WB, p_WB, out):
    """:func:`surface_kernel` of structures stored at three addresses."""
    return surface_kernel(load(a, MESH), load(b, MESH), R_WA, p_WA, R_WB, p_WB, load(out, SURFACE))


@entry(**KERNEL)
def _exchange(address, n):
    """Turn the n faces of A and B into those of B and A."""
    out = load(address, SURFACE)
    status = out.status
    status[DEEP_A], status[DEEP_B] = status[DEEP_B], status[DEEP_A]
    for f in range(n):
        out.grad_a[f], out.grad_b[f] = -out.grad_b[f], -out.grad_a[f]
        out.tet_a[f], out.elem_b[f] = out.elem_b[f], out.tet_a[f]
        i, j = out.start[f], out.start[f + 1] - 1
        for k in range(3):
            out.nhat_W[f, k] = -out.nhat_W[f, k]
        while i < j:
            for k in range(3):
                out.vertex_W[i, k], out.vertex_W[j, k] = out.vertex_W[j, k], out.vertex_W[i, k]
            i, j = i + 1, j - 1


@inner(**KERNEL)
def surface_kernel(pa, pb, R_WA, p_WA, R_WB, p_WB, out):
    """Compute the contact surface of a compliant body A and another.

    Args:
        pa, pb: ``packed`` of the meshes.
        out: workspace, filled.

    Returns:
        Number of faces, or FULL.
    """
    place(R_WA, p_WA, R_WB, p_WB, out)
    tail = find_rims(pa, pb, out.frame[:3], out.frame[3], out.stack, out.queue, out.table)
    return trace_surface(pa, pb, R_WA, p_WA, out, tail)


@inner(forceinline=True, **KERNEL)
def place(R_WA, p_WA, R_WB, p_WB, out):
    """Write the pose of B in A."""
    frame = out.frame
    d = p_WB[0] - p_WA[0], p_WB[1] - p_WA[1], p_WB[2] - p_WA[2]
    for i in range(3):
        frame[3, i] = R_WA[0, i] * d[0] + R_WA[1, i] * d[1] + R_WA[2, i] * d[2]
        for j in range(3):
            frame[i, j] = R_WA[0, i] * R_WB[0, j] + R_WA[1, i] * R_WB[1, j] + R_WA[2, i] * R_WB[2, j]


@inner(forceinline=True, **KERNEL)
def _signs(poly, pa, ta, own, g, c, snap, tie):
    """Return the bit mask of the corners of A's tet where own p_A − (g·x + c) > 0; writes the values
    for ``slice_tet``.

    Args:
        g, c: p_B = g·x + c in A's frame.
        snap, tie: differences up to ``snap`` count as zero, whose bit is ``tie``.
    """
    mask = 0
    for k in range(4):
        f = own * pa.vertex[pa.element_int[ta, k], 3] - (dot(g, corner(pa, ta, k)) + c)
        if abs(f) <= snap:
            f = 0.0
            mask |= tie << k
        elif f > 0.0:
            mask |= 1 << k
        poly[12 + k, 7] = f
    return mask


@inner(forceinline=True, **KERNEL)
def _belongs(pb, tb, h, c, snap, tie):
    """Return whether a polygon in a face of B's tet belongs to that tet and not to its neighbour.

    Args:
        h, c: p_A = h·x + c in B's frame.
        snap, tie: see :func:`_signs`.
    """
    beyond = 0
    for k in range(4):
        f = dot(h, corner(pb, tb, k)) + c - pb.vertex[pb.element_int[tb, k], 3]
        beyond += f < -snap if tie else f > snap
    return beyond != 0 and beyond != 4


@inner(forceinline=True, **KERNEL)
def trace_surface(pa, pb, R_WA, p_WA, out, tail):
    """Follow the surface from the first ``tail`` pairs of the queue; in one piece because all steps
    share the counters of the flood."""
    R, p = out.frame[:3], out.frame[3]
    status = out.status
    status[:] = 0
    out.start[0] = 0
    queue, table, poly, label = out.queue, out.table, out.poly, out.label
    cos_drop, rigid = out.cos_drop[0], pb.scale[0] == math.inf
    own = 0.0 if rigid else 1.0
    snap = NEAR if rigid else SNAP * min(pa.scale[0], pb.scale[0]) + ROUNDING * max(pa.scale[1], pb.scale[1])
    # p_A = p_B counts for the body of the greater peak, in either order of the two: 1 if that is A
    tie = 1 if pa.scale[0] > pb.scale[0] or (pa.scale[0] == pb.scale[0] and pa.scale[1] > pb.scale[1]) else 0
    faces = corners = head = ridge_a = ridge_b = seed = 0
    lost_a = lost_b = 0.0
    seeds = len(pa.seed) + len(pb.seed)
    result = min(tail, 0)
    while result >= 0:
        if head == tail:
            # patches without a rim
            if seed == seeds:
                break
            ta, tb = seed_pair(pa, pb, R, p, seed, out, rigid)
            seed += 1
            if ta >= 0:
                tail = visit(queue, table, tail, ta, tb, pb)
                result = min(tail, 0)
            continue
        ta, tb = queue[head, 0], queue[head, 1]
        head += 1
        # both gradients in A's frame; that of p_A in B's, too
        a, g = slope(pa, ta), turn(R, slope(pb, tb))
        mask = _signs(poly, pa, ta, own, g, pb.element[tb, 19] - dot(g, p), snap, tie)
        if mask == 0 or mask == 15:
            continue
        status[PAIRS] += 1
        # the plane in A's tet
        n = slice_tet(poly, label, mask, pa, ta, R, p, pb, tb)
        n, on_face = cut_all(poly, label, n)
        if n == 0:
            continue
        h = turn_back(R, a)
        if on_face and not rigid and not _belongs(pb, tb, h, pa.element[ta, 19] + dot(a, p), snap, tie):
            continue
        tail = visit_neighbours(queue, table, tail, label, n, pa, pb, (ta, tb))
        if tail == FULL:
            result = FULL
            break
        n0, n1, n2 = own * a[0] - g[0], own * a[1] - g[1], own * a[2] - g[2]
        length = math.sqrt(n0 * n0 + n1 * n1 + n2 * n2)
        normal = n0 / length, n1 / length, n2 / length
        da, db = dot(normal, a), own * dot(normal, g)
        size_a, size_b = math.sqrt(dot(a, a)), own * math.sqrt(dot(g, g))
        turned_a, turned_b = da <= COS_TURNED * size_a, not rigid and -db <= COS_TURNED * size_b
        if turned_a or turned_b:
            force, mean = pressure_force(poly, n, normal, a, pa.element[ta, 19])
            if turned_a:
                lost = lost_beyond(
                    force, mean, label, n, 0, pa, ta, normal, (own * g[0], own * g[1], own * g[2])
                )
                ridge_a, lost_a = ridge_a + (lost > 0.0), lost_a + lost
            if turned_b:
                lost = lost_beyond(force, mean, label, n, 4, pb, tb, (0.0, 0.0, 0.0), h)
                ridge_b, lost_b = ridge_b + (lost > 0.0), lost_b + lost
        if da <= cos_drop * size_a or (not rigid and -db <= cos_drop * size_b):
            continue
        if faces >= len(out.area):
            result = FULL
            break
        m, x, y, z = write_polygon(poly, n, normal, R_WA, p_WA, out, faces, corners)
        pressure = dot(a, (x, y, z)) + pa.element[ta, 19]
        if m <= 0 or (pressure <= snap and not rigid):  # no area, or the boundaries lie on each other
            result = min(m, 0)
            continue
        write_pressure(out, faces, R_WA, pressure, a, normal, da, db)
        out.tet_a[faces], out.elem_b[faces] = ta, tb
        corners += m
        faces += 1
    if result < 0:
        table[:] = -1
        return FULL
    forget(queue, table, tail, pb)
    if ridge_a:
        report_lost(out, faces, DEEP_A, ridge_a, lost_a)
    if ridge_b:
        report_lost(out, faces, DEEP_B, ridge_b, lost_b)
    return faces
