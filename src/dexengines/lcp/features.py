"""Contact between two features (corner, edge, face, rim) as an analytic function of the two bodies'
poses.

Gap, point and normal of two given features, for real and for complex numbers. The normal points
from the first body to the second; the gap grows along it.
"""

from __future__ import annotations

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.vectors import divide, dot, less, place, rotate

POINT_POINT, FACE_POINT, EDGE_EDGE, EDGE_POINT, FACE_RIM, RIM_POINT, RIM_EDGE, RIM_RIM = range(8)
"""First body's feature, second body's."""
DATA = 16
"""Numbers of a contact: point and direction on the first body and on the second, each in its body's
frame (a face's normal, an edge from end to end, a rim's centre and its radius along the axis);
thickness of the first and of the second; start of the search for the nearest points: angle on the
first rim, share of the edge or angle on the second."""
ROUNDS = 30
"""Most Newton steps towards the nearest points of a rim and another feature."""


@inner
def rim_axes(w, e, f):
    """Write vectors e, f (3,) of the length of w, across it and each other: the rim's points are
    centre + e cos θ + f sin θ."""
    low = 0
    for i in range(1, 3):
        if abs(w[i]) < abs(w[low]):
            low = i
    j, k = (low + 1) % 3, (low + 2) % 3
    rho, across = np.sqrt(dot(w, w)), np.sqrt(w[j] * w[j] + w[k] * w[k])
    e[low], e[j], e[k] = 0.0, rho * w[k] / across, -rho * w[j] / across
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        f[i] = (w[j] * e[k] - w[k] * e[j]) / rho


@inner
def nearest_on_rim(kind, data, Ra, pa, Rb, pb, x, dx, y, dy):
    """Find the nearest points of the first body's rim and the second's feature by Newton's method
    from the start in ``data``.

    Args:
        kind: ``RIM_POINT``, ``RIM_EDGE`` or ``RIM_RIM``.
        x, dx, y, dy: (3,) written: the points, and their derivatives along rim and feature.

    Returns:
        True if the steps converged to a minimum; angle on the rim; share or angle on the other.
    """
    kind_of = x.dtype
    e, f, g, h = np.empty(3, kind_of), np.empty(3, kind_of), np.zeros(3, kind_of), np.zeros(3, kind_of)
    centre, other = np.empty(3, kind_of), np.empty(3, kind_of)
    u, w = np.empty(3), np.empty(3)
    rim_axes(data[3:6], u, w)
    rotate(Ra, u, e)
    rotate(Ra, w, f)
    place(Ra, pa, data[0:3], centre)
    place(Rb, pb, data[6:9], other)
    if kind == RIM_EDGE:
        rotate(Rb, data[9:12], g)
    elif kind == RIM_RIM:
        rim_axes(data[9:12], u, w)
        rotate(Rb, u, g)
        rotate(Rb, w, h)
    s, t = centre[0] * 0.0 + data[14], centre[0] * 0.0 + data[15]
    last, ended = False, False
    for _ in range(ROUNDS):
        cs, ss, ct, st = np.cos(s), np.sin(s), np.cos(t), np.sin(t)
        xx, xd, xy, yy, yd, bx, by = s * 0.0, s * 0.0, s * 0.0, s * 0.0, s * 0.0, s * 0.0, s * 0.0
        for i in range(3):
            arm = cs * e[i] + ss * f[i]
            x[i], dx[i] = centre[i] + arm, cs * f[i] - ss * e[i]
            bend = s * 0.0
            if kind == RIM_RIM:
                y[i], dy[i] = other[i] + ct * g[i] + st * h[i], ct * h[i] - st * g[i]
                bend = other[i] - y[i]
            else:
                y[i], dy[i] = other[i] + t * g[i], g[i]
            d = y[i] - x[i]
            xx, xd, xy = xx + dx[i] * dx[i], xd + dx[i] * d, xy + dx[i] * dy[i]
            yy, yd, bx, by = yy + dy[i] * dy[i], yd + dy[i] * d, bx - arm * d, by + bend * d
        if last:
            ended = True
            break
        # ½|y − x|² has the gradient (−x′·d, y′·d)
        a, b, c = xx - bx, -xy, yy + by
        if kind == RIM_POINT:
            if not a.real > 0.0:
                break
            ds, dt = xd / a, s * 0.0
        else:
            D = a * c - b * b
            if not (a.real > 0.0 and D.real > 0.0):  # no minimum near: downhill
                a, b, c = xx, s * 0.0, yy
                D = a * c
            ds, dt = (c * xd + b * yd) / D, (-b * xd - a * yd) / D
        s += ds
        t += dt
        last = abs(ds.real) < 1e-9 and abs(dt.real) < 1e-9
    return ended, s, t


