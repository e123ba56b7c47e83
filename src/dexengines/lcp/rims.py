"""Contacts of cylinders: their rims against faces, edges, corners and rims; caps are faces, the
side is a thick edge.

A lying cylinder touches at the lowest points of its two rims, a standing one at points around its
rim and within, any other at the lowest point of one rim, which moves as the cylinder turns.
"""

from __future__ import annotations

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.distance import support
from dexengines.lcp.features import (
    FACE_POINT,
    FACE_RIM,
    RIM_EDGE,
    RIM_POINT,
    RIM_RIM,
    nearest_on_rim,
    rim_axes,
)
from dexengines.lcp.manifold import (
    FACING,
    ON_HULL,
    add,
    corners_over_faces,
    edges,
    over_face,
    points_by_edges,
)
from dexengines.lcp.vectors import across, crossed, divide, dot, minus, plus, put, rotated, times, unrotated

AROUND = 8
"""Points around each of the circles that represent a cap lying flat on a face."""
INNER = 0.526172
"""Radius of the inner circle in that of the rim. The solver gives contacts forces inversely to the
diagonal of A, 1 + 4 (r/R)² for a thin disc; the friction of a spinning disc then has the lever of a
uniform pressure, 2/3 R."""
TILTED = 1e-9
"""Slope of a rim, times its radius, above which it has a lowest point [m]."""
CROSSED = 1e-3
"""Sine of the angle between rim and edge above which the normal is their cross product."""


@inner
def rims_over_faces(shapes, o, c, Ro, po, Rc, pc, towards, margin, pair, feature, data, count):
    """Append contacts of faces of o that face along ``towards`` (world), or of o as a half-space,
    with the rims of cylinder c."""
    rho, thick = shapes.disc[c], shapes.radius[o] + shapes.radius[c]
    w = times(rho, rotated(Rc, shapes.axis[c]))
    e, f = np.empty(3), np.empty(3)
    rim_axes(times(rho, shapes.axis[c]), e, f)
    first, last = shapes.face_start[o], shapes.face_start[o + 1]
    if shapes.is_plane[o]:
        first, last = 0, 1
    for k in range(first, last):
        if shapes.is_plane[o]:
            normal_B, x_B = shapes.normal[o], shapes.vertex[shapes.vertex_start[o]]
        else:
            normal_B, x_B = shapes.face[k, :3], shapes.vertex[shapes.loop[shapes.loop_start[k]]]
        n, x = rotated(Ro, normal_B), plus(po, rotated(Ro, x_B))
        if dot(n, towards) < FACING:
            continue
        turned = crossed(n, w)
        along, slope = dot(n, w), np.sqrt(dot(turned, turned))
        for i in range(2):
            v_B = shapes.vertex[shapes.vertex_start[c] + i]
            centre = plus(pc, rotated(Rc, v_B))
            gap = dot(n, minus(centre, x)) - slope - thick
            if gap > margin or (gap < -0.5 * thick - 1e-9 and not shapes.is_plane[o]):
                continue
            if slope > TILTED:
                y = np.empty(3)
                for d in range(3):
                    y[d] = centre[d] - (rho * rho * n[d] - along * w[d]) / slope
                if shapes.is_plane[o] or over_face(shapes, o, k, unrotated(Ro, minus(y, po))):
                    ra, rb = shapes.radius[o], shapes.radius[c]
                    count = add(
                        feature, data, count, o, c, FACE_RIM, 1, pair, k, i, x_B, normal_B, v_B,
                        times(rho, shapes.axis[c]), ra, rb,
                    )  # fmt: skip
            if gap + 2.0 * slope > margin or (along < 0.0) != (i == 1):
                continue
            for j in range(2 * AROUND):
                angle, part = 2.0 * np.pi * j / AROUND, 1.0 if j < AROUND else INNER
                y_B = v_B.copy()
                for d in range(3):
                    y_B[d] = v_B[d] + part * (np.cos(angle) * e[d] + np.sin(angle) * f[d])
                y = plus(pc, rotated(Rc, y_B))
                if shapes.is_plane[o] or over_face(shapes, o, k, unrotated(Ro, minus(y, po))):
                    ra, rb, which = shapes.radius[o], shapes.radius[c], 2 + 2 * AROUND * i + j
                    count = add(
                        feature, data, count, o, c, FACE_POINT, 1, pair, k, which, x_B, normal_B, y_B,
                        np.zeros(3), ra, rb,
                    )  # fmt: skip
    return count


@inner
def _reaches(shapes, g, R, p, n, x, slack):
    """Return whether no point of g's core lies farther along n than x, up to ``slack``."""
    y = np.empty(3)
    support(shapes, g, R, p, n, y)
    return dot(n, minus(y, x)) <= slack


