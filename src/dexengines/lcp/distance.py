"""Separation of two rounded hulls: GJK finds a direction, the supports along it bound the distance
from below."""

from __future__ import annotations

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.features import DATA, RIM_EDGE, RIM_POINT, RIM_RIM, nearest_on_rim, rim_axes
from dexengines.lcp.vectors import (
    across,
    cross,
    divide,
    dot,
    less,
    minus,
    plus,
    put,
    rotate,
    rotated,
    times,
    unrotated,
)

NEAR = 5e-6
"""Distance of the hulls [m] below which GJK's direction, the difference of two close points, is
compared with those of faces and edges."""
NEAR_CYLINDER = 1e-3
"""The same with a cylinder, where GJK approaches the direction without reaching it [m]."""


@inner
def support(shapes, g, R, p, d, out):
    """Write to ``out`` the point of geometry g's core (hull, or cylinder without its rounding)
    farthest along d (world)."""
    dx = R[0, 0] * d[0] + R[1, 0] * d[1] + R[2, 0] * d[2]
    dy = R[0, 1] * d[0] + R[1, 1] * d[1] + R[2, 1] * d[2]
    dz = R[0, 2] * d[0] + R[1, 2] * d[1] + R[2, 2] * d[2]
    vertex, start = shapes.vertex, shapes.vertex_start[g]
    best, top = start, -np.inf
    for k in range(start, shapes.vertex_start[g + 1]):
        h = dx * vertex[k, 0] + dy * vertex[k, 1] + dz * vertex[k, 2]
        if h > top:
            best, top = k, h
    x, y, z = vertex[best, 0], vertex[best, 1], vertex[best, 2]
    if shapes.disc[g] > 0.0:
        a = shapes.axis[g]
        along = dx * a[0] + dy * a[1] + dz * a[2]
        dx, dy, dz = dx - along * a[0], dy - along * a[1], dz - along * a[2]
        across = np.sqrt(dx * dx + dy * dy + dz * dz)
        if across > 0.0:
            s = shapes.disc[g] / across
            x, y, z = x + s * dx, y + s * dy, z + s * dz
    for i in range(3):
        out[i] = p[i] + R[i, 0] * x + R[i, 1] * y + R[i, 2] * z


@inner
def _nearest(W, n, v, weight):
    """Write to v the point nearest the origin of the simplex of n points W, and move its corners to
    the front; return their number."""
    best, chosen = np.inf, 0
    G = np.empty((4, 4))
    x = np.empty(4)
    index = np.empty(4, np.int64)
    u = np.empty(3)
    for mask in range(1, 1 << n):
        k = 0
        for i in range(n):
            if mask >> i & 1:
                index[k] = i
                k += 1
        # weights of the affine projection of the origin: differences from the last corner
        o = W[index[k - 1]]
        good = True
        m = k - 1
        for i in range(m):
            for j in range(m):
                G[i, j] = 0.0
                for c in range(3):
                    G[i, j] += (W[index[i], c] - o[c]) * (W[index[j], c] - o[c])
            x[i] = 0.0
            for c in range(3):
                x[i] -= (W[index[i], c] - o[c]) * o[c]
        for i in range(m):
            if G[i, i] <= 0.0:
                good = False
                break
            for r in range(i + 1, m):
                factor = G[r, i] / G[i, i]
                before = G[r, r]
                for j in range(i, m):
                    G[r, j] -= factor * G[i, j]
                x[r] -= factor * x[i]
                if G[r, r] <= (1e-10 if k == 4 else 1e-14) * before:  # flat: its sides are tried, too
                    good = False
        if not good:
            continue
        total = 0.0
        for i in range(m - 1, -1, -1):
            for j in range(i + 1, m):
                x[i] -= G[i, j] * x[j]
            x[i] /= G[i, i]
            total += x[i]
            if x[i] < 0.0:
                good = False
        x[m] = 1.0 - total
        if x[m] < 0.0 or not good:
            continue
        square = 0.0
        for c in range(3):
            u[c] = 0.0
            for i in range(k):
                u[c] += x[i] * W[index[i], c]
            square += u[c] * u[c]
        if square < best:
            best, chosen = square, mask
            put(v, u)
            for i in range(k):
                weight[i] = x[i]
    k = 0
    for i in range(n):
        if chosen >> i & 1:
            if i != k:
                W[k] = W[i]
            k += 1
    return k


