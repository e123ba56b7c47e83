"""Contact between two features (corner, edge, face) as an analytic function of the two bodies' poses.

Which features touch is decided elsewhere and kept; here are their gap, point and normal, for real and for complex numbers. The normal
points from the first body to the second; the gap grows along it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

POINT_POINT, FACE_POINT, EDGE_EDGE, EDGE_POINT = 0, 1, 2, 3
"""First body's feature, second body's."""


@njit(cache=True)
def _place(R, p, x, out):
    for i in range(3):
        out[i] = p[i] + R[i, 0] * x[0] + R[i, 1] * x[1] + R[i, 2] * x[2]


@njit(cache=True)
def _turn(R, x, out):
    for i in range(3):
        out[i] = R[i, 0] * x[0] + R[i, 1] * x[1] + R[i, 2] * x[2]


@njit(cache=True)
def gap_of_features(kind, side, data, radius_a, radius_b, Ra, pa, Rb, pb, n, c):
    """Gap of two features.

    Args:
        kind: one of the constants above.
        side: of an edge–edge normal: ±1 times the cross product of the edges.
        data: (12,) point and direction (or face normal) on the first body, on the second, each in its body's frame.
        n, c: (3,) written: normal, and the point midway between the two surfaces (world).

    Returns:
        The gap [m].
    """
    kind_of = n.dtype
    a, b = np.empty(3, kind_of), np.empty(3, kind_of)
    _place(Ra, pa, data[0:3], a)
    _place(Rb, pb, data[6:9], b)
    d = b - a
    if kind == FACE_POINT:
        _turn(Ra, data[3:6], n)
        distance = n[0] * d[0] + n[1] * d[1] + n[2] * d[2]
    elif kind == EDGE_EDGE:
        e, f = np.empty(3, kind_of), np.empty(3, kind_of)
        _turn(Ra, data[3:6], e)
        _turn(Rb, data[9:12], f)
        n[0] = side * (e[1] * f[2] - e[2] * f[1])
        n[1] = side * (e[2] * f[0] - e[0] * f[2])
        n[2] = side * (e[0] * f[1] - e[1] * f[0])
        square = n[0] * n[0] + n[1] * n[1] + n[2] * n[2]
        n /= np.sqrt(square)
        distance = n[0] * d[0] + n[1] * d[1] + n[2] * d[2]
        ee = e[0] * e[0] + e[1] * e[1] + e[2] * e[2]
        ef = e[0] * f[0] + e[1] * f[1] + e[2] * f[2]
        ff = f[0] * f[0] + f[1] * f[1] + f[2] * f[2]
        ed = e[0] * d[0] + e[1] * d[1] + e[2] * d[2]
        fd = f[0] * d[0] + f[1] * d[1] + f[2] * d[2]
        t = (ef * ed - ee * fd) / (ee * ff - ef * ef)
        for i in range(3):
            b[i] += t * f[i]
    else:
        if kind == EDGE_POINT:
            e = np.empty(3, kind_of)
            _turn(Ra, data[3:6], e)
            t = (e[0] * d[0] + e[1] * d[1] + e[2] * d[2]) / (e[0] * e[0] + e[1] * e[1] + e[2] * e[2])
            for i in range(3):
                d[i] -= t * e[i]
        distance = np.sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2])
        for i in range(3):
            n[i] = d[i] / distance
    gap = distance - radius_a - radius_b
    for i in range(3):
        c[i] = b[i] - (radius_b + 0.5 * gap) * n[i]
    return gap