@inner
def _try_rim(
    shapes,
    kind,
    c,
    o,
    Rc,
    pc,
    Ro,
    po,
    i,
    k,
    point,
    direction,
    thick,
    guess_rim,
    guess,
    slack,
    margin,
    pair,
    feature,
    data,
    count,
):
    """Append rim i of cylinder c with a feature of o if their nearest points, found from a guess,
    face each other on both bodies."""
    if count >= feature.shape[0]:
        return count + 1
    v = shapes.vertex[shapes.vertex_start[c] + i]
    w = times(shapes.disc[c], shapes.axis[c])
    # written at its final place
    add(feature, data, count, c, o, kind, 0, pair, i, k, v, w, point, direction, shapes.radius[c], thick)
    row = data[count]
    row[14], row[15] = guess_rim, guess
    x, dx, y, dy = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    ended, s, t = nearest_on_rim(kind, row, Rc, pc, Ro, po, x, dx, y, dy)
    if not ended or (kind == RIM_EDGE and not -1e-9 <= t <= 1.0 + 1e-9):
        return count
    row[14], row[15] = s, t
    d = minus(y, x)
    distance = np.sqrt(dot(d, d))
    if distance - shapes.radius[c] - thick > margin or distance <= 1e-13:
        return count
    n = d.copy()
    divide(n, distance)
    if thick == 0.0 and shapes.radius[c] == 0.0 and kind != RIM_POINT:
        m = crossed(dx, dy)
        length = np.sqrt(dot(m, m))
        if length > CROSSED * np.sqrt(dot(dx, dx) * dot(dy, dy)):
            feature[count, 3] = 1 if dot(m, d) > 0.0 else -1
            n = times(float(feature[count, 3]), m)
            divide(n, length)
    if not _reaches(shapes, c, Rc, pc, n, x, slack) or not _reaches(
        shapes, o, Ro, po, times(-1.0, n), y, slack + thick - shapes.radius[o]
    ):
        return count
    return count + 1


@inner
def _angle(x, e, f):
    return np.arctan2(dot(f, x), dot(e, x))


@inner
def _rim_and_edges(shapes, c, o, Rc, pc, Ro, po, Xo, near_o, n, i, e, f, margin, pair, feature, data, count):
    """Append contacts of rim i of c with the edges of o, searched for along n, and where the edge
    enters and leaves the cylinder that the rim bounds."""
    so, rho = shapes.vertex_start[o], shapes.disc[c]
    centre = plus(pc, rotated(Rc, shapes.vertex[shapes.vertex_start[c] + i]))
    a = rotated(Rc, shapes.axis[c])
    flat = across(n, a)
    for k in range(shapes.edge_start[o], shapes.edge_start[o + 1]):
        k0, k1 = shapes.edge[k, 0] - so, shapes.edge[k, 1] - so
        if not (near_o[k0] or near_o[k1]):
            continue
        u, g = minus(Xo[k0], centre), minus(Xo[k1], Xo[k0])
        v_B = shapes.vertex[so + k0]
        g_B = minus(shapes.vertex[so + k1], v_B)
        thick, slack = shapes.side[o], ON_HULL
        if dot(flat, flat) > 1e-12:
            s = _angle(flat, e, f)
            x = plus(times(np.cos(s), e), times(np.sin(s), f))
            t = min(max(dot(g, minus(x, u)) / dot(g, g), 0.0), 1.0)
            count = _try_rim(
                shapes, RIM_EDGE, c, o, Rc, pc, Ro, po, i, k, v_B, g_B, thick, s, t, slack, margin, pair,
                feature, data, count,
            )  # fmt: skip
        ua, ga = across(u, a), across(g, a)
        A, B, C = dot(ga, ga), dot(ga, ua), dot(ua, ua) - rho * rho
        D = B * B - A * C
        if D <= 0.0 or 1e-12 * dot(g, g) >= A:
            continue
        for sign in (-1.0, 1.0):
            t = (-B + sign * np.sqrt(D)) / A
            if not 0.0 <= t <= 1.0 or abs(dot(plus(u, times(t, g)), a)) > 10.0 * (
                margin + thick + shapes.radius[c]
            ):
                continue
            s = _angle(plus(ua, times(t, ga)), e, f)
            count = _try_rim(
                shapes, RIM_EDGE, c, o, Rc, pc, Ro, po, i, k, v_B, g_B, thick, s, t, slack, margin, pair,
                feature, data, count,
            )  # fmt: skip
    return count


