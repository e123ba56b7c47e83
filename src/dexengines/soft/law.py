"""The contact law of :mod:`~dexengines.soft.scm` in one pass over the near set, compiled by numba.

    Φ = Σ_i softmax_ε1(−d)_i φ_i,   w = softmax_ε2(−Φ),   forces of points and planes with a share
    only [14–23]

XLA passes over whole arrays once for every few operations; here the cost of a pair is proportional
to its near set. Everything inside is in double precision. Derivatives of wrenches by motion and
friction are in :mod:`~dexengines.soft.jacobian`; all others are those of
:mod:`~dexengines.soft.scm`.
"""

from __future__ import annotations

import math

import numpy as np

from dexengines.kernels import inner
from dexengines.soft.elementary import dot, exps, faded, left, onsets

STIFFNESS, FRICTION, EPS1, EPS2, EPS3, SEPARATION, STICTION = range(7)
"""Columns of a pair's numbers, the fields of :class:`~dexengines.soft.scm.ContactParams`."""
PLANES, POINTS, ONSET = range(3)
"""Rows (start, end) of the windows."""
PAPER, SMOOTH = range(2)
"""Supported dissipations."""
NOTHING = 1e-20
"""Share of a point, or of a plane, that is neglected; its factor is at most some thousand times the
load."""
POINT_ROWS = 20
Y, V, WHOLE, FIELD, LOGIT, SHARE, LOAD, SPRING, DAMPING, DRAG, FORCE, NORMAL = (
    0,
    3,
    6,
    7,
    8,
    9,
    10,
    11,
    12,
    13,
    14,
    17,
)
"""Rows of points: place and velocity in the planes' frame, one over the sum of e^(−d/ε1), Φ, −Φ/ε2,
w, λ_n, −∂λ_n/∂φ, −∂λ_n/∂v_n, viscous friction; force and normal in the world's axes."""
EDGE_ROWS = 9
FAR, HOW_MUCH, DEPTH, TAIL, RISE, SPEED, SQUARE, BRAKE, SLOPE = range(9)
"""Rows of edges, a point and one of its planes: −d/ε1, its share, −φ/ε3 (φ at first), exp(−|φ|/ε3),
log(1 + exp(−φ/ε3)), v_n, ‖v_t‖² + v_s², d(r), −d′(r); :func:`_laws` replaces the last ones by
forces and their slopes."""


@inner
def twist_in(R, p, twist, own, other, result):
    """Write to ``result`` (6,) the twist of link ``own`` relative to ``other``, in that one's frame
    and about its origin."""
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        result[k] = (twist[own, k] - twist[other, k]) + (
            (twist[own, 3 + i] - twist[other, 3 + i]) * p[other, j]
            - (twist[own, 3 + j] - twist[other, 3 + j]) * p[other, i]
        )
        result[3 + k] = twist[own, 3 + k] - twist[other, 3 + k]
    for half in (0, 3):
        a, b, c = result[half], result[half + 1], result[half + 2]
        for k in range(3):
            result[half + k] = R[other, 0, k] * a + R[other, 1, k] * b + R[other, 2, k] * c


@inner
def _see(rows, m, R, p, twist, points, n):
    """Write place and velocity of a point in the planes' frame, in which its own has the pose (R,
    p) and the ``twist``.

    Functions called for every point take their arrays one by one, as references to a tuple's
    members are counted.
    """
    a, b, c = rows[m, 0], rows[m, 1], rows[m, 2]
    x = R[0, 0] * a + R[0, 1] * b + R[0, 2] * c + p[0]
    y = R[1, 0] * a + R[1, 1] * b + R[1, 2] * c + p[1]
    z = R[2, 0] * a + R[2, 1] * b + R[2, 2] * c + p[2]
    points[Y, n], points[Y + 1, n], points[Y + 2, n] = x, y, z
    points[V, n] = twist[0] + twist[4] * z - twist[5] * y
    points[V + 1, n] = twist[1] + twist[5] * x - twist[3] * z
    points[V + 2, n] = twist[2] + twist[3] * y - twist[4] * x


@inner
def _look_at(other, planes, first, last, scale, points, n, logits, phi):
    """Write logits and φ of the planes ``other[planes[first:last]]`` that a point meets."""
    x, y, z = points[Y, n], points[Y + 1, n], points[Y + 2, n]
    nearest = np.inf
    for k in range(first, last):
        m = planes[k]
        a, b, c = x - other[m, 0], y - other[m, 1], z - other[m, 2]
        logits[k] = a * a + b * b + c * c
        phi[k] = other[m, 3] * a + other[m, 4] * b + other[m, 5] * c
        nearest = logits[k] if logits[k] < nearest else nearest
    for k in range(first, last):
        logits[k] = (nearest - logits[k]) * scale