@inner
def _bound(shapes, a, b, Ra, pa, Rb, pb, d, x, y):
    support(shapes, a, Ra, pa, d, x)
    support(shapes, b, Rb, pb, times(-1.0, d), y)
    return d[0] * (y[0] - x[0]) + d[1] * (y[1] - x[1]) + d[2] * (y[2] - x[2])


@inner
def _sharpen(shapes, a, b, Ra, pa, Rb, pb, n, best):
    """Try the face normals of both hulls, and the cross products of their edges if no separation is
    found; n is overwritten by a better direction. Return the bound."""
    x, y, d = np.empty(3), np.empty(3), np.empty(3)
    for turn in range(2):
        g, R = (a, Ra) if turn == 0 else (b, Rb)
        sign = 1.0 if turn == 0 else -1.0
        for f in range(shapes.face_start[g], shapes.face_start[g + 1]):
            w = shapes.face[f]
            for i in range(3):
                d[i] = sign * (R[i, 0] * w[0] + R[i, 1] * w[1] + R[i, 2] * w[2])
            value = _bound(shapes, a, b, Ra, pa, Rb, pb, d, x, y)
            if value > best:
                best = value
                put(n, d)
    if best > 0.0:
        return best
    for i in range(shapes.edge_start[a], shapes.edge_start[a + 1]):
        e = rotated(Ra, minus(shapes.vertex[shapes.edge[i, 1]], shapes.vertex[shapes.edge[i, 0]]))
        for j in range(shapes.edge_start[b], shapes.edge_start[b + 1]):
            f = rotated(Rb, minus(shapes.vertex[shapes.edge[j, 1]], shapes.vertex[shapes.edge[j, 0]]))
            cross(e, f, d)
            square = dot(d, d)
            if square <= 1e-12 * dot(e, e) * dot(f, f):
                continue
            divide(d, np.sqrt(square))
            for _ in range(2):
                divide(d, -1.0)
                value = _bound(shapes, a, b, Ra, pa, Rb, pb, d, x, y)
                if value > best:
                    best = value
                    put(n, d)
    return best


@inner
def level(shapes, g, R, n, sign, depth, e):
    """Return the part of g's core within ``depth`` of its farthest point along ``sign`` times n: 1
    corner, 2 edge, which is written to e, 3 face."""
    d = times(sign, unrotated(R, n))
    first, last = shapes.vertex_start[g], shapes.vertex_start[g + 1]
    top = -np.inf
    for k in range(first, last):
        top = max(top, dot(d, shapes.vertex[k]))
    count, one = 0, first
    for k in range(first, last):
        if dot(d, shapes.vertex[k]) >= top - depth:
            count += 1
            if count == 1:
                one = k
            elif count == 2:
                put(e, rotated(R, minus(shapes.vertex[k], shapes.vertex[one])))
    if shapes.disc[g] > 0.0 and count == 1:
        along = dot(d, shapes.axis[g])
        if shapes.disc[g] * np.sqrt(max(1.0 - along * along, 0.0)) <= depth:
            count = 3
    return min(count, 3)


@inner
def _try(shapes, c, o, Rc, pc, Ro, po, d, x, y, n, best):
    """Write direction d, of any length and sign, to n if it separates better; return the bound."""
    length = np.sqrt(dot(d, d))
    if not length > 0.0:
        return best
    divide(d, length if dot(d, n) > 0.0 else -length)
    value = _bound(shapes, c, o, Rc, pc, Ro, po, d, x, y)
    if value > best:
        put(n, d)
        return value
    return best


@inner
def _foremost_edge(shapes, g, R, n, sign, e):
    """Write to e the vector between the two corners of g farthest along ``sign`` times n."""
    d = times(sign, unrotated(R, n))
    first = second = -np.inf
    i, j = 0, 0
    for k in range(shapes.vertex_start[g], shapes.vertex_start[g + 1]):
        h = dot(d, shapes.vertex[k])
        if h > first:
            first, second, i, j = h, first, k, i
        elif h > second:
            second, j = h, k
    put(e, rotated(R, minus(shapes.vertex[i], shapes.vertex[j])))


@inner
def _sharpen_edges(shapes, a, b, Ra, pa, Rb, pb, n, best):
    """Try the direction across the two edges that face each other along n; n is overwritten by a
    better one. Return the bound."""
    e, f, d, x, y = np.empty(3), np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    _foremost_edge(shapes, a, Ra, n, 1.0, e)
    _foremost_edge(shapes, b, Rb, n, -1.0, f)
    cross(e, f, d)
    if dot(d, d) <= 1e-12 * dot(e, e) * dot(f, f):
        return best
    return _try(shapes, a, b, Ra, pa, Rb, pb, d, x, y, n, best)


