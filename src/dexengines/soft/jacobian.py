"""Jacobians of the wrench of a pair of bodies by their poses, twists, friction and stiffness, in
one pass over the near set.

:mod:`~dexengines.soft.law`, differentiated by hand. For a point at y, with velocity V, in the frame
of the planes k:

    f = Σ_k L_k g_k,   g_k = n_k − μ r_k t_k,   r_k = 1/√(v_s² + ‖t_k‖²),   t_k = V − v_k n_k
    ∂f/∂y = Σ_k g_k ⊗ [2/ε1 L_k (c_k − c̄) − (∂L_k/∂depth)/ε3 n_k],   c̄ = Σ_k s_k c_k
    ∂f/∂V = Σ_k {(∂L_k/∂v_k) g_k ⊗ n_k − μ L_k r_k [1 − n_k ⊗ n_k − r_k² t_k ⊗ t_k]}
    ∂f/∂μ = −Σ_k L_k r_k t_k
    ∂Φ/∂y = Σ_k s_k [n_k + 2/ε1 (φ_k − Φ) c_k],   ∂w/w = −(∂Φ − Σ w ∂Φ)/ε2

The slopes of the windows are neglected: shares and forces there are below the tolerance.
"""

from __future__ import annotations

import math

import numpy as np

from dexengines.kernels import inner
from dexengines.soft.law import (
    DEPTH,
    EPS1,
    EPS2,
    EPS3,
    FIELD,
    FRICTION,
    HOW_MUCH,
    NOTHING,
    RISE,
    SEPARATION,
    SHARE,
    SLOPE,
    SMOOTH,
    STICTION,
    STIFFNESS,
    TAIL,
    V,
    Y,
)

BY_FRICTION, BY_STIFFNESS, WIDTH = 18, 19, 20
"""Columns after those of displacements of the first and the second link and of their relative
twist, each linear, then angular, about the world's origin and in its axes."""
TWIST, WRENCH, FIELDS, RUBS = 6, 12, 13, 14
"""Rows of the sums of one side, of points against fixed planes, after six by displacement: six by
twist, wrench, w ∂Φ, wrench by friction."""
BY_VELOCITY, SLOPES, FORCE, RUB = 3, 6, 7, 8
"""Rows of a point, after three of ∂f/∂y: ∂f/∂V, ∂Φ/∂y, f, ∂f/∂μ."""


@inner
def scratch():
    """Return scratch: sums of both sides, numbers of one point and of one of its planes."""
    return np.empty((15, 6)), np.empty((15, 6)), np.empty((9, 3)), np.empty((5, 3))


@inner
def _point(other, n, c, kind, points, edges, planes, begins, known, e):
    """Write the derivatives of a point, in the planes' frame, to ``known``; ``e`` is scratch.

    Functions called for every point take their arrays one by one, as references to a tuple's
    members are counted.
    """
    known[:], e[:] = 0.0, 0.0
    mu, narrow, per_depth, per_speed = c[FRICTION], 2.0 / c[EPS1], 1.0 / c[EPS3], 1.0 / c[SEPARATION]
    slow, drags = c[STICTION] ** 2, 0.0
    for k in range(begins[n], begins[n + 1]):
        m, share, load = planes[k], edges[HOW_MUCH, k], edges[RISE, k]
        v_n = other[m, 3] * points[V, n] + other[m, 4] * points[V + 1, n] + other[m, 5] * points[V + 2, n]
        square = slow
        for i in range(3):
            e[0, i], e[1, i] = (
                other[m, 3 + i],
                other[m, i] - points[Y + i, n],
            )  # normal; place, from the point
            e[2, i] = points[V + i, n] - v_n * e[0, i]  # along the plane
            square += e[2, i] * e[2, i]
        rub = 1.0 / math.sqrt(square)
        slip = mu * rub
        spring, slope, drag = edges[TAIL, k] * per_depth, edges[SLOPE, k] * per_speed, load * slip
        if kind == SMOOTH and v_n > 0.0:
            s = min(0.5 * v_n * per_speed, 1.0)
            slope *= (1.0 - s) * (1.0 + 2.0 * s)  # the step's own slope is 1 − s
        slide, deep = drag / square, narrow * share * (-edges[DEPTH, k] * c[EPS3] - points[FIELD, n])
        for i in range(3):
            e[3, i] = e[0, i] - slip * e[2, i]
            e[4, i] += share * e[1, i]
            known[SLOPES, i] += share * e[0, i] + deep * e[1, i]
            known[FORCE, i] += load * e[3, i]
            known[RUB, i] -= load * rub * e[2, i]
        for i in range(3):
            for j in range(3):
                known[i, j] += e[3, i] * (narrow * load * e[1, j] - spring * e[0, j])
                known[BY_VELOCITY + i, j] += (
                    drag * e[0, i] * e[0, j] + slide * e[2, i] * e[2, j] - slope * e[3, i] * e[0, j]
                )
        drags += drag
    scale = c[STIFFNESS] * c[EPS3]
    for i in range(3):
        known[BY_VELOCITY + i, i] -= drags
        for j in range(3):
            known[i, j] = scale * (known[i, j] - narrow * known[FORCE, i] * e[4, j])
            known[BY_VELOCITY + i, j] *= scale
    for i in range(3):
        known[FORCE, i] *= scale
        known[RUB, i] *= scale


