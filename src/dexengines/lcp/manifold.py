"""Pairs of features of two geometries within a margin; for rims see :mod:`.rims`."""

from __future__ import annotations

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.features import EDGE_EDGE, EDGE_POINT, FACE_POINT, POINT_POINT
from dexengines.lcp.vectors import divide, dot, less, minus, times

INSIDE = 1e-6
"""Distance outside a face, or beyond an edge's ends, at which a foot still counts as on it [m], of
the order of the gap that contacts keep. Where one feature ends and the next begins both are
contacts: with one alone, bodies that slide over to the other would meet."""
FACING = 0.1
"""Least cosine between a face's normal and the direction that separates the hulls."""
ON_HULL = 1e-4
"""Height below the farthest point along a normal up to which an edge counts as touching [m]."""


@inner
def add(feature, data, count, a, b, kind, side, pair, ia, ib, xa, da, xb, db, thick_a, thick_b):
    """Append a contact if there is room for it; see :data:`.features.DATA`. Return their number."""
    if count >= feature.shape[0]:
        return count + 1  # more than there is room for
    f, x = feature[count], data[count]
    f[0], f[1], f[2], f[3], f[4], f[5], f[6] = a, b, kind, side, pair, ia, ib
    for i in range(3):
        x[i], x[3 + i], x[6 + i], x[9 + i] = xa[i], da[i], xb[i], db[i]
    x[12], x[13], x[14], x[15] = thick_a, thick_b, 0.0, 0.0
    return count + 1


@inner
def corners(shapes, g, R, p, X):
    """Write the corners of geometry g (world) to X."""
    s = shapes.vertex_start[g]
    for k in range(s, shapes.vertex_start[g + 1]):
        v = shapes.vertex[k]
        for i in range(3):
            X[k - s, i] = p[i] + R[i, 0] * v[0] + R[i, 1] * v[1] + R[i, 2] * v[2]


@inner
def over_face(shapes, g, f, y):
    """Return whether the foot of y (body frame) lies on face f of geometry g, within
    :data:`INSIDE`."""
    n = shapes.face[f]
    if shapes.disc[g] > 0.0:
        u = np.empty(3)
        less(y, shapes.vertex[shapes.vertex_start[g]], u)
        along = dot(n, u)
        for i in range(3):
            u[i] -= along * n[i]
        return dot(u, u) <= (shapes.disc[g] + INSIDE) ** 2
    s, e = shapes.loop_start[f], shapes.loop_start[f + 1]
    for k in range(s, e):
        u = shapes.vertex[shapes.loop[k]]
        w = shapes.vertex[shapes.loop[k + 1 if k + 1 < e else s]]
        ex, ey, ez = w[0] - u[0], w[1] - u[1], w[2] - u[2]
        ox, oy, oz = (
            ey * n[2] - ez * n[1],
            ez * n[0] - ex * n[2],
            ex * n[1] - ey * n[0],
        )  # outward of the edge, in the face
        length = np.sqrt(ox * ox + oy * oy + oz * oz)
        if ox * (y[0] - u[0]) + oy * (y[1] - u[1]) + oz * (y[2] - u[2]) > INSIDE * length:
            return False
    return True


@inner
def corners_over_faces(
    shapes, a, b, Ra, pa, Rb, pb, Xb, near_b, margin, pair, feature, data, count, towards, sense
):
    """Append contacts of faces of a, which face along ``sense`` times ``towards``, with corners of
    b."""
    y, zero, w = np.empty(3), np.zeros(3), np.empty(3)
    for i in range(3):
        w[i] = sense * (Ra[0, i] * towards[0] + Ra[1, i] * towards[1] + Ra[2, i] * towards[2])
    rounding = shapes.radius[a] + shapes.radius[b]
    sb = shapes.vertex_start[b]
    for k in range(Xb.shape[0]):
        if not near_b[k]:
            continue
        for i in range(3):
            y[i] = 0.0
            for j in range(3):
                y[i] += Ra[j, i] * (Xb[k, j] - pa[j])
        for f in range(shapes.face_start[a], shapes.face_start[a + 1]):
            n = shapes.face[f]
            if dot(n, w) < FACING:
                continue
            gap = dot(n, y) - n[3] - rounding
            if -0.5 * rounding - 1e-9 <= gap <= margin and over_face(shapes, a, f, y):
                point = shapes.vertex[shapes.loop[shapes.loop_start[f]]]
                ra, rb = shapes.radius[a], shapes.radius[b]
                count = add(
                    feature, data, count, a, b, FACE_POINT, 1, pair, f, sb + k, point, n[:3],
                    shapes.vertex[sb + k], zero, ra, rb,
                )  # fmt: skip
    return count


@inner
def _on_hull(X, n, x, slack):
    """Return whether no corner lies farther along n than the point x, up to ``slack``."""
    h = dot(n, x) + slack
    for k in range(X.shape[0]):  # noqa: SIM110
        if n[0] * X[k, 0] + n[1] * X[k, 1] + n[2] * X[k, 2] > h:
            return False
    return True