@inner
def _sharpen_cylinder(shapes, c, o, Rc, pc, Ro, po, n, best):
    """Try the directions in which side or rim of cylinder c face the nearest features of o; n, from
    c to o, is overwritten by a better one. Return the bound."""
    x, y, d, e, f = np.empty(3), np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    u, w = np.empty(3), np.empty(3)
    data = np.zeros(DATA)
    a, rho, sc, so = (
        rotated(Rc, shapes.axis[c]),
        shapes.disc[c],
        shapes.vertex_start[c],
        shapes.vertex_start[o],
    )
    exact = shapes.radius[c] + shapes.radius[o] == 0.0
    low = np.inf  # height of o's nearest corner along n
    for k in range(so, shapes.vertex_start[o + 1]):
        low = min(low, dot(n, plus(rotated(Ro, shapes.vertex[k]), po)))
    put(data[3:6], times(rho, shapes.axis[c]))
    rim_axes(data[3:6], u, w)
    rotate(Rc, u, e)
    rotate(Rc, w, f)
    start = across(n, a)
    data[14] = np.arctan2(dot(f, start), dot(e, start))
    for k in range(shapes.edge_start[o], shapes.edge_start[o + 1]):
        v0, v1 = shapes.vertex[shapes.edge[k, 0]], shapes.vertex[shapes.edge[k, 1]]
        g, p0 = rotated(Ro, minus(v1, v0)), plus(rotated(Ro, v0), po)
        if min(dot(n, p0), dot(n, plus(p0, g))) > low + NEAR_CYLINDER:
            continue
        cross(a, g, d)
        best = _try(shapes, c, o, Rc, pc, Ro, po, d, x, y, n, best)
        put(data[6:9], v0)
        put(data[9:12], minus(v1, v0))
        for i in range(2):
            put(data[0:3], shapes.vertex[sc + i])
            rim = plus(rotated(Rc, data[0:3]), pc)
            cosine, sine = np.cos(data[14]), np.sin(data[14])
            for j in range(3):
                rim[j] = rim[j] + cosine * e[j] + sine * f[j]
            data[15] = min(max(dot(g, minus(rim, p0)) / dot(g, g), 0.0), 1.0)
            ended, _, _ = nearest_on_rim(RIM_EDGE, data, Rc, pc, Ro, po, x, u, y, w)
            if ended:
                less(y, x, d)
                if exact and shapes.disc[o] == 0.0:
                    cross(u, w, d)
                best = _try(shapes, c, o, Rc, pc, Ro, po, d, x, y, n, best)
    for k in range(so, shapes.vertex_start[o + 1]):
        if dot(n, plus(rotated(Ro, shapes.vertex[k]), po)) > low + NEAR_CYLINDER and shapes.disc[o] == 0.0:
            continue
        put(data[6:9], shapes.vertex[k])
        kind = RIM_POINT
        if shapes.disc[o] > 0.0:
            kind = RIM_RIM
            put(data[9:12], times(shapes.disc[o], shapes.axis[o]))
            rim_axes(data[9:12], u, w)
            data[15] = np.arctan2(-dot(rotated(Ro, w), n), -dot(rotated(Ro, u), n))
        else:
            put(d, minus(minus(plus(rotated(Ro, shapes.vertex[k]), po), pc), rotated(Rc, shapes.vertex[sc])))
            put(d, across(d, a))
            best = _try(shapes, c, o, Rc, pc, Ro, po, d, x, y, n, best)
        for i in range(2):
            put(data[0:3], shapes.vertex[sc + i])
            ended, _, _ = nearest_on_rim(kind, data, Rc, pc, Ro, po, x, u, y, w)
            if ended:
                less(y, x, d)
                if exact and kind == RIM_RIM:
                    cross(u, w, d)
                best = _try(shapes, c, o, Rc, pc, Ro, po, d, x, y, n, best)
    return best


@inner
def _between_points(shapes, a, b, Ra, pa, Rb, pb, n):
    """Return the distance of the first corners of two geometries [m]; n is overwritten by the
    direction, unless they coincide."""
    s, t = shapes.vertex[shapes.vertex_start[a]], shapes.vertex[shapes.vertex_start[b]]
    square = 0.0
    for i in range(3):
        n[i] = pb[i] + Rb[i, 0] * t[0] + Rb[i, 1] * t[1] + Rb[i, 2] * t[2]
        n[i] -= pa[i] + Ra[i, 0] * s[0] + Ra[i, 1] * s[1] + Ra[i, 2] * s[2]
        square += n[i] * n[i]
    length = np.sqrt(square)
    if length > 0.0:
        divide(n, length)
    return length