@inner
def _gap_of_rim(kind, side, data, Ra, pa, Rb, pb, n, c):
    kind_of = n.dtype
    a, b, e, f = np.empty(3, kind_of), np.empty(3, kind_of), np.empty(3, kind_of), np.empty(3, kind_of)
    nearest_on_rim(kind, data, Ra, pa, Rb, pb, a, e, b, f)
    if side == 0:
        less(b, a, n)
    else:
        n[0] = side * (e[1] * f[2] - e[2] * f[1])
        n[1] = side * (e[2] * f[0] - e[0] * f[2])
        n[2] = side * (e[0] * f[1] - e[1] * f[0])
    divide(n, np.sqrt(dot(n, n)))
    distance = n[0] * (b[0] - a[0]) + n[1] * (b[1] - a[1]) + n[2] * (b[2] - a[2])
    gap = distance - data[12] - data[13]
    for i in range(3):
        c[i] = b[i] - (data[13] + 0.5 * gap) * n[i]
    return gap


@inner
def gap_of_features(kind, side, data, Ra, pa, Rb, pb, n, c):
    """Return the gap of two features [m].

    Args:
        kind: one of the constants above.
        side: ±1: the normal is this times the cross product of edges or rims; 0: the difference of
            the nearest points.
        data: (16,), see :data:`DATA`.
        n, c: (3,) written: normal, and the point midway between the two surfaces (world).
    """
    if kind >= RIM_POINT:
        return _gap_of_rim(kind, side, data, Ra, pa, Rb, pb, n, c)
    kind_of = n.dtype
    a, b = np.empty(3, kind_of), np.empty(3, kind_of)
    place(Ra, pa, data[0:3], a)
    place(Rb, pb, data[6:9], b)
    d = np.empty(3, kind_of)
    less(b, a, d)
    if kind == FACE_POINT:
        rotate(Ra, data[3:6], n)
        distance = dot(n, d)
    elif kind == FACE_RIM:  # the rim's lowest point
        w = np.empty(3, kind_of)
        rotate(Ra, data[3:6], n)
        rotate(Rb, data[9:12], w)
        x, y, z = n[1] * w[2] - n[2] * w[1], n[2] * w[0] - n[0] * w[2], n[0] * w[1] - n[1] * w[0]
        across = np.sqrt(x * x + y * y + z * z)
        square = dot(w, w)
        along = dot(n, w)
        for i in range(3):
            b[i] -= (square * n[i] - along * w[i]) / across
        distance = dot(n, d) - across
    elif kind == EDGE_EDGE:
        e, f = np.empty(3, kind_of), np.empty(3, kind_of)
        rotate(Ra, data[3:6], e)
        rotate(Rb, data[9:12], f)
        n[0] = side * (e[1] * f[2] - e[2] * f[1])
        n[1] = side * (e[2] * f[0] - e[0] * f[2])
        n[2] = side * (e[0] * f[1] - e[1] * f[0])
        square = dot(n, n)
        divide(n, np.sqrt(square))
        distance = dot(n, d)
        ee = dot(e, e)
        ef = dot(e, f)
        ff = dot(f, f)
        ed = dot(e, d)
        fd = dot(f, d)
        t = (ef * ed - ee * fd) / (ee * ff - ef * ef)
        for i in range(3):
            b[i] += t * f[i]
    else:
        if kind == EDGE_POINT:
            e = np.empty(3, kind_of)
            rotate(Ra, data[3:6], e)
            t = dot(e, d) / dot(e, e)
            for i in range(3):
                d[i] -= t * e[i]
        distance = np.sqrt(dot(d, d))
        for i in range(3):
            n[i] = d[i] / distance
    gap = distance - data[12] - data[13]
    for i in range(3):
        c[i] = b[i] - (data[13] + 0.5 * gap) * n[i]
    return gap
