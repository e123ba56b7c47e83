"""Contact surface of two bodies: the surface of equal pressure, or the part of a rigid surface
inside a compliant body.

The surface is found by flood fill. Trees of boxes over the *boundary* triangles find pairs whose
triangles may cross: the rim of every open patch passes through such a pair. From there the surface
is followed: each edge of a polygon is labelled with the face that cut it, and so with the one pair
behind it (``clip.py``). Patches without a rim, of a body wholly inside another, are found from the
pressure's peaks, or from a vertex of each part of a rigid surface. The fill continues through faces
of zero area and faces dropped for their angle; otherwise patches would be missed.

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
from dexengines.hydroelastic.fields import COMPLIANT, RIGID, CompliantMesh, RigidMesh
from dexengines.hydroelastic.flood import find_rims, forget, visit, visit_neighbours
from dexengines.hydroelastic.interior import in_box, inside_surface, locate, peak_pair
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
    "ContactSurface",
    "Surface",
    "Workspace",
    "query",
    "surface_kernel",
    "surface_kernel_rigid",
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
    kernel = stored_surface_rigid if rigid else stored_surface
    stored_a, stored_b = a.stored.address, b.stored.address
    n = kernel(stored_a, stored_b, R_WA, p_WA, R_WB, p_WB, out.address)
    while n == FULL:
        out.grow()
        n = kernel(stored_a, stored_b, R_WA, p_WA, R_WB, p_WB, out.address)
    return ContactSurface(out.arrays, n, rigid)


@entry(**KERNEL)
def stored_surface(a, b, R_WA, p_WA, R_WB, p_WB, out):
    """:func:`surface_kernel` of structures stored at three addresses."""
    return surface_kernel(load(a, COMPLIANT), load(b, COMPLIANT), R_WA, p_WA, R_WB, p_WB, load(out, SURFACE))


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


@entry(**KERNEL)
def stored_surface_rigid(a, b, R_WA, p_WA, R_WB, p_WB, out):
    """:func:`surface_kernel_rigid` of structures stored at three addresses."""
    return surface_kernel_rigid(
        load(a, COMPLIANT), load(b, RIGID), R_WA, p_WA, R_WB, p_WB, load(out, SURFACE)
    )


@inner(forceinline=True, **KERNEL)
def _relative(R_WA, p_WA, R_WB, p_WB, frame):
    """Return the rotation and position of B in A."""
    R, p = frame[:3], frame[3]
    d0, d1, d2 = p_WB[0] - p_WA[0], p_WB[1] - p_WA[1], p_WB[2] - p_WA[2]
    for i in range(3):
        p[i] = R_WA[0, i] * d0 + R_WA[1, i] * d1 + R_WA[2, i] * d2
        for j in range(3):
            R[i, j] = R_WA[0, i] * R_WB[0, j] + R_WA[1, i] * R_WB[1, j] + R_WA[2, i] * R_WB[2, j]
    return R, p


@inner(forceinline=True, **KERNEL)
def _vector(table, i):
    """Return the gradient of a tet's pressure, or the normal of a triangle, in its body's frame."""
    return table[i, 16], table[i, 17], table[i, 18]


@inner(forceinline=True, **KERNEL)
def _turn(R, v):
    """Return R v."""
    v0, v1, v2 = v
    return (
        R[0, 0] * v0 + R[0, 1] * v1 + R[0, 2] * v2,
        R[1, 0] * v0 + R[1, 1] * v1 + R[1, 2] * v2,
        R[2, 0] * v0 + R[2, 1] * v1 + R[2, 2] * v2,
    )


@inner(forceinline=True, **KERNEL)
def _turn_back(R, v):
    """Return Rᵀ v."""
    v0, v1, v2 = v
    return (
        R[0, 0] * v0 + R[1, 0] * v1 + R[2, 0] * v2,
        R[0, 1] * v0 + R[1, 1] * v1 + R[2, 1] * v2,
        R[0, 2] * v0 + R[1, 2] * v1 + R[2, 2] * v2,
    )


@inner(forceinline=True, **KERNEL)
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inner(forceinline=True, **KERNEL)
def _corner(body, element, k):
    """Return corner k of an element of a body."""
    v = element[k]
    return body.vertex[v, 0], body.vertex[v, 1], body.vertex[v, 2]


@inner(forceinline=True, **KERNEL)
def _signs(poly, pa, ta, g, c, snap, tie):
    """Return the bit mask of the corners of A's tet where p_A − p_B > 0; writes the values for
    ``slice_tet``.

    Args:
        g, c: p_B = g·x + c in A's frame.
        snap, tie: differences up to ``snap`` count as zero, whose bit is ``tie``.
    """
    mask = 0
    for k in range(4):
        f = pa.vertex[pa.tet_int[ta, k], 3] - (_dot(g, _corner(pa, pa.tet_int[ta], k)) + c)
        if abs(f) <= snap:
            f = 0.0
            mask |= tie << k
        elif f > 0.0:
            mask |= 1 << k
        poly[12 + k, 7] = f
    return mask


@inner(forceinline=True, **KERNEL)
def _sides(poly, pa, ta, n, c):
    """The same for the distances n·x + c of the corners from the plane of a rigid triangle."""
    mask = 0
    for k in range(4):
        f = _dot(n, _corner(pa, pa.tet_int[ta], k)) + c
        if abs(f) <= NEAR:
            f = 0.0
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
        f = _dot(h, _corner(pb, pb.tet_int[tb], k)) + c - pb.vertex[pb.tet_int[tb, k], 3]
        beyond += f < -snap if tie else f > snap
    return beyond != 0 and beyond != 4


@inner(**KERNEL)
def surface_kernel(pa, pb, R_WA, p_WA, R_WB, p_WB, out):
    """Compute the equal-pressure surface of two compliant bodies.

    Args:
        pa, pb: ``CompliantMesh.packed``.
        out: workspace, filled.

    Returns:
        Number of faces, or FULL.
    """
    return trace_surface(pa, pb, R_WA, p_WA, R_WB, p_WB, out, False)


@inner(forceinline=True, **KERNEL)
def trace_surface(pa, pb, R_WA, p_WA, R_WB, p_WB, out, exhaustive):
    """:func:`surface_kernel` by flood fill or, if ``exhaustive``, by trying every pair of tets; in one
    piece because all steps share the counters of the flood."""
    R, p = _relative(R_WA, p_WA, R_WB, p_WB, out.frame)
    status = out.status
    status[:] = 0
    out.start[0] = 0
    queue, table, poly, label = out.queue, out.table, out.poly, out.label
    cos_drop, width = out.cos_drop[0], len(pb.tet)
    snap = SNAP * min(pa.scale[0], pb.scale[0]) + ROUNDING * max(pa.scale[1], pb.scale[1])
    # p_A = p_B counts for the body of the greater peak, in either order of the two: 1 if that is A
    tie = 1 if pa.scale[0] > pb.scale[0] or (pa.scale[0] == pb.scale[0] and pa.scale[1] > pb.scale[1]) else 0
    faces = corners = head = ridge_a = ridge_b = peak = 0
    lost_a = lost_b = 0.0
    tail = 0 if exhaustive else find_rims(pa, pb, R, p, out.stack, queue, table, width)
    peaks = len(pa.peak) + len(pb.peak)
    result, pair = min(tail, 0), 0
    while result >= 0:
        if exhaustive:
            # all pairs, to verify the flood fill
            if pair == len(pa.tet) * width:
                break
            queue[0, 0], queue[0, 1] = pair // width, pair % width
            head = 0
            pair += 1
        elif head == tail:
            # patches without a rim, around a pressure peak inside the other body
            if peak == peaks:
                break
            ta, tb = peak_pair(pa, pb, R, p, peak, out)
            peak += 1
            if ta >= 0:
                tail = visit(queue, table, tail, ta, tb, width)
                result = min(tail, 0)
            continue
        ta, tb = queue[head, 0], queue[head, 1]
        head += 1
        # both gradients in A's frame; that of p_A in B's, too
        a, g = _vector(pa.tet, ta), _turn(R, _vector(pb.tet, tb))
        h = _turn_back(R, a)
        mask = _signs(poly, pa, ta, g, pb.tet[tb, 19] - _dot(g, p), snap, tie)
        if mask == 0 or mask == 15:
            continue
        status[PAIRS] += 1
        # the plane in A's tet
        n = slice_tet(poly, label, mask, pa, ta, R, p, pb.tet, tb)
        n, on_face = cut_all(poly, label, n)
        if n == 0 or (on_face and not _belongs(pb, tb, h, pa.tet[ta, 19] + _dot(a, p), snap, tie)):
            continue
        if not exhaustive:
            tail = visit_neighbours(queue, table, tail, label, n, pa.tet_int, pb.tet_int, 4, (ta, tb), width)
            if tail == FULL:
                result = FULL
                break
        n0, n1, n2 = a[0] - g[0], a[1] - g[1], a[2] - g[2]
        length = math.sqrt(n0 * n0 + n1 * n1 + n2 * n2)
        normal = n0 / length, n1 / length, n2 / length
        da, db = _dot(normal, a), _dot(normal, g)
        size_a, size_b = math.sqrt(_dot(a, a)), math.sqrt(_dot(g, g))
        if da <= COS_TURNED * size_a or -db <= COS_TURNED * size_b:
            force, mean = pressure_force(poly, n, normal, a, pa.tet[ta, 19])
            if da <= COS_TURNED * size_a:
                lost = lost_beyond(force, mean, label, n, 0, pa, ta, normal, g)
                ridge_a, lost_a = ridge_a + (lost > 0.0), lost_a + lost
            if -db <= COS_TURNED * size_b:
                lost = lost_beyond(force, mean, label, n, 4, pb, tb, (0.0, 0.0, 0.0), h)
                ridge_b, lost_b = ridge_b + (lost > 0.0), lost_b + lost
        if da <= cos_drop * size_a or -db <= cos_drop * size_b:
            continue
        if faces >= len(out.area):
            result = FULL
            break
        m, x, y, z = write_polygon(poly, n, normal, R_WA, p_WA, out, faces, corners)
        pressure = _dot(a, (x, y, z)) + pa.tet[ta, 19]
        if m <= 0 or pressure <= snap:  # no area, or the boundaries lie on each other
            result = min(m, 0)
            continue
        write_pressure(out, faces, R_WA, pressure, a, normal, da, db)
        out.tet_a[faces], out.elem_b[faces] = ta, tb
        corners += m
        faces += 1
    if result < 0:
        table[:] = -1
        return FULL
    forget(queue, table, tail, width)
    if ridge_a:
        report_lost(out, faces, DEEP_A, ridge_a, lost_a)
    if ridge_b:
        report_lost(out, faces, DEEP_B, ridge_b, lost_b)
    return faces


@inner(**KERNEL)
def surface_kernel_rigid(pa, pb, R_WA, p_WA, R_WB, p_WB, out):
    """Compute the part of a rigid surface B inside a compliant body A, cut by A's tets.

    Args:
        pa: ``CompliantMesh.packed``.
        pb: ``RigidMesh.packed``.
        out: workspace, filled.

    Returns:
        Number of faces, or FULL.
    """
    return trace_surface_rigid(pa, pb, R_WA, p_WA, R_WB, p_WB, out, False)


@inner(forceinline=True, **KERNEL)
def _around_seed(pa, pb, R, p, tb):
    """Return the tet of A around the first corner of a triangle of B, −1 if it is outside A."""
    x, y, z = _turn(R, _corner(pb, pb.tri_int[tb], 0))
    x, y, z = x + p[0], y + p[1], z + p[2]
    return locate(pa, x, y, z, 0) if in_box(pa.box, x, y, z) else -1


@inner(forceinline=True, **KERNEL)
def _count_peaks_inside(pa, pb, R, p, status):
    """Add the peaks of A's pressure inside the rigid surface to A's overrun count."""
    for i in range(len(pa.peak)):
        x, y, z = _corner(pa, pa.peak[i], 0)
        y0, y1, y2 = _turn_back(R, (x - p[0], y - p[1], z - p[2]))
        if in_box(pb.box, y0, y1, y2) and inside_surface(pb, y0, y1, y2):
            status[DEEP_A] += 1


@inner(forceinline=True, **KERNEL)
def trace_surface_rigid(pa, pb, R_WA, p_WA, R_WB, p_WB, out, exhaustive):
    """:func:`surface_kernel_rigid` by flood fill or, if ``exhaustive``, by trying every tet with
    every triangle; in one piece because all steps share the counters of the flood."""
    R, p = _relative(R_WA, p_WA, R_WB, p_WB, out.frame)
    status = out.status
    status[:] = 0
    out.start[0] = 0
    queue, table, poly, label = out.queue, out.table, out.poly, out.label
    cos_drop, width = out.cos_drop[0], len(pb.tri_int)
    faces = corners = head = ridge_a = seed = 0
    lost_a = 0.0
    tail = 0 if exhaustive else find_rims(pa, pb, R, p, out.stack, queue, table, width)
    result, pair = min(tail, 0), 0
    while result >= 0:
        if exhaustive:
            # all pairs, to verify the flood fill
            if pair == len(pa.tet) * width:
                break
            queue[0, 0], queue[0, 1] = pair // width, pair % width
            head = 0
            pair += 1
        elif head == tail:
            # patches without a rim, from one corner of each part of B inside A
            if seed == len(pb.seed):
                break
            tb = pb.seed[seed]
            seed += 1
            ta = _around_seed(pa, pb, R, p, tb)
            if ta >= 0:
                tail = visit(queue, table, tail, ta, tb, width)
                result = min(tail, 0)
            continue
        ta, tb = queue[head, 0], queue[head, 1]
        head += 1
        status[PAIRS] += 1
        normal = _turn(R, _vector(pb.tri, tb))
        mask = _sides(poly, pa, ta, normal, pb.tri[tb, 19] - _dot(normal, p))
        if mask == 0 or mask == 15:
            continue
        n = slice_tet(poly, label, mask, pa, ta, R, p, pb.tri, tb)
        n, _ = cut_all(poly, label, n)
        if n == 0:
            continue
        if not exhaustive:
            tail = visit_neighbours(queue, table, tail, label, n, pa.tet_int, pb.tri_int, 3, (ta, tb), width)
            if tail == FULL:
                result = FULL
                break
        a = _vector(pa.tet, ta)
        da, size_a = _dot(normal, a), math.sqrt(_dot(a, a))
        if da <= COS_TURNED * size_a:
            force, mean = pressure_force(poly, n, normal, a, pa.tet[ta, 19])
            lost = lost_beyond(force, mean, label, n, 0, pa, ta, normal, (0.0, 0.0, 0.0))
            ridge_a, lost_a = ridge_a + (lost > 0.0), lost_a + lost
        if da <= cos_drop * size_a:
            continue
        if faces >= len(out.area):
            result = FULL
            break
        m, x, y, z = write_polygon(poly, n, normal, R_WA, p_WA, out, faces, corners)
        if m <= 0:
            result = min(m, 0)
            continue
        write_pressure(out, faces, R_WA, _dot(a, (x, y, z)) + pa.tet[ta, 19], a, normal, da, 0.0)
        out.tet_a[faces], out.elem_b[faces] = ta, tb
        corners += m
        faces += 1
    if result < 0:
        table[:] = -1
        return FULL
    forget(queue, table, tail, width)
    if ridge_a:
        report_lost(out, faces, DEEP_A, ridge_a, lost_a)
    _count_peaks_inside(pa, pb, R, p, status)
    return faces