@inner
def _from_plane(shapes, a, b, Rb, pb, n):
    """Return the distance of the core of b from the half-space a [m]; n is overwritten by its
    normal."""
    put(n, shapes.normal[a])
    v = shapes.vertex[shapes.vertex_start[a]]
    if shapes.vertex_start[b + 1] - shapes.vertex_start[b] == 1:
        u = shapes.vertex[shapes.vertex_start[b]]
        total = 0.0
        for i in range(3):
            total += n[i] * (pb[i] + Rb[i, 0] * u[0] + Rb[i, 1] * u[1] + Rb[i, 2] * u[2] - v[i])
        return total
    x = np.empty(3)
    support(shapes, b, Rb, pb, times(-1.0, n), x)
    return n[0] * (x[0] - v[0]) + n[1] * (x[1] - v[1]) + n[2] * (x[2] - v[2])


@inner
def _gjk(shapes, a, b, Ra, pa, Rb, pb, n, enough):
    """Return a lower bound of the distance of two cores [m], at least ``enough`` if possible; n, a
    first guess, is overwritten by its direction."""
    x, y = np.empty(3), np.empty(3)
    W, weight, v = np.empty((4, 3)), np.empty(4), np.empty(3)
    size = 0
    put(v, times(-1.0, n))
    if dot(v, v) < 0.5:
        v[0], v[1], v[2] = 1.0, 0.0, 0.0
    best = -np.inf
    trial = np.empty(3)
    for _ in range(60):
        length = np.sqrt(dot(v, v))
        if length < 1e-15:
            break
        put(trial, v)
        divide(trial, -length)
        support(shapes, a, Ra, pa, trial, x)
        support(shapes, b, Rb, pb, times(-1.0, trial), y)
        w = minus(x, y)
        bound = -dot(trial, w)
        if bound > best:
            best = bound
            put(n, trial)
            if best >= enough:
                break
        if size > 0 and length - best <= 1e-13 * length + 1e-16:
            break
        known = False
        for i in range(size):
            if W[i, 0] == w[0] and W[i, 1] == w[1] and W[i, 2] == w[2]:
                known = True
        if known:
            break
        put(W[size], w)
        size = _nearest(W, size + 1, v, weight)
        if size == 0 or size == 4:
            break
    return best


@inner
def separation(shapes, a, b, Ra, pa, Rb, pb, n, enough):
    """Return the distance of two geometries along the direction that separates them best [m]: a
    lower bound, exact to rounding where GJK converges below ``enough``; not positive where they
    meet.

    Args:
        a, b: geometries; a may be a half-space.
        n: (3,) from a to b: a first guess, overwritten by the direction.
        enough: bound that ends the search [m].
    """
    rounding = shapes.radius[a] + shapes.radius[b]
    va, vb = (
        shapes.vertex_start[a + 1] - shapes.vertex_start[a],
        shapes.vertex_start[b + 1] - shapes.vertex_start[b],
    )
    if shapes.is_plane[a]:
        return _from_plane(shapes, a, b, Rb, pb, n) - rounding
    if va == 1 and vb == 1:
        return _between_points(shapes, a, b, Ra, pa, Rb, pb, n) - rounding
    best = _gjk(shapes, a, b, Ra, pa, Rb, pb, n, enough + rounding)
    if best - rounding >= enough:
        return best - rounding
    cylinder = shapes.disc[a] > 0.0 or shapes.disc[b] > 0.0
    if best < NEAR or (cylinder and best - rounding < NEAR_CYLINDER):
        best = _sharpen(shapes, a, b, Ra, pa, Rb, pb, n, best)
        if not cylinder:
            best = _sharpen_edges(shapes, a, b, Ra, pa, Rb, pb, n, best)
    if cylinder and best - rounding < NEAR_CYLINDER:
        if shapes.disc[a] > 0.0:
            best = _sharpen_cylinder(shapes, a, b, Ra, pa, Rb, pb, n, best)
        if shapes.disc[b] > 0.0:
            divide(n, -1.0)
            best = _sharpen_cylinder(shapes, b, a, Rb, pb, Ra, pa, n, best)
            divide(n, -1.0)
    return best - rounding