@inner
def _add(sums, first, w, y, known, row):
    """Add w Cᵀ A C, where A are three rows of ``known`` and C = (1, −[y]) maps a displacement, or a
    twist, to that of the place y."""
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        for m in range(3):
            n, o = (m + 1) % 3, (m + 2) % 3
            sums[first + i, m] += w * known[row + i, m]
            sums[first + i, 3 + m] += w * (y[n] * known[row + i, o] - y[o] * known[row + i, n])
            sums[first + 3 + i, m] += w * (y[j] * known[row + k, m] - y[k] * known[row + j, m])
            sums[first + 3 + i, 3 + m] += w * (
                y[j] * (y[n] * known[row + k, o] - y[o] * known[row + k, n])
                - y[k] * (y[n] * known[row + j, o] - y[o] * known[row + j, n])
            )


@inner
def _side(other, span, law, spin, of, sums, known, e):
    """Write the sums of the points of one side against planes ``other``, in whose frame they turn
    with the angular velocity ``spin``.

    Args:
        law: the pair's numbers and kind of dissipation.
        of: points, edges, planes and begins, as :func:`~dexengines.soft.law.feel` leaves them.
    """
    (c, kind), (points, edges, planes, begins) = law, of
    sums[:] = 0.0
    for n in range(*span):
        w = points[SHARE, n]
        if w < NOTHING:
            continue
        _point(other, n, c, kind, points, edges, planes, begins, known, e)
        y, f, g, h, both = e[0], known[FORCE], known[SLOPES], known[RUB], e[1]
        for i in range(3):
            y[i] = points[Y + i, n]
        for i in range(3):  # a displaced point has the velocity of its new place
            row = known[BY_VELOCITY + i]
            for m in range(3):
                j, k = (m + 1) % 3, (m + 2) % 3
                known[i, m] += row[j] * spin[k] - row[k] * spin[j]
        _add(sums, 0, w, y, known, 0)
        _add(sums, TWIST, w, y, known, BY_VELOCITY)
        along = f[0] * y[0] + f[1] * y[1] + f[2] * y[2]
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            sums[3 + i, j] += w * f[k]
            sums[3 + i, k] -= w * f[j]
            sums[3 + i, 3 + i] -= w * along
            for m in range(3):
                sums[3 + i, 3 + m] += w * y[i] * f[m]
            sums[WRENCH, i] += w * f[i]
            sums[FIELDS, i] += w * g[i]
            sums[RUBS, i] += w * h[i]
            sums[WRENCH, 3 + i] += w * (y[j] * f[k] - y[k] * f[j])
            sums[FIELDS, 3 + i] += w * (y[j] * g[k] - y[k] * g[j])
            sums[RUBS, 3 + i] += w * (y[j] * h[k] - y[k] * h[j])
            both[i] = w / c[EPS2] * (y[j] * f[k] - y[k] * f[j])
            e[2, i] = y[j] * g[k] - y[k] * g[j]
        for i in range(3):
            for m in range(3):
                sums[i, m] -= w / c[EPS2] * f[i] * g[m]
                sums[i, 3 + m] -= w / c[EPS2] * f[i] * e[2, m]
                sums[3 + i, m] -= both[i] * g[m]
                sums[3 + i, 3 + m] -= both[i] * e[2, m]


