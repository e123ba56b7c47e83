"""Faces of a contact surface: writing of polygons and pressures, and faces beyond a
ridge of a body's field."""

from __future__ import annotations

import math

import numpy as np

from dexengines.hydroelastic.vectors import dot, slope
from dexengines.hydroelastic.workspace import DROP_ANGLE, FULL
from dexengines.kernels import KERNEL, inner

COS_RISES = -math.cos(DROP_ANGLE)
"""Cosine of the largest angle between normal and pressure gradient of a face that has not turned
away."""
DEEP, LOST = 0.5, 0.05
"""Faces beyond a ridge are reported if their pressure exceeds this share of the body's greatest, or
if they would carry this share of the other faces' load. At a box's edges ridges reach the surface,
and little load is lost beyond them."""
NEAR = 1e-14
"""Vertices of a polygon closer than this [m] are one."""


@inner(**KERNEL)
def pressure_force(poly, n, normal, a, offset):
    """Return ∫ p dA and the mean p of polygon ``poly[:n]`` with unit normal ``normal``, for
    p = a·x + offset; zeros if it has no area."""
    n0, n1, n2 = normal
    a0, a1, a2 = a
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
def report_lost(out, faces, body, count, lost):
    """Add the faces beyond a ridge of a body to its overrun count if they would carry more than
    :data:`LOST` of the load."""
    carried = 0.0
    for f in range(faces):
        carried += out.pressure[f] * out.area[f]
    if lost > LOST * carried:
        out.status[body] += count


@inner(**KERNEL)
def _beyond_ridge(label, n_edges, first, body, t, direction, other):
    """Return whether a face lies just beyond the ridge of a body's field: behind one of the faces
    of tet t that bound it, pressure still rises.

    Args:
        label, n_edges: edges of the polygon, see ``clip.py``.
        first: label of the body's face 0.
        body, t: the body, ``packed``, and the tet.
        direction: (3,) direction in which pressure rises before the ridge, body frame.
        other: (3,) gradient of the other body's pressure, same frame; if not zero, the normal is
            recomputed from both gradients.
    """
    n = direction
    for m in range(n_edges):
        k = label[m] - first
        if k < 0 or k > 3:
            continue
        behind = body.element_int[t, 4 + k]
        if behind < 0:
            continue
        a = slope(body, behind)
        if other[0] != 0.0 or other[1] != 0.0 or other[2] != 0.0:
            n = a[0] - other[0], a[1] - other[1], a[2] - other[2]
        if dot(n, a) > COS_RISES * math.sqrt(dot(n, n) * dot(a, a)):
            return True
    return False


@inner(**KERNEL)
def lost_beyond(force, mean, label, n, first, body, t, direction, other):
    """Return the load of a face that has turned away from a body's pressure and lies just beyond
    the ridge of its field.

    Args:
        force, mean: of :func:`pressure_force`. Others: see :func:`_beyond_ridge`.

    Returns:
        The force, infinite if the pressure is near the body's greatest; 0 if the face lies
        elsewhere.
    """
    if force > 0.0 and _beyond_ridge(label, n, first, body, t, direction, other):
        return np.inf if mean > DEEP * body.scale[0] else force
    return 0.0


@inner(forceinline=True, **KERNEL)
def write_polygon(poly, n, normal, R_WA, p_WA, out, face, corners):
    """Write polygon ``poly[:n]`` with unit normal ``normal``, both in A's frame, as face ``face``
    with its corners from ``corners`` on.

    Returns:
        number of corners, 0 for a face without area, FULL when the pool is too small; then the
        centroid in A's frame.
    """
    n0, n1, n2 = normal
    if corners + n > len(out.vertex_W):
        return FULL, 0.0, 0.0, 0.0
    # merge coinciding corners
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
def write_pressure(out, face, R_WA, pressure, a, normal, grad_a, grad_b):
    """Write pressure and gradients of a face: a is ∇p_A, in A's frame as the normal is; grad_a and
    grad_b are along the normal."""
    out.pressure[face], out.grad_a[face], out.grad_b[face] = pressure, grad_a, grad_b
    s0, s1, s2 = a[0] - grad_a * normal[0], a[1] - grad_a * normal[1], a[2] - grad_a * normal[2]
    for k in range(3):
        out.slope_W[face, k] = R_WA[k, 0] * s0 + R_WA[k, 1] * s1 + R_WA[k, 2] * s2