@inner
def _brakes(speed, scale, kind, brake, slope):
    """Write d(r), and −d′(r) as the implicit step takes it, of r = scale · speed.

    The loops here and below are separate functions of a few arrays, so that they are vectorised.
    """
    if kind == SMOOTH:
        for k in range(len(speed)):
            s = 0.5 * scale * speed[k]
            s = s if s > 0.0 else 0.0
            s = s if s < 1.0 else 1.0
            brake[k] = (1.0 - s) * (1.0 - s) * (1.0 - s) * (1.0 + s)
    else:
        for k in range(len(speed)):
            s = 0.5 * scale * speed[k]
            s = s if s > 0.0 else 0.0
            s = s if s < 1.0 else 1.0
            brake[k] = (1.0 - s) * (1.0 - s)
    for k in range(len(speed)):
        r = scale * speed[k]
        brake[k] = 1.0 - r if r < 0.0 else brake[k]
        s = 1.0 - 0.5 * r
        s = s if s > 0.0 else 0.0
        slope[k] = s if s < 1.0 else 1.0


@inner
def _times(x, y):
    for k in range(len(y)):
        x[k] *= y[k]


@inner
def _rises(depth, tail):
    """Replace exp(−|depth|) by σ(depth)."""
    for k in range(len(depth)):
        tail[k] = (1.0 if depth[k] >= 0.0 else tail[k]) / (1.0 + tail[k])


@inner
def _drags(load, square, drag):
    for k in range(len(load)):
        drag[k] = load[k] / math.sqrt(square[k])


@inner
def _pushes(load, drag, speed, friction):
    """Replace ``speed`` by the forces along the normals: the load, and the part of friction that
    the mean drag leaves out."""
    for k in range(len(load)):
        speed[k] = load[k] + friction * drag[k] * speed[k]


@inner
def _laws(edges, count, c, window, kind):
    """Apply the force law without k and ε3 to ``edges``, which hold share, −φ/ε3, v_n and
    ‖v_t‖² + v_s²."""
    much, depth, tail, load = (
        edges[HOW_MUCH, :count],
        edges[DEPTH, :count],
        edges[TAIL, :count],
        edges[RISE, :count],
    )
    speed, square, brake, slope = (
        edges[SPEED, :count],
        edges[SQUARE, :count],
        edges[BRAKE, :count],
        edges[SLOPE, :count],
    )
    onsets(depth, tail, load)
    for k in range(len(depth)):
        if -depth[k] > window[0]:
            load[k] *= left(-depth[k], window)
    _rises(depth, tail)
    _brakes(speed, 1.0 / c[SEPARATION], kind, brake, slope)
    _times(tail, brake)
    _times(tail, much)
    _times(load, much)
    _times(slope, load)
    _times(load, brake)
    _drags(load, square, brake)
    _pushes(load, brake, speed, c[FRICTION])


@inner
def _keep(other, span, e, whole, c, of):
    """Keep only planes with a share, of points with a share; normalise the shares of points and
    write the input of :func:`_laws`. Return the number of edges."""
    points, edges, planes, begins = of
    much, depth, speed, square = edges[HOW_MUCH], edges[DEPTH], edges[SPEED], edges[SQUARE]
    per_depth, slow = -1.0 / c[EPS3], c[STICTION] ** 2
    for n in range(*span):
        low, begins[n] = begins[n], e
        points[SHARE, n] *= whole
        if points[SHARE, n] < NOTHING:
            continue
        x, y, z = points[V, n], points[V + 1, n], points[V + 2, n]
        v = x * x + y * y + z * z
        for k in range(low, begins[n + 1]):
            share = much[k] * points[WHOLE, n]
            if share < NOTHING:
                continue
            m = planes[k]
            v_n = other[m, 3] * x + other[m, 4] * y + other[m, 5] * z
            much[e], depth[e], planes[e], speed[e], square[e] = (
                share,
                depth[k] * per_depth,
                m,
                v_n,
                max(v - v_n * v_n, 0.0) + slow,
            )
            e += 1
    return e


