"""Location of points of one body in another; finds patches of a contact surface that touch no
boundary triangle."""

from __future__ import annotations

import math

from dexengines.hydroelastic.clip import barycentric
from dexengines.hydroelastic.vectors import (
    corner,
    dot,
    into,
    out_of,
    pressure_at,
    slope,
    turn,
    turn_back,
    vertex,
)
from dexengines.hydroelastic.workspace import DEEP_A, DEEP_B, PEAKS
from dexengines.kernels import KERNEL, inner

INSIDE = -1e-14
"""Smallest barycentric coordinate of a point inside a tet."""


@inner(**KERNEL)
def locate(mesh, x):
    """Return a tet that contains a point of the mesh's frame, or −1; walks from tet 0, then tries
    all."""
    element = mesh.element
    t = 0
    for _ in range(64):
        least, face = 0.0, -1
        for k in range(4):
            b = barycentric(element, t, k, x)
            if b < least + INSIDE:
                least, face = b, k
        if face < 0:
            return t
        t = mesh.element_int[t, 4 + face]
        if t < 0:
            break
    for t in range(len(element)):
        inside = True
        for k in range(4):
            inside = inside and barycentric(element, t, k, x) >= INSIDE
        if inside:
            return t
    return -1


@inner(**KERNEL)
def in_box(box, x):
    """Return whether a point of the mesh's frame lies in the root box of its tree."""
    return (
        abs(x[0] - box[0, 0]) <= box[0, 3]
        and abs(x[1] - box[0, 1]) <= box[0, 4]
        and abs(x[2] - box[0, 2]) <= box[0, 5]
    )


@inner(**KERNEL)
def _from(mesh, e, k, x):
    """Return the vector from a point to corner k of an element, and its length."""
    v = corner(mesh, e, k)
    v = v[0] - x[0], v[1] - x[1], v[2] - x[2]
    return v, math.sqrt(dot(v, v))


@inner(**KERNEL)
def inside_surface(mesh, x):
    """Return whether a point of B's frame lies inside a closed rigid surface, by the winding number
    from solid angles."""
    total = 0.0
    for i in range(len(mesh.element_int)):
        (a, na), (b, nb), (c, nc) = _from(mesh, i, 0, x), _from(mesh, i, 1, x), _from(mesh, i, 2, x)
        bc = b[1] * c[2] - b[2] * c[1], b[2] * c[0] - b[0] * c[2], b[0] * c[1] - b[1] * c[0]
        total += math.atan2(dot(a, bc), na * nb * nc + dot(a, b) * nc + dot(b, c) * na + dot(c, a) * nb)
    return total > math.pi  # half of the full 2π of these half angles


@inner(**KERNEL)
def _march(pa, pb, R, p, ta, tb, x):
    """Follow p_A − p_B towards zero on a straight line through pairs of tets, from a point in both.

    Returns:
        The pair that contains the zero, or (−1, −1) if the line leaves a body first.
    """
    d = 0.0, 0.0, 0.0
    for step in range(4 * (len(pa.element) + len(pb.element))):
        # p_A − p_B and its gradient here, in A's frame
        a, g, y = slope(pa, ta), turn(R, slope(pb, tb)), into(R, p, x)
        n = a[0] - g[0], a[1] - g[1], a[2] - g[2]
        f = pressure_at(pa, ta, x) - pressure_at(pb, tb, y)
        if step == 0:
            length = math.sqrt(dot(n, n))
            if length == 0.0:
                return -1, -1
            above = f > 0.0
            unit = -1.0 / length if above else 1.0 / length
            d = unit * n[0], unit * n[1], unit * n[2]
        if f == 0.0 or (f > 0.0) != above:
            return ta, tb
        rate = dot(n, d)
        zero = -f / rate if rate * f < 0.0 else math.inf
        leave, face = math.inf, -1
        e = turn_back(R, d)
        for k in range(8):
            body, t, at, along = (pa, ta, x, d) if k < 4 else (pb, tb, y, e)
            i = 4 * (k & 3)
            falls = -dot((body.element[t, i], body.element[t, i + 1], body.element[t, i + 2]), along)
            if falls > 0.0:
                s = max(barycentric(body.element, t, k & 3, at), 0.0) / falls
                if s < leave:
                    leave, face = s, k
        if zero <= leave:
            return ta, tb
        x = x[0] + leave * d[0], x[1] + leave * d[1], x[2] + leave * d[2]
        if face < 4:
            ta = pa.element_int[ta, 4 + face]
        else:
            tb = pb.element_int[tb, face]
        if ta < 0 or tb < 0:
            return -1, -1
    return -1, -1


@inner(**KERNEL)
def seed_pair(pa, pb, R, p, i, out, rigid):
    """Return a pair on the patch around seed i (A's first, then B's), or (−1, −1); updates the counts
    in ``out.status``.

    A rigid B has a seed in each of its parts: a corner, on the surface wherever it is inside A. A
    peak of pressure of either body is inside a closed patch if the other's pressure is lower there.
    """
    of_a = i < len(pa.seed)
    mesh, row = (pa, i) if of_a else (pb, i - len(pa.seed))
    v, t = mesh.seed[row, 0], mesh.seed[row, 1]
    x = vertex(mesh, v)
    if of_a or not rigid:
        c0 = c1 = c2 = 0.0
        for k in range(4):
            a, b, c = corner(mesh, t, k)
            c0, c1, c2 = c0 + 0.25 * a, c1 + 0.25 * b, c2 + 0.25 * c
        # slightly inside the tet: the walk starts in its interior
        x = x[0] + 1e-3 * (c0 - x[0]), x[1] + 1e-3 * (c1 - x[1]), x[2] + 1e-3 * (c2 - x[2])
    y = into(R, p, x) if of_a else out_of(R, p, x)
    other = pb if of_a else pa
    if not in_box(other.box, y):
        return -1, -1
    if of_a and rigid:
        out.status[DEEP_A] += inside_surface(pb, y)
        return -1, -1
    found = locate(other, y)
    if found < 0 or rigid:
        return found, t if found >= 0 else -1
    out.status[PEAKS] += 1
    if pressure_at(mesh, t, x) < pressure_at(other, found, y):
        out.status[DEEP_A if of_a else DEEP_B] += 1
        return -1, -1
    return _march(pa, pb, R, p, t, found, x) if of_a else _march(pa, pb, R, p, found, t, y)
