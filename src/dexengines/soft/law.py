"""The contact law in one pass over what is near, without derivatives: the same as
:mod:`~dexengines.soft.scm`, compiled by numba.

    Φ = Σ_i softmax_ε1(−d)_i φ_i,   w = softmax_ε2(−Φ),   forces only of points and planes that have
    a share                  [14–23]

XLA passes over arrays once for every few operations, whether anything is in them or not; here each
pair of bodies takes as long as what is near of it. Everything inside is in double precision. How
wrenches change with motion and friction is in :mod:`~dexengines.soft.jacobian`; all other
derivatives are those of :mod:`~dexengines.soft.scm`.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

STIFFNESS, FRICTION, EPS1, EPS2, EPS3, SEPARATION, STICTION = range(7)
"""Columns of a pair's numbers: the fields of :class:`~dexengines.soft.scm.ContactParams`."""
PLANES, POINTS, ONSET = range(3)
"""Rows (start, end) of the windows."""
PAPER, SMOOTH = range(2)
"""Dissipations that are known here."""
NOTHING = 1e-20
"""Share of a point, or of a plane, that is nothing: what is multiplied with it is at most some
thousand times the load."""
LEAST = -200.0
"""Exponent that makes nothing of what it is of: products of such numbers are far from where a CPU
becomes slow."""
LOG2E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10
SHIFTER = 6755399441055744.0
"""1.5 · 2⁵²: a number added to it is rounded to an integer, which its lowest bits hold."""
FAST = {"reassoc", "contract", "nsz", "nnan"}
"""What a compiler may change, of sums."""
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
"""Rows of what is known of points: place and velocity in the planes' frame, one over the sum of
e^(−d/ε1), Φ, −Φ/ε2, w, λ_n, −∂λ_n/∂φ, −∂λ_n/∂v_n, viscous friction; force and normal in the world's
axes."""
EDGE_ROWS = 9
FAR, HOW_MUCH, DEPTH, TAIL, RISE, SPEED, SQUARE, BRAKE, SLOPE = range(9)
"""Rows of what is known of a point and one of its planes: −d/ε1, its share, −φ/ε3 (φ at first),
exp(−|φ|/ε3), log(1 + exp(−φ/ε3)), v_n, ‖v_t‖² + v_s², d(r), −d′(r); :func:`_laws` puts forces and
their slopes in the place of the last ones."""


@intrinsic
def _power_of_two(typing_context, shifted):
    """2ⁿ of n + SHIFTER."""

    def generate(context, builder, signature, arguments):
        bits = builder.bitcast(arguments[0], ir.IntType(64))
        bits = builder.shl(
            builder.add(bits, ir.Constant(ir.IntType(64), 1023)), ir.Constant(ir.IntType(64), 52)
        )
        return builder.bitcast(bits, ir.DoubleType())

    return types.float64(types.float64), generate


@numba.njit(error_model="numpy")
def _exp(x):
    """exp(x) of a number that is not above zero, without branches or a library: several at once,
    where they stand in an array."""
    x = x if x > LEAST else LEAST
    shifted = x * LOG2E + SHIFTER
    n = shifted - SHIFTER
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    s = 1.0 / 479001600.0
    s = s * r + 1.0 / 39916800.0
    s = s * r + 1.0 / 3628800.0
    s = s * r + 1.0 / 362880.0
    s = s * r + 1.0 / 40320.0
    s = s * r + 1.0 / 5040.0
    s = s * r + 1.0 / 720.0
    s = s * r + 1.0 / 120.0
    s = s * r + 1.0 / 24.0
    s = s * r + 1.0 / 6.0
    s = s * r + 0.5
    s = s * r + 1.0
    s = s * r + 1.0
    return s * _power_of_two(shifted)


@numba.njit(error_model="numpy")
def _exps(x, y):
    for k in range(len(x)):
        y[k] = _exp(x[k])