@inner
def _gather_up(other, R, span, c, of):
    """Sum the planes' effects on points after :func:`_laws`, in axes in which the planes' frame has
    the axes R; return mean distance and mean load."""
    points, edges, planes, begins = of
    much, tail, load, push, drag, slope = (
        edges[HOW_MUCH],
        edges[TAIL],
        edges[RISE],
        edges[SPEED],
        edges[BRAKE],
        edges[SLOPE],
    )
    scale, mu, per_speed, stiffness = c[STIFFNESS] * c[EPS3], c[FRICTION], 1.0 / c[SEPARATION], c[STIFFNESS]
    distance = mean_load = 0.0
    for n in range(*span):
        if points[SHARE, n] < NOTHING:
            continue
        fx = fy = fz = nx = ny = nz = loads = drags = slopes = springs = 0.0
        for k in range(begins[n], begins[n + 1]):
            m, w, f = planes[k], much[k], push[k]
            a, b, d = other[m, 3], other[m, 4], other[m, 5]
            loads, drags, slopes, springs = (
                loads + load[k],
                drags + drag[k],
                slopes + slope[k],
                springs + tail[k],
            )
            fx, fy, fz = fx + f * a, fy + f * b, fz + f * d
            nx, ny, nz = nx + w * a, ny + w * b, nz + w * d
        viscous = mu * scale * drags
        fx, fy, fz = (
            scale * fx - viscous * points[V, n],
            scale * fy - viscous * points[V + 1, n],
            scale * fz - viscous * points[V + 2, n],
        )
        points[LOAD, n], points[SPRING, n] = scale * loads, stiffness * springs
        points[DAMPING, n], points[DRAG, n] = scale * slopes * per_speed, viscous
        for k in range(3):
            points[FORCE + k, n] = R[k, 0] * fx + R[k, 1] * fy + R[k, 2] * fz
            points[NORMAL + k, n] = R[k, 0] * nx + R[k, 1] * ny + R[k, 2] * nz
        distance += points[SHARE, n] * points[FIELD, n]
        mean_load += points[SHARE, n] * points[LOAD, n]
    return distance, mean_load


@inner
def _sum_up(sign, R, p, of, shift, sums):
    """Add the response of a span of points to ``sums``, in a frame in which the planes' one has the
    pose (R, p): the wrench, that of the mean normal, K, D, in rows of six, and a row of scratch."""
    wrench, mean, stiffness, damping, g = sums[0], sums[1], sums[2:8], sums[8:14], sums[14]
    points, span = of
    for n in range(*span):
        w = points[SHARE, n]
        if w < NOTHING:
            continue
        y0, y1, y2 = points[Y, n], points[Y + 1, n], points[Y + 2, n]
        x = R[0, 0] * y0 + R[0, 1] * y1 + R[0, 2] * y2 + p[0]
        y = R[1, 0] * y0 + R[1, 1] * y1 + R[1, 2] * y2 + p[1]
        z = R[2, 0] * y0 + R[2, 1] * y1 + R[2, 2] * y2 + p[2]
        f0, f1, f2 = (
            sign * w * points[FORCE, n],
            sign * w * points[FORCE + 1, n],
            sign * w * points[FORCE + 2, n],
        )
        wrench[0], wrench[1], wrench[2] = wrench[0] + f0, wrench[1] + f1, wrench[2] + f2
        wrench[3], wrench[4], wrench[5] = (
            wrench[3] + y * f2 - z * f1,
            wrench[4] + z * f0 - x * f2,
            wrench[5] + x * f1 - y * f0,
        )
        g[0], g[1], g[2] = points[NORMAL, n], points[NORMAL + 1, n], points[NORMAL + 2, n]
        g[3], g[4], g[5] = y * g[2] - z * g[1], z * g[0] - x * g[2], x * g[1] - y * g[0]
        spring, beta = w * (points[SPRING, n] + shift), w * points[DRAG, n]
        brake = w * points[DAMPING, n] - beta
        for i in range(6):
            mean[i] += sign * w * g[i]
            for j in range(i + 1):
                stiffness[i, j] += spring * g[i] * g[j]
                damping[i, j] += brake * g[i] * g[j]
        for k in range(3):
            damping[k, k] += beta
        damping[3, 1], damping[3, 2] = damping[3, 1] - beta * z, damping[3, 2] + beta * y
        damping[4, 0], damping[4, 2] = damping[4, 0] + beta * z, damping[4, 2] - beta * x
        damping[5, 0], damping[5, 1] = damping[5, 0] - beta * y, damping[5, 1] + beta * x
        damping[3, 3], damping[4, 4], damping[5, 5] = (
            damping[3, 3] + beta * (y * y + z * z),
            damping[4, 4] + beta * (x * x + z * z),
            damping[5, 5] + beta * (x * x + y * y),
        )
        damping[4, 3], damping[5, 3], damping[5, 4] = (
            damping[4, 3] - beta * x * y,
            damping[5, 3] - beta * x * z,
            damping[5, 4] - beta * y * z,
        )