@inner
def _rim_and_rims(shapes, c, o, Rc, pc, Ro, po, n, i, e, f, margin, pair, feature, data, count):
    """Append contacts of rim i of c with both rims of the cylinder o, searched for along n, and
    where the two cross if they lie in one plane."""
    a = rotated(Rc, shapes.axis[c])
    b = rotated(Ro, shapes.axis[o])
    w = times(shapes.disc[o], shapes.axis[o])
    g, h = np.empty(3), np.empty(3)
    rim_axes(w, g, h)
    g, h = rotated(Ro, g), rotated(Ro, h)
    thick, ra, rb = shapes.radius[o], shapes.disc[c], shapes.disc[o]
    centre = plus(pc, rotated(Rc, shapes.vertex[shapes.vertex_start[c] + i]))
    flat, other = across(n, a), times(-1.0, across(n, b))
    for k in range(2):
        v_B = shapes.vertex[shapes.vertex_start[o] + k]
        d = minus(plus(po, rotated(Ro, v_B)), centre)
        if dot(flat, flat) > 1e-12 and dot(other, other) > 1e-12:
            s, t = _angle(flat, e, f), _angle(other, g, h)
            count = _try_rim(
                shapes, RIM_RIM, c, o, Rc, pc, Ro, po, i, k, v_B, w, thick, s, t, ON_HULL, margin, pair,
                feature, data, count,
            )  # fmt: skip
        flat_d = across(d, a)
        D = np.sqrt(dot(flat_d, flat_d))
        if abs(dot(a, b)) < 0.99 or not abs(ra - rb) < D < ra + rb:
            continue
        middle, turn = _angle(flat_d, e, f), np.arccos((D * D + ra * ra - rb * rb) / (2.0 * D * ra))
        for sign in (-1.0, 1.0):
            s = middle + sign * turn
            t = _angle(minus(plus(times(np.cos(s), e), times(np.sin(s), f)), d), g, h)
            count = _try_rim(
                shapes, RIM_RIM, c, o, Rc, pc, Ro, po, i, k, v_B, w, thick, s, t, ON_HULL, margin, pair,
                feature, data, count,
            )  # fmt: skip
    return count


@inner
def contacts_of_cylinder(shapes, c, o, Rc, pc, Ro, po, n, gap, margin, both, pair, feature, data, count):
    """Append the contacts of cylinder c with geometry o.

    Args:
        n: (3,) direction of separation from c to o; gap: along it.
        both: whether o is a cylinder whose remaining contacts with c are appended by another call.
    """
    first = count
    Xc = np.empty((2, 3))
    so = shapes.vertex_start[o]
    Xo = np.empty((shapes.vertex_start[o + 1] - so, 3))
    for k in range(2):
        put(Xc[k], plus(pc, rotated(Rc, shapes.vertex[shapes.vertex_start[c] + k])))
    for k in range(Xo.shape[0]):
        put(Xo[k], plus(po, rotated(Ro, shapes.vertex[so + k])))
    slack = margin - min(gap, 0.0) + shapes.radius[c] + shapes.side[o]
    top = np.empty(3)
    support(shapes, c, Rc, pc, n, top)
    near_o, near_c = np.empty(Xo.shape[0], np.bool_), np.ones(2, np.bool_)
    for k in range(Xo.shape[0]):
        near_o[k] = dot(n, minus(Xo[k], top)) <= slack
    cylinder = shapes.disc[o] > 0.0
    count = rims_over_faces(shapes, o, c, Ro, po, Rc, pc, times(-1.0, n), margin, pair, feature, data, count)
    if not cylinder:
        count = corners_over_faces(
            shapes, c, o, Rc, pc, Ro, po, Xo, near_o, margin, pair, feature, data, count, n, 1.0
        )
        count = points_by_edges(shapes, c, o, Xc, Xo, near_c, near_o, margin, pair, feature, data, count)
    if not (cylinder and both):
        count = edges(shapes, c, o, Xc, Xo, near_c, near_o, margin, pair, feature, data, count)
    e, f = np.empty(3), np.empty(3)
    rim_axes(times(shapes.disc[c], shapes.axis[c]), e, f)
    e, f = rotated(Rc, e), rotated(Rc, f)
    for i in range(2):
        count = _rim_and_edges(
            shapes, c, o, Rc, pc, Ro, po, Xo, near_o, n, i, e, f, margin, pair, feature, data, count
        )
        if cylinder:
            if not both:
                count = _rim_and_rims(
                    shapes, c, o, Rc, pc, Ro, po, n, i, e, f, margin, pair, feature, data, count
                )
        elif shapes.radius[c] + shapes.radius[o] > 0.0 or count == first:
            for k in range(Xo.shape[0]):
                if near_o[k]:
                    s = _angle(minus(Xo[k], Xc[i]), e, f)
                    count = _try_rim(
                        shapes, RIM_POINT, c, o, Rc, pc, Ro, po, i, k, shapes.vertex[so + k], np.zeros(3),
                        shapes.radius[o], s, 0.0, 1e-9, margin, pair, feature, data, count,
                    )  # fmt: skip
    return count