@numba.njit(error_model="numpy")
def _onsets(depth, e, onset):
    """log(1 + exp(depth)), and exp(−|depth|) into ``e``."""
    for k in range(len(depth)):
        d = depth[k]
        e[k] = _exp(-abs(d))
    for k in range(len(depth)):
        u = e[k] / (2.0 + e[k])  # log(1 + e) = 2 atanh u, u ≤ 1/3
        q = u * u
        s = 1.0 / 31.0
        s = s * q + 1.0 / 29.0
        s = s * q + 1.0 / 27.0
        s = s * q + 1.0 / 25.0
        s = s * q + 1.0 / 23.0
        s = s * q + 1.0 / 21.0
        s = s * q + 1.0 / 19.0
        s = s * q + 1.0 / 17.0
        s = s * q + 1.0 / 15.0
        s = s * q + 1.0 / 13.0
        s = s * q + 1.0 / 11.0
        s = s * q + 1.0 / 9.0
        s = s * q + 1.0 / 7.0
        s = s * q + 1.0 / 5.0
        s = s * q + 1.0 / 3.0
        s = s * q + 1.0
        onset[k] = 2.0 * u * s
    for k in range(len(depth)):
        d = depth[k]
        onset[k] += d if d > 0.0 else 0.0


@numba.njit(error_model="numpy")
def _left(u, window):
    s = min((u - window[0]) / (window[1] - window[0]), 1.0)
    t = 1.0 - s
    return t * t * t * (1.0 + s * (3.0 + 6.0 * s)) if s > 0.0 else 1.0


@numba.njit(error_model="numpy", fastmath=FAST)
def _total(x, first, last):
    total = 0.0
    for k in range(first, last):
        total += x[k]
    return total


@numba.njit(error_model="numpy", fastmath=FAST)
def _dot(x, y, first, last):
    total = 0.0
    for k in range(first, last):
        total += x[k] * y[k]
    return total


@numba.njit(error_model="numpy")
def _faded(logits, shares, first, last, window):
    """Sum of shares, exponentials of logits that are not above zero, after those have been faded
    out that ``window`` says."""
    total = _total(shares, first, last)
    if window[0] == np.inf:
        return total
    start, total = math.log(total), 0.0
    for k in range(first, last):
        if start - logits[k] > window[0]:
            shares[k] *= _left(start - logits[k], window)
        total += shares[k]
    return total


@numba.njit(error_model="numpy")
def twist_in(R, p, twist, own, other, result):
    """Twist of link ``own`` as ``other`` sees it, in that one's frame and about its origin, into
    ``result`` (6,)."""
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


@numba.njit(error_model="numpy")
def _see(rows, m, R, p, twist, points, n):
    """Place and velocity of a point in the planes' frame, in which its own has the pose (R, p) and
    the ``twist``.

    What is called for every point takes its arrays one by one: references to what a tuple holds are
    counted.
    """
    a, b, c = rows[m, 0], rows[m, 1], rows[m, 2]
    x = R[0, 0] * a + R[0, 1] * b + R[0, 2] * c + p[0]
    y = R[1, 0] * a + R[1, 1] * b + R[1, 2] * c + p[1]
    z = R[2, 0] * a + R[2, 1] * b + R[2, 2] * c + p[2]
    points[Y, n], points[Y + 1, n], points[Y + 2, n] = x, y, z
    points[V, n] = twist[0] + twist[4] * z - twist[5] * y
    points[V + 1, n] = twist[1] + twist[5] * x - twist[3] * z
    points[V + 2, n] = twist[2] + twist[3] * y - twist[4] * x


@numba.njit(error_model="numpy")
def _look_at(other, planes, first, last, scale, points, n, logits, phi):
    """Logits and φ of the planes ``other[planes[first:last]]`` that a point meets."""
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