@inner
def _finish(sums, shift, results, at):
    """Write the pair's sums to the results' row ``at``: K less the mean normal's part, both
    matrices whole."""
    for i in range(6):
        results[0][at, i] = sums[0, i]
        for j in range(i + 1):
            results[1][at, i, j] = results[1][at, j, i] = sums[2 + i, j] - shift * sums[1, i] * sums[1, j]
            results[2][at, i, j] = results[2][at, j, i] = sums[8 + i, j]


@inner
def store(points, edges):
    """Return scratch for a number of points and of edges, a point with one of its planes."""
    return (
        np.empty((POINT_ROWS, points)),
        np.empty((EDGE_ROWS, edges)),
        np.empty(edges, np.int32),
        np.empty(points + 1, np.int32),
    )


@inner
def gather(bodies, found, moving, eps1, into, at):
    """Collect candidates within the limit and the planes that they meet.

    Args:
        bodies: rows of the points' body, and of the planes' body.
        found: see :func:`~dexengines.soft.near.found`.
        moving: pose and twist of the points' body in the planes' frame.
        into: a :func:`store`.
        at: numbers of points and edges in it.

    Returns:
        The numbers of points and edges afterwards.
    """
    rows, other = bodies
    count, limit, who, low, starts, met = found
    points, edges, planes, begins = into
    (n, e), (R, p, twist), far, depth = at, moving, edges[FAR], edges[DEPTH]
    for k in range(count):
        if low[k] > limit:
            continue
        _see(rows, who[k], R, p, twist, points, n)
        begins[n] = e
        for m in range(starts[k], starts[k + 1]):
            planes[e] = met[m]
            e += 1
        _look_at(other, planes, begins[n], e, 1.0 / eps1, points, n, far, depth)
        n += 1
    begins[n] = e
    return n, e


@inner
def feel(bodies, frames, law, counts, of, into):
    """Write the contact of a pair of bodies.

    Args:
        bodies: rows of both, and their links.
        frames: all links' R and p.
        law: the pair's numbers, windows and kind of dissipation.
        counts: number of points in ``of``, a :func:`store`: of the first body, of both.
        into: results (wrench on the second body, stiffness, damping, about the world's origin, and
            distance, of all pairs), and the row.
    """
    (rows_a, rows_b, a, b), (R, p), (c, windows, kind), (first, count) = bodies, frames, law, counts
    points, edges, _, begins = of
    planes_fade, far, much, depth = windows[PLANES], edges[FAR], edges[HOW_MUCH], edges[DEPTH]
    exps(far[: begins[count]], much)
    for n in range(count):
        low, high = begins[n], begins[n + 1]
        points[WHOLE, n] = 1.0 / faded(far, much, low, high, planes_fade)
        points[FIELD, n] = dot(much, depth, low, high) * points[WHOLE, n]
    least = points[FIELD, :count].min()
    for n in range(count):
        points[LOGIT, n] = (least - points[FIELD, n]) / c[EPS2]
    exps(points[LOGIT, :count], points[SHARE])
    whole = 1.0 / faded(points[LOGIT], points[SHARE], 0, count, windows[POINTS])
    of_a, of_b = (0, first), (first, count)
    e = _keep(rows_b, of_a, 0, whole, c, of)
    e = begins[count] = _keep(rows_a, of_b, e, whole, c, of)
    _laws(edges, e, c, windows[ONSET], kind)
    distance_a, load_a = _gather_up(rows_b, R[b], of_a, c, of)
    distance_b, load_b = _gather_up(rows_a, R[a], of_b, c, of)
    shift = (load_a + load_b) / c[EPS2]  # a tilt moves the weight to other points
    sums = np.zeros((15, 6))
    _sum_up(-1.0, R[b], p[b], (points, of_a), shift, sums)
    _sum_up(1.0, R[a], p[a], (points, of_b), shift, sums)
    results, at = into
    _finish(sums, shift, results, at)
    results[3][at] = distance_a + distance_b