@inner
def edges(shapes, a, b, Xa, Xb, near_a, near_b, margin, pair, feature, data, count):
    """Append contacts of edges of a with edges of b."""
    rounding = shapes.side[a] + shapes.side[b]
    sa, sb = shapes.vertex_start[a], shapes.vertex_start[b]
    n, x, y = np.empty(3), np.empty(3), np.empty(3)
    for i in range(shapes.edge_start[a], shapes.edge_start[a + 1]):
        i0, i1 = shapes.edge[i, 0] - sa, shapes.edge[i, 1] - sa
        if not (near_a[i0] or near_a[i1]):
            continue
        for j in range(shapes.edge_start[b], shapes.edge_start[b + 1]):
            j0, j1 = shapes.edge[j, 0] - sb, shapes.edge[j, 1] - sb
            if not (near_b[j0] or near_b[j1]):
                continue
            ee = ef = ff = ed = fd = 0.0
            for c in range(3):
                e, f, d = Xa[i1, c] - Xa[i0, c], Xb[j1, c] - Xb[j0, c], Xb[j0, c] - Xa[i0, c]
                ee, ef, ff, ed, fd = ee + e * e, ef + e * f, ff + f * f, ed + e * d, fd + f * d
            D = ee * ff - ef * ef
            if 1e-6 * ee * ff >= D:  # parallel: corners over faces suffice
                continue
            s, t = (ff * ed - ef * fd) / D, (ef * ed - ee * fd) / D
            beyond_a, beyond_b = INSIDE / np.sqrt(ee), INSIDE / np.sqrt(ff)
            if not (-beyond_a < s < 1.0 + beyond_a and -beyond_b < t < 1.0 + beyond_b):
                continue
            square = 0.0
            for c in range(3):
                x[c] = Xa[i0, c] + s * (Xa[i1, c] - Xa[i0, c])
                y[c] = Xb[j0, c] + t * (Xb[j1, c] - Xb[j0, c])
                n[c] = y[c] - x[c]
                square += n[c] * n[c]
            distance = np.sqrt(square)
            if distance - rounding > margin or distance <= 1e-13:
                continue
            divide(n, distance)
            if not (_on_hull(Xa, n, x, ON_HULL) and _on_hull(Xb, times(-1.0, n), y, ON_HULL)):
                continue
            turn = 0.0
            for c in range(3):
                k, m = (c + 1) % 3, (c + 2) % 3
                turn += n[c] * (
                    (Xa[i1, k] - Xa[i0, k]) * (Xb[j1, m] - Xb[j0, m])
                    - (Xa[i1, m] - Xa[i0, m]) * (Xb[j1, k] - Xb[j0, k])
                )
            va, vb = shapes.vertex[sa + i0], shapes.vertex[sb + j0]
            side = 1 if turn > 0.0 else -1
            ea, eb = minus(shapes.vertex[sa + i1], va), minus(shapes.vertex[sb + j1], vb)
            ra, rb = shapes.side[a], shapes.side[b]
            count = add(feature, data, count, a, b, EDGE_EDGE, side, pair, i, j, va, ea, vb, eb, ra, rb)
    return count


@inner
def points_by_edges(shapes, a, b, Xa, Xb, near_a, near_b, margin, pair, feature, data, count):
    """Append contacts of edges of a with corners of b."""
    rounding = shapes.side[a] + shapes.side[b]
    sa, sb = shapes.vertex_start[a], shapes.vertex_start[b]
    n, x, zero = np.empty(3), np.empty(3), np.zeros(3)
    for i in range(shapes.edge_start[a], shapes.edge_start[a + 1]):
        i0, i1 = shapes.edge[i, 0] - sa, shapes.edge[i, 1] - sa
        if not (near_a[i0] or near_a[i1]):
            continue
        for k in range(Xb.shape[0]):
            if not near_b[k]:
                continue
            ee = ed = 0.0
            for c in range(3):
                e = Xa[i1, c] - Xa[i0, c]
                ee, ed = ee + e * e, ed + e * (Xb[k, c] - Xa[i0, c])
            t = ed / ee
            if not 0.0 < t < 1.0:
                continue
            square = 0.0
            for c in range(3):
                x[c] = Xa[i0, c] + t * (Xa[i1, c] - Xa[i0, c])
                n[c] = Xb[k, c] - x[c]
                square += n[c] * n[c]
            distance = np.sqrt(square)
            if distance - rounding > margin or distance <= 1e-13:
                continue
            divide(n, distance)
            if _on_hull(Xa, n, x, 1e-9) and _on_hull(Xb, times(-1.0, n), Xb[k], ON_HULL):
                va = shapes.vertex[sa + i0]
                ea = minus(shapes.vertex[sa + i1], va)
                ra, rb, vb = shapes.side[a], shapes.side[b], shapes.vertex[sb + k]
                count = add(
                    feature, data, count, a, b, EDGE_POINT, 1, pair, i, sb + k, va, ea, vb, zero, ra, rb
                )
    return count


@inner
def points(shapes, a, b, Xa, Xb, near_a, near_b, margin, pair, feature, data, count):
    """Append contacts of corners of a with corners of b."""
    rounding = shapes.side[a] + shapes.side[b]
    sa, sb = shapes.vertex_start[a], shapes.vertex_start[b]
    zero = np.zeros(3)
    for i in range(Xa.shape[0]):
        for k in range(Xb.shape[0]):
            if not (near_a[i] and near_b[k]):
                continue
            n = minus(Xb[k], Xa[i])
            distance = np.sqrt(dot(n, n))
            if distance - rounding > margin or distance <= 1e-13:
                continue
            divide(n, distance)
            if _on_hull(Xa, n, Xa[i], 1e-9) and _on_hull(Xb, times(-1.0, n), Xb[k], 1e-9):
                va, vb = shapes.vertex[sa + i], shapes.vertex[sb + k]
                ra, rb = shapes.radius[a], shapes.radius[b]
                count = add(
                    feature, data, count, a, b, POINT_POINT, 1, pair, sa + i, sb + k, va, zero, vb, zero,
                    ra, rb,
                )  # fmt: skip
    return count