@numba.njit(error_model="numpy")
def _brakes(speed, scale, kind, brake, slope):
    """d(r), and −d′(r) as the step takes it, of r = scale · speed.

    The loops here and below are functions of their own, of a few arrays: a compiler then makes
    vectors of them.
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


@numba.njit(error_model="numpy")
def _times(x, y):
    for k in range(len(y)):
        x[k] *= y[k]


@numba.njit(error_model="numpy")
def _rises(depth, tail):
    """σ(depth) in the place of exp(−|depth|)."""
    for k in range(len(depth)):
        tail[k] = (1.0 if depth[k] >= 0.0 else tail[k]) / (1.0 + tail[k])


@numba.njit(error_model="numpy")
def _drags(load, square, drag):
    for k in range(len(load)):
        drag[k] = load[k] / math.sqrt(square[k])


@numba.njit(error_model="numpy")
def _pushes(load, drag, speed, friction):
    """What pushes along the normals, into ``speed``: the load, and what of friction the mean drag
    leaves out."""
    for k in range(len(load)):
        speed[k] = load[k] + friction * drag[k] * speed[k]


@numba.njit(error_model="numpy")
def _laws(edges, count, c, window, kind):
    """The force law of points and planes, of which ``edges`` holds share, −φ/ε3, v_n and ‖v_t‖² +
    v_s², without k and ε3."""
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
    _onsets(depth, tail, load)
    for k in range(len(depth)):
        if -depth[k] > window[0]:
            load[k] *= _left(-depth[k], window)
    _rises(depth, tail)
    _brakes(speed, 1.0 / c[SEPARATION], kind, brake, slope)
    _times(tail, brake)
    _times(tail, much)
    _times(load, much)
    _times(slope, load)
    _times(load, brake)
    _drags(load, square, brake)
    _pushes(load, brake, speed, c[FRICTION])


@numba.njit(error_model="numpy")
def _keep(other, span, e, whole, c, of):
    """Only planes with a share of points with a share from here on: shares of points become those
    of all, and what :func:`_laws` takes."""
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


@numba.njit(error_model="numpy")
def _gather_up(other, R, span, c, of):
    """Sum what the planes do to points after :func:`_laws`; force and normal in the axes in which
    the planes' frame has the axes R.

    Returns:
        Mean distance, mean load.
    """
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


@numba.njit(error_model="numpy")
def _sum_up(sign, R, p, of, shift, sums):
    """Add what points, and the span ``of`` them, feel, seen from a frame in which the planes' one
    has the pose (R, p).

    ``sums`` are the wrench, that of the mean normal, K, D, each a row of six after the other, and a
    row of scratch.
    """
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


@numba.njit(error_model="numpy")
def _finish(sums, shift, results, at):
    """The pair's sums, with K without what the mean normal takes, and both matrices whole, into the
    results' row ``at``."""
    for i in range(6):
        results[0][at, i] = sums[0, i]
        for j in range(i + 1):
            results[1][at, i, j] = results[1][at, j, i] = sums[2 + i, j] - shift * sums[1, i] * sums[1, j]
            results[2][at, i, j] = results[2][at, j, i] = sums[8 + i, j]


@numba.njit(error_model="numpy")
def store(points, edges):
    """Scratch for so many points, and so many of them with one of their planes each."""
    return (
        np.empty((POINT_ROWS, points)),
        np.empty((EDGE_ROWS, edges)),
        np.empty(edges, np.int32),
        np.empty(points + 1, np.int32),
    )


@numba.njit(error_model="numpy")
def gather(bodies, found, moving, eps1, into, at):
    """Take candidates, and the planes that they meet.

    Args:
        bodies: rows of the points' body, and of the planes' body.
        found: how many candidates, how near one has to be, and
            :func:`~dexengines.soft.near.candidates` themselves.
        moving: pose and twist of the points' body in the planes' frame.
        into: a :func:`store`.
        at: how many points and planes of it are taken.

    Returns:
        How many of both are taken then.
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


@numba.njit(error_model="numpy")
def feel(bodies, frames, law, counts, of, into):
    """What a pair of bodies feels.

    Args:
        bodies: rows of both, and their links.
        frames: all links' R and p.
        law: the pair's numbers, windows and kind of dissipation.
        counts: points of ``of``, a :func:`store`: of the first body, of both.
        into: results (wrench on the second body, stiffness, damping, about the world's origin, and
            distance, of all pairs), and the row.
    """
    (rows_a, rows_b, a, b), (R, p), (c, windows, kind), (first, count) = bodies, frames, law, counts
    points, edges, _, begins = of
    planes_fade, far, much, depth = windows[PLANES], edges[FAR], edges[HOW_MUCH], edges[DEPTH]
    _exps(far[: begins[count]], much)
    for n in range(count):
        low, high = begins[n], begins[n + 1]
        points[WHOLE, n] = 1.0 / _faded(far, much, low, high, planes_fade)
        points[FIELD, n] = _dot(much, depth, low, high) * points[WHOLE, n]
    least = points[FIELD, :count].min()
    for n in range(count):
        points[LOGIT, n] = (least - points[FIELD, n]) / c[EPS2]
    _exps(points[LOGIT, :count], points[SHARE])
    whole = 1.0 / _faded(points[LOGIT], points[SHARE], 0, count, windows[POINTS])
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
