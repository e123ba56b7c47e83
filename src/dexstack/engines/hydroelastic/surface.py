"""The contact surface of two bodies: where their pressures are equal, or where a rigid surface lies in a compliant body.

Flood fill. Two trees of boxes over the *boundary* triangles find pairs whose triangles may cross: the rim of every open patch of the
surface passes through one. From such a pair the surface is followed: each edge of its polygon carries the face that cut it and so names
the one pair behind it (``clip.py``). Patches without a rim, of a body wholly inside another, are found from the pressure's peaks (or from
a vertex of each part of a rigid surface). Faces of zero area and faces dropped for their angle are passed through: patches would go
missing otherwise.

All work arrays live in :class:`~dexstack.engines.hydroelastic.workspace.Surface`, so that nothing is allocated during a query.
"""

from __future__ import annotations

import math

import numpy as np

from dexstack.engines.hydroelastic.bvh import LANES, descend, triangles_apart
from dexstack.engines.hydroelastic.clip import cut_all, slice_tet
from dexstack.engines.hydroelastic.fields import COMPLIANT, RIGID, CompliantMesh, RigidMesh
from dexstack.engines.hydroelastic.interior import in_box, inside_surface, locate, peak_pair
from dexstack.engines.hydroelastic.kernel import KERNEL, load
from dexstack.engines.hydroelastic.workspace import (
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
from dexstack.engines.kernels import entry, inner

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
"""… and below this fraction of what a pressure may change over a body: positions are no more exact than that."""
COS_TURNED, COS_RISES = math.cos(DROP_ANGLE), -math.cos(DROP_ANGLE)
"""Angles between normal and pressure gradient from which on a face has turned away, and up to which it has not."""
DEEP, LOST = 0.5, 0.05
"""Faces beyond a ridge are reported where the pressure exceeds this part of the body's greatest, or where they would carry this part of
what the other faces do. At a box's edges ridges reach the surface, and little is lost beyond them."""
NEAR = 1e-14
"""Vertices of a polygon closer than this [m] are one."""


def query(
    a: CompliantMesh, b: CompliantMesh | RigidMesh, R_WA: np.ndarray, p_WA: np.ndarray, R_WB: np.ndarray, p_WB: np.ndarray, out: Workspace
) -> ContactSurface:
    """Contact surface of A and B at the given poses.

    Two compliant bodies are computed in one order whichever is asked for: what acts on one is what acts on the other, to the last digit.

    Args:
        a, b: the bodies; A compliant.
        R_WA, p_WA, R_WB, p_WB: (3, 3) rotations and (3,) positions of the bodies in world.
        out: reused from query to query; grows where it is too small.
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
    """:func:`surface_kernel` of what is stored at three addresses."""
    return surface_kernel(load(a, COMPLIANT), load(b, COMPLIANT), R_WA, p_WA, R_WB, p_WB, load(out, SURFACE))


@inner(**KERNEL)
def _load(poly, n, n0, n1, n2, a0, a1, a2, offset):
    """∫ p dA and mean p of polygon ``poly[:n]`` with unit normal (n0, n1, n2) for p = a·x + offset; 0 if it has no area."""
    x, y, z = poly[0, 0], poly[0, 1], poly[0, 2]
    p = a0 * x + a1 * y + a2 * z + offset
    area = load = 0.0  # twice the area
    for i in range(2, n):
        b0, b1, b2 = poly[i - 1, 0] - x, poly[i - 1, 1] - y, poly[i - 1, 2] - z
        c0, c1, c2 = poly[i, 0] - x, poly[i, 1] - y, poly[i, 2] - z
        s = (b1 * c2 - b2 * c1) * n0 + (b2 * c0 - b0 * c2) * n1 + (b0 * c1 - b1 * c0) * n2
        area += s
        load += 0.5 * s * (p + (a0 * (b0 + c0) + a1 * (b1 + c1) + a2 * (b2 + c2)) / 3.0)
    return (load, 2.0 * load / area) if area > NEAR else (0.0, 0.0)


@inner(**KERNEL)
def _report_lost(out, faces, body, count, lost):
    """Count the faces beyond a ridge of a body among what it was overrun by, if they would carry a part of the load that matters."""
    carried = 0.0
    for f in range(faces):
        carried += out.pressure[f] * out.area[f]
    if lost > LOST * carried:
        out.status[body] += count


@inner(**KERNEL)
def _beyond_ridge(label, n, first, tet_int, shift, t, tet, n0, n1, n2, other0, other1, other2):
    """Whether a face lies just beyond the ridge of a body's field: behind one of the faces of tet t that bound it, pressure still rises.

    Args:
        label, n: edges of the polygon, see ``clip.py``.
        first: label of the body's face 0.
        tet_int, shift: the tet behind face k is ``tet_int[t, shift + k]``.
        t, tet: the tet, and the table of all of them.
        n0, n1, n2: direction in which the pressure of a body not past its ridge rises, its frame.
        other0, other1, other2: gradient of the other body's pressure, same frame; it turns the normal along with the body's own.
    """
    for m in range(n):
        k = label[m] - first
        if k < 0 or k > 3:
            continue
        behind = tet_int[t, shift + k]
        if behind < 0:
            continue
        a0, a1, a2 = tet[behind, 16], tet[behind, 17], tet[behind, 18]
        if other0 != 0.0 or other1 != 0.0 or other2 != 0.0:
            n0, n1, n2 = a0 - other0, a1 - other1, a2 - other2
        if n0 * a0 + n1 * a1 + n2 * a2 > COS_RISES * math.sqrt((n0 * n0 + n1 * n1 + n2 * n2) * (a0 * a0 + a1 * a1 + a2 * a2)):
            return True
    return False


@entry(**KERNEL)
def _exchange(address, n):
    """Make the n faces of A and B those of B and A."""
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
    """:func:`surface_kernel_rigid` of what is stored at three addresses."""
    return surface_kernel_rigid(load(a, COMPLIANT), load(b, RIGID), R_WA, p_WA, R_WB, p_WB, load(out, SURFACE))


@inner(forceinline=True, **KERNEL)
def _visit(queue, table, tail, first, second, width):
    """Append a pair to the queue unless it was there; the new length, or FULL."""
    key = np.int64(first) * np.int64(width) + np.int64(second)
    mask = np.int64(len(table) - 1)
    at = ((key * np.int64(0x9E3779B97F4A7C1)) >> np.int64(20)) & mask
    while table[at] != -1:
        if table[at] == key:
            return tail
        at = (at + 1) & mask
    if tail >= len(queue):
        return FULL
    table[at] = key
    queue[tail, 0] = first
    queue[tail, 1] = second
    return tail + 1


@inner(forceinline=True, **KERNEL)
def _forget(queue, table, tail, width):
    """Empty the table by the keys in the queue."""
    mask = np.int64(len(table) - 1)
    for i in range(tail):
        key = np.int64(queue[i, 0]) * np.int64(width) + np.int64(queue[i, 1])
        at = ((key * np.int64(0x9E3779B97F4A7C1)) >> np.int64(20)) & mask
        while table[at] != -1:  # clears whole runs: their other members are in the queue too
            table[at] = -1
            at = (at + 1) & mask


@inner(**KERNEL)
def _find_rims(pa, pb, R, p, stack, queue, table, width):
    """Fill the queue with the pairs whose boundary triangles cross; its length, or FULL."""
    stack[0, 0] = stack[0, 1] = 0
    top = 1
    tail = 0
    nodes_a, nodes_b = len(pa.lane), len(pb.lane)
    while top > 0:
        if top + LANES > len(stack):
            return FULL
        top -= 1
        i, j = stack[top, 0], stack[top, 1]
        if i < nodes_a or j < nodes_b:
            top = descend(pa, pb, i, j, R, p, stack, top)
        elif not triangles_apart(pa.corner, i - nodes_a, pb.corner, j - nodes_b, R, p):
            tail = _visit(queue, table, tail, pa.triangle[i - nodes_a], pb.triangle[j - nodes_b], width)
            if tail == FULL:
                return FULL
    return tail


@inner(forceinline=True, **KERNEL)
def _emit(poly, n, n0, n1, n2, R_WA, p_WA, out, face, corners):
    """Write polygon ``poly[:n]`` with unit normal (n0, n1, n2), both in A's frame, as face ``face`` with its corners from ``corners`` on.

    Returns:
        number of corners, 0 for a face without area, FULL when the pool is too small; then the centroid in A's frame.
    """
    if corners + n > len(out.vertex_W):
        return FULL, 0.0, 0.0, 0.0
    # corners that fall together are one
    m = 0
    for i in range(n):
        j = m - 1
        if m > 0:
            a, b, c = poly[i, 0] - poly[j, 0], poly[i, 1] - poly[j, 1], poly[i, 2] - poly[j, 2]
            if a * a + b * b + c * c < NEAR * NEAR:
                continue
        if m != i:
            poly[m, 0], poly[m, 1], poly[m, 2] = poly[i, 0], poly[i, 1], poly[i, 2]
        m += 1
    if m > 1:
        a, b, c = poly[m - 1, 0] - poly[0, 0], poly[m - 1, 1] - poly[0, 1], poly[m - 1, 2] - poly[0, 2]
        if a * a + b * b + c * c < NEAR * NEAR:
            m -= 1
    if m < 3:
        return 0, 0.0, 0.0, 0.0
    x, y, z = poly[0, 0], poly[0, 1], poly[0, 2]
    a0, a1, a2 = poly[1, 0] - x, poly[1, 1] - y, poly[1, 2] - z
    area = c0 = c1 = c2 = 0.0
    for i in range(2, m):
        b0, b1, b2 = poly[i, 0] - x, poly[i, 1] - y, poly[i, 2] - z
        s = (a1 * b2 - a2 * b1) * n0 + (a2 * b0 - a0 * b2) * n1 + (a0 * b1 - a1 * b0) * n2
        area += s
        c0 += s * (a0 + b0)
        c1 += s * (a1 + b1)
        c2 += s * (a2 + b2)
        a0, a1, a2 = b0, b1, b2
    if not area > 0.0:
        return 0, 0.0, 0.0, 0.0
    c0, c1, c2 = x + c0 / (3.0 * area), y + c1 / (3.0 * area), z + c2 / (3.0 * area)
    out.area[face] = 0.5 * area
    for j in range(3):
        r0, r1, r2, o = R_WA[j, 0], R_WA[j, 1], R_WA[j, 2], p_WA[j]
        out.nhat_W[face, j] = r0 * n0 + r1 * n1 + r2 * n2
        out.centroid_W[face, j] = r0 * c0 + r1 * c1 + r2 * c2 + o
        for i in range(m):
            out.vertex_W[corners + i, j] = r0 * poly[i, 0] + r1 * poly[i, 1] + r2 * poly[i, 2] + o
    out.start[face + 1] = corners + m
    return m, c0, c1, c2


@inner(forceinline=True, **KERNEL)
def _relative(R_WA, p_WA, R_WB, p_WB, frame):
    """Pose of B in A."""
    R, p = frame[:3], frame[3]
    d0, d1, d2 = p_WB[0] - p_WA[0], p_WB[1] - p_WA[1], p_WB[2] - p_WA[2]
    for i in range(3):
        p[i] = R_WA[0, i] * d0 + R_WA[1, i] * d1 + R_WA[2, i] * d2
        for j in range(3):
            R[i, j] = R_WA[0, i] * R_WB[0, j] + R_WA[1, i] * R_WB[1, j] + R_WA[2, i] * R_WB[2, j]
    return R, p


@inner(**KERNEL)
def surface_kernel(pa, pb, R_WA, p_WA, R_WB, p_WB, out):
    """Equal-pressure surface of two compliant bodies.

    Args:
        pa, pb: ``CompliantMesh.packed``.
        out: workspace, filled.

    Returns:
        number of faces, or FULL.
    """
    return _kernel(pa, pb, R_WA, p_WA, R_WB, p_WB, out, False)


@inner(forceinline=True, **KERNEL)
def _kernel(pa, pb, R_WA, p_WA, R_WB, p_WB, out, exhaustive):
    """:func:`surface_kernel`, by flood fill or, ``exhaustive``, by trying every pair of tets.

    Long: one loop, whose state is a dozen numbers that its parts would hand to each other as arguments and results.
    """
    R, p = _relative(R_WA, p_WA, R_WB, p_WB, out.frame)
    status = out.status
    status[:] = 0
    out.start[0] = 0
    queue, table, stack, poly, label = out.queue, out.table, out.stack, out.poly, out.label
    cos_drop = out.cos_drop[0]
    width = len(pb.tet)
    snap = SNAP * min(pa.scale[0], pb.scale[0]) + ROUNDING * max(pa.scale[1], pb.scale[1])
    # p_A = p_B counts for the body of the greater peak, in either order of the two: 1 if that is A
    tie = 1 if pa.scale[0] > pb.scale[0] or (pa.scale[0] == pb.scale[0] and pa.scale[1] > pb.scale[1]) else 0
    faces = corners = head = ridge_a = ridge_b = 0
    lost_a = lost_b = 0.0
    tail = 0 if exhaustive else _find_rims(pa, pb, R, p, stack, queue, table, width)
    peaks = len(pa.peak) + len(pb.peak)
    peak = 0
    result, pair = min(tail, 0), 0
    while result >= 0:
        if exhaustive:
            # every pair there is, to check the flood against
            if pair == len(pa.tet) * width:
                break
            queue[0, 0], queue[0, 1] = pair // width, pair % width
            head = 0
            pair += 1
        elif head == tail:
            # what no rim leads to: where a pressure peak lies inside the other body
            if peak < peaks:
                ta, tb = peak_pair(pa, pb, R, p, peak, out)
                peak += 1
                if ta >= 0:
                    tail = _visit(queue, table, tail, ta, tb, width)
                    if tail == FULL:
                        result = FULL
                continue
            break
        ta, tb = queue[head, 0], queue[head, 1]
        head += 1
        # p_A − p_B = n·x + c in A's frame; h is ∇p_A in B's
        a0, a1, a2 = pa.tet[ta, 16], pa.tet[ta, 17], pa.tet[ta, 18]
        b0, b1, b2 = pb.tet[tb, 16], pb.tet[tb, 17], pb.tet[tb, 18]
        g0 = R[0, 0] * b0 + R[0, 1] * b1 + R[0, 2] * b2
        g1 = R[1, 0] * b0 + R[1, 1] * b1 + R[1, 2] * b2
        g2 = R[2, 0] * b0 + R[2, 1] * b1 + R[2, 2] * b2
        c = pb.tet[tb, 19] - (g0 * p[0] + g1 * p[1] + g2 * p[2])
        mask = 0
        for k in range(4):
            v = pa.tet_int[ta, k]
            f = pa.vertex[v, 3] - (g0 * pa.vertex[v, 0] + g1 * pa.vertex[v, 1] + g2 * pa.vertex[v, 2] + c)
            if abs(f) <= snap:
                f = 0.0
                mask |= tie << k
            elif f > 0.0:
                mask |= 1 << k
            poly[12 + k, 7] = f
        if mask == 0 or mask == 15:
            continue
        status[PAIRS] += 1
        # the plane in A's tet
        n = slice_tet(poly, label, mask, pa, ta, R, p, pb.tet, tb)
        n, on_face = cut_all(poly, label, n)
        if n == 0:
            continue
        if on_face:  # the polygon lies in a face of B's tet: it belongs to the tet on the side that zero does not count to
            h0 = R[0, 0] * a0 + R[1, 0] * a1 + R[2, 0] * a2
            h1 = R[0, 1] * a0 + R[1, 1] * a1 + R[2, 1] * a2
            h2 = R[0, 2] * a0 + R[1, 2] * a1 + R[2, 2] * a2
            c = pa.tet[ta, 19] + (a0 * p[0] + a1 * p[1] + a2 * p[2])
            beyond = 0
            for k in range(4):
                v = pb.tet_int[tb, k]
                f = h0 * pb.vertex[v, 0] + h1 * pb.vertex[v, 1] + h2 * pb.vertex[v, 2] + c - pb.vertex[v, 3]
                beyond += f < -snap if tie else f > snap
            if beyond == 0 or beyond == 4:
                continue
        for m in range(0 if exhaustive else n):
            k = label[m]
            na = pa.tet_int[ta, 4 + k] if k < 4 else ta
            nb = pb.tet_int[tb, k] if k >= 4 else tb
            if na >= 0 and nb >= 0:
                tail = _visit(queue, table, tail, na, nb, width)
                if tail == FULL:
                    result = FULL
                    break
        if result == FULL:
            break
        n0, n1, n2 = a0 - g0, a1 - g1, a2 - g2
        length = math.sqrt(n0 * n0 + n1 * n1 + n2 * n2)
        n0, n1, n2 = n0 / length, n1 / length, n2 / length
        da = n0 * a0 + n1 * a1 + n2 * a2
        db = n0 * g0 + n1 * g1 + n2 * g2
        size_a, size_b = math.sqrt(a0 * a0 + a1 * a1 + a2 * a2), math.sqrt(g0 * g0 + g1 * g1 + g2 * g2)
        if da <= COS_TURNED * size_a:
            load, mean = _load(poly, n, n0, n1, n2, a0, a1, a2, pa.tet[ta, 19])
            if load > 0.0 and _beyond_ridge(label, n, 0, pa.tet_int, 4, ta, pa.tet, n0, n1, n2, g0, g1, g2):
                ridge_a, lost_a = ridge_a + 1, np.inf if mean > DEEP * pa.scale[0] else lost_a + load
        if -db <= COS_TURNED * size_b:
            load, mean = _load(poly, n, n0, n1, n2, a0, a1, a2, pa.tet[ta, 19])
            h0 = R[0, 0] * a0 + R[1, 0] * a1 + R[2, 0] * a2
            h1 = R[0, 1] * a0 + R[1, 1] * a1 + R[2, 1] * a2
            h2 = R[0, 2] * a0 + R[1, 2] * a1 + R[2, 2] * a2
            if load > 0.0 and _beyond_ridge(label, n, 4, pb.tet_int, 4, tb, pb.tet, 0.0, 0.0, 0.0, h0, h1, h2):
                ridge_b, lost_b = ridge_b + 1, np.inf if mean > DEEP * pb.scale[0] else lost_b + load
        if da <= cos_drop * size_a or -db <= cos_drop * size_b:
            continue
        if faces >= len(out.area):
            result = FULL
            break
        m, x, y, z = _emit(poly, n, n0, n1, n2, R_WA, p_WA, out, faces, corners)
        if m <= 0:
            result = min(m, 0)
            continue
        pressure = a0 * x + a1 * y + a2 * z + pa.tet[ta, 19]
        if pressure <= snap:  # the boundaries lie on each other
            continue
        out.pressure[faces] = pressure
        out.grad_a[faces] = da
        s0, s1, s2 = a0 - da * n0, a1 - da * n1, a2 - da * n2
        for k in range(3):
            out.slope_W[faces, k] = R_WA[k, 0] * s0 + R_WA[k, 1] * s1 + R_WA[k, 2] * s2
        out.grad_b[faces] = db
        out.tet_a[faces] = ta
        out.elem_b[faces] = tb
        corners += m
        faces += 1
    if result < 0:
        table[:] = -1
        return FULL
    _forget(queue, table, tail, width)
    if ridge_a:
        _report_lost(out, faces, DEEP_A, ridge_a, lost_a)
    if ridge_b:
        _report_lost(out, faces, DEEP_B, ridge_b, lost_b)
    return faces


@inner(**KERNEL)
def surface_kernel_rigid(pa, pb, R_WA, p_WA, R_WB, p_WB, out):
    """The part of a rigid surface B that lies in a compliant body A, cut by A's tets.

    Args:
        pa: ``CompliantMesh.packed``.
        pb: ``RigidMesh.packed``.
        out: workspace, filled.

    Returns:
        number of faces, or FULL.
    """
    return _kernel_rigid(pa, pb, R_WA, p_WA, R_WB, p_WB, out, False)


@inner(forceinline=True, **KERNEL)
def _kernel_rigid(pa, pb, R_WA, p_WA, R_WB, p_WB, out, exhaustive):
    """:func:`surface_kernel_rigid`, by flood fill or, ``exhaustive``, by trying every tet with every triangle.

    Long for the reason that ``_kernel`` is.
    """
    R, p = _relative(R_WA, p_WA, R_WB, p_WB, out.frame)
    status = out.status
    status[:] = 0
    out.start[0] = 0
    queue, table, stack, poly, label = out.queue, out.table, out.stack, out.poly, out.label
    cos_drop = out.cos_drop[0]
    width = len(pb.tri_int)
    faces = corners = head = ridge_a = 0
    lost_a = 0.0
    tail = 0 if exhaustive else _find_rims(pa, pb, R, p, stack, queue, table, width)
    seed = 0
    result, pair = min(tail, 0), 0
    while result >= 0:
        if exhaustive:
            # every pair there is, to check the flood against
            if pair == len(pa.tet) * width:
                break
            queue[0, 0], queue[0, 1] = pair // width, pair % width
            head = 0
            pair += 1
        elif head == tail:
            # what no rim leads to: from one corner of every part of B that lies inside A
            if seed < len(pb.seed):
                tb = pb.seed[seed]
                seed += 1
                v = pb.tri_int[tb, 0]
                y0, y1, y2 = pb.vertex[v, 0], pb.vertex[v, 1], pb.vertex[v, 2]
                x = R[0, 0] * y0 + R[0, 1] * y1 + R[0, 2] * y2 + p[0]
                y = R[1, 0] * y0 + R[1, 1] * y1 + R[1, 2] * y2 + p[1]
                z = R[2, 0] * y0 + R[2, 1] * y1 + R[2, 2] * y2 + p[2]
                if in_box(pa.box, x, y, z):
                    ta = locate(pa, x, y, z, 0)
                    if ta >= 0:
                        tail = _visit(queue, table, tail, ta, tb, width)
                        if tail == FULL:
                            result = FULL
                continue
            break
        ta, tb = queue[head, 0], queue[head, 1]
        head += 1
        status[PAIRS] += 1
        # distances of the tet's corners from the triangle's plane; below it p_A counts as the lesser
        b0, b1, b2 = pb.tri[tb, 16], pb.tri[tb, 17], pb.tri[tb, 18]
        n0 = R[0, 0] * b0 + R[0, 1] * b1 + R[0, 2] * b2
        n1 = R[1, 0] * b0 + R[1, 1] * b1 + R[1, 2] * b2
        n2 = R[2, 0] * b0 + R[2, 1] * b1 + R[2, 2] * b2
        c = pb.tri[tb, 19] - (n0 * p[0] + n1 * p[1] + n2 * p[2])
        mask = 0
        for k in range(4):
            v = pa.tet_int[ta, k]
            f = n0 * pa.vertex[v, 0] + n1 * pa.vertex[v, 1] + n2 * pa.vertex[v, 2] + c
            if abs(f) <= NEAR:
                f = 0.0
            elif f > 0.0:
                mask |= 1 << k
            poly[12 + k, 7] = f
        if mask == 0 or mask == 15:
            continue
        n = slice_tet(poly, label, mask, pa, ta, R, p, pb.tri, tb)
        n, _ = cut_all(poly, label, n)
        if n == 0:
            continue
        for m in range(0 if exhaustive else n):
            k = label[m]
            na = pa.tet_int[ta, 4 + k] if k < 4 else ta
            nb = pb.tri_int[tb, k - 1] if k >= 4 else tb
            if na >= 0 and nb >= 0:
                tail = _visit(queue, table, tail, na, nb, width)
                if tail == FULL:
                    result = FULL
                    break
        if result == FULL:
            break
        a0, a1, a2 = pa.tet[ta, 16], pa.tet[ta, 17], pa.tet[ta, 18]
        da = n0 * a0 + n1 * a1 + n2 * a2
        size_a = math.sqrt(a0 * a0 + a1 * a1 + a2 * a2)
        if da <= COS_TURNED * size_a:
            load, mean = _load(poly, n, n0, n1, n2, a0, a1, a2, pa.tet[ta, 19])
            if load > 0.0 and _beyond_ridge(label, n, 0, pa.tet_int, 4, ta, pa.tet, n0, n1, n2, 0.0, 0.0, 0.0):
                ridge_a, lost_a = ridge_a + 1, np.inf if mean > DEEP * pa.scale[0] else lost_a + load
        if da <= cos_drop * size_a:
            continue
        if faces >= len(out.area):
            result = FULL
            break
        m, x, y, z = _emit(poly, n, n0, n1, n2, R_WA, p_WA, out, faces, corners)
        if m <= 0:
            result = min(m, 0)
            continue
        out.pressure[faces] = a0 * x + a1 * y + a2 * z + pa.tet[ta, 19]
        out.grad_a[faces] = da
        s0, s1, s2 = a0 - da * n0, a1 - da * n1, a2 - da * n2
        for k in range(3):
            out.slope_W[faces, k] = R_WA[k, 0] * s0 + R_WA[k, 1] * s1 + R_WA[k, 2] * s2
        out.grad_b[faces] = 0.0
        out.tet_a[faces] = ta
        out.elem_b[faces] = tb
        corners += m
        faces += 1
    if result < 0:
        table[:] = -1
        return FULL
    _forget(queue, table, tail, width)
    if ridge_a:
        _report_lost(out, faces, DEEP_A, ridge_a, lost_a)
    for i in range(len(pa.peak)):
        v = pa.peak[i, 0]
        x, y, z = pa.vertex[v, 0] - p[0], pa.vertex[v, 1] - p[1], pa.vertex[v, 2] - p[2]
        y0 = R[0, 0] * x + R[1, 0] * y + R[2, 0] * z
        y1 = R[0, 1] * x + R[1, 1] * y + R[2, 1] * z
        y2 = R[0, 2] * x + R[1, 2] * y + R[2, 2] * z
        if in_box(pb.box, y0, y1, y2) and inside_surface(pb, y0, y1, y2):
            status[DEEP_A] += 1
    return faces