@inner
def _carry(x, R, p, e):
    """Transform a wrench from a frame with the pose (R, p) to the outer one, in place."""
    for i in range(3):
        e[0, i] = R[i, 0] * x[0] + R[i, 1] * x[1] + R[i, 2] * x[2]
        e[1, i] = R[i, 0] * x[3] + R[i, 1] * x[4] + R[i, 2] * x[5]
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        x[i] = e[0, i]
        x[3 + i] = e[1, i] + p[j] * e[0, k] - p[k] * e[0, j]


@inner
def _carry_all(sums, R, p, e):
    for row in sums:
        _carry(row, R, p, e)
    for first in (0, TWIST):
        for k in range(6):
            _carry(sums[first : first + 6, k], R, p, e)


@inner
def _turn_along(sums, wrench, twist, into):
    """Add the change of a wrench by a displacement of both bodies that keeps their ``twist``."""
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        for axis in ((i, j, 1.0), (j, i, -1.0)):
            m, n, s = axis  # −[a] has s a_n at (k, m)
            into[k, 3 + m] += s * wrench[n]
            into[3 + k, m] += s * wrench[n]
            into[3 + k, 3 + m] += s * wrench[3 + n]
            for row in range(6):
                by = sums[TWIST + row]
                into[row, m] -= s * by[k] * twist[3 + n]
                into[row, 3 + m] -= s * (by[k] * twist[n] + by[3 + k] * twist[3 + n])


@inner
def by_motion(bodies, frames, law, counts, spins, of, into):
    """Write the Jacobian (6, WIDTH) of a pair of bodies, after :func:`~dexengines.soft.law.feel`.

    Args:
        bodies: rows of both, and their links.
        frames: all links' R, p and twists.
        law: the pair's numbers and kind of dissipation.
        counts: points of ``of``: of the first body, of both.
        spins: angular velocity of the first body in the second's frame, of the second in the
            first's.
        into: :func:`scratch`, and the result.
    """
    (rows_a, rows_b, a, b), (R, p, twist), (c, _), (first, count) = bodies, frames, law, counts
    (sums_a, sums_b, known, e), result = into
    _side(rows_b, (0, first), law, spins[0], of, sums_a, known, e)
    _side(rows_a, (first, count), law, spins[1], of, sums_b, known, e)
    _carry_all(sums_a, R[b], p[b], e)
    _carry_all(sums_b, R[a], p[a], e)
    moving = twist[b] - twist[a]
    place, twists = result[:, 6:12], result[:, 12:18]
    place[:] = sums_a[:6] + sums_b[:6]
    wrench_a = -sums_a[WRENCH]
    _turn_along(sums_a, wrench_a, moving, place)  # its points see the second body fixed
    wrench, fields = sums_b[WRENCH] + wrench_a, sums_b[FIELDS] - sums_a[FIELDS]
    for i in range(6):
        result[i, BY_FRICTION] = sums_b[RUBS, i] - sums_a[RUBS, i]
        result[i, BY_STIFFNESS] = wrench[i] / c[STIFFNESS]
        for j in range(6):
            place[i, j] += wrench[i] * fields[j] / c[EPS2]
            sums_a[TWIST + i, j] += sums_b[TWIST + i, j]
            twists[i, j] = sums_a[TWIST + i, j]
            result[i, j] = -place[i, j]
    _turn_along(sums_a, wrench, moving, result)
