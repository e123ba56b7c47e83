"""Continuous collision detection by conservative advancement, exact for rigid motion: joints move
straight, free bodies on screws.

Along a fixed direction every corner x of a hull moves at least n·x + t n·ẋ − ½ t² K, K being a
bound of its acceleration on the path. The separation is therefore at least a concave function of t,
whose root is found from the safe side.
"""

from __future__ import annotations

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.distance import level, separation
from dexengines.lcp.dynamics import integrate, kinematics, twists
from dexengines.lcp.record import EVALUATIONS
from dexengines.lcp.vectors import cross, crossed, dot, fill, minus, plus, put, rotated, times

ROUNDING = 2e-15
"""Rounding error of the bound [m]."""
END = 1.05
"""Multiple of the pair's floor at which the search for an impact ends."""
MOST_EVALUATIONS = 2000
"""Evaluations of one pair after which its last safe time counts as an impact."""


@inner
def acceleration_bound(tree, shapes, m, g, u, h):
    """Return a bound of the acceleration of any corner of geometry g [m/s²] while the velocities u
    stay constant for a time h, from the poses m."""
    b = shapes.body[g]
    R, p, c, S = m.R[b], m.p[b], shapes.centre[g], m.S
    x = p[0] + R[0, 0] * c[0] + R[0, 1] * c[1] + R[0, 2] * c[2]
    y = p[1] + R[1, 0] * c[0] + R[1, 1] * c[1] + R[1, 2] * c[2]
    z = p[2] + R[2, 0] * c[0] + R[2, 1] * c[1] + R[2, 2] * c[2]
    core = shapes.reach[g] - shapes.radius[g]
    outer, k = 0.0, tree.last_dof[b]
    while k >= 0:  # total angular speed of the chain
        s = S[k]
        if s[0] != 0.0 or s[1] != 0.0 or s[2] != 0.0:
            outer += abs(u[k])
        k = tree.dof_parent[k]
    bound, moved, k = 0.0, 0.0, tree.last_dof[b]
    while k >= 0:  # from the inside out: d²x/dq_i dq_j is at most the distance from the inner axis
        s, speed = S[k], abs(u[k])
        if s[0] != 0.0 or s[1] != 0.0 or s[2] != 0.0:
            outer -= speed
            vx, vy, vz = s[3] + s[1] * z - s[2] * y, s[4] + s[2] * x - s[0] * z, s[5] + s[0] * y - s[1] * x
            lever = np.sqrt(vx * vx + vy * vy + vz * vz) + core + moved
            bound += speed * lever * (speed + 2.0 * outer)
            moved += h * speed * lever
        else:
            bound += 2.0 * speed * outer
            moved += h * speed
        k = tree.dof_parent[k]
    return bound


@inner
def closing_bound(shapes, m, g, u, h, K):
    """Return a bound of how far the geometry's centre goes within h [m]."""
    b, c = shapes.body[g], shapes.centre[g]
    V = m.V[b]
    x, y, z = m.p[b, 0], m.p[b, 1], m.p[b, 2]
    R = m.R[b]
    x += R[0, 0] * c[0] + R[0, 1] * c[1] + R[0, 2] * c[2]
    y += R[1, 0] * c[0] + R[1, 1] * c[1] + R[1, 2] * c[2]
    z += R[2, 0] * c[0] + R[2, 1] * c[1] + R[2, 2] * c[2]
    vx, vy, vz = V[3] + V[1] * z - V[2] * y, V[4] + V[2] * x - V[0] * z, V[5] + V[0] * y - V[1] * x
    return h * np.sqrt(vx * vx + vy * vy + vz * vz) + 0.5 * h * h * K


@inner
def _extreme(shapes, m, g, V, n, sign, t):
    """Return the linearised height along ``sign`` times n of the point of g's core that is farthest
    after t at twist V: its value at 0 and its slope in t."""
    b = shapes.body[g]
    R, p, vertex = m.R[b], m.p[b], shapes.vertex
    n0, n1, n2 = sign * n[0], sign * n[1], sign * n[2]
    # n·(v + ω × x) = n·v + x·(n × ω)
    w0, w1, w2 = n1 * V[2] - n2 * V[1], n2 * V[0] - n0 * V[2], n0 * V[1] - n1 * V[0]
    d0, e0 = n0 * R[0, 0] + n1 * R[1, 0] + n2 * R[2, 0], w0 * R[0, 0] + w1 * R[1, 0] + w2 * R[2, 0]
    d1, e1 = n0 * R[0, 1] + n1 * R[1, 1] + n2 * R[2, 1], w0 * R[0, 1] + w1 * R[1, 1] + w2 * R[2, 1]
    d2, e2 = n0 * R[0, 2] + n1 * R[1, 2] + n2 * R[2, 2], w0 * R[0, 2] + w1 * R[1, 2] + w2 * R[2, 2]
    x0 = n0 * p[0] + n1 * p[1] + n2 * p[2]
    s0 = w0 * p[0] + w1 * p[1] + w2 * p[2] + n0 * V[3] + n1 * V[4] + n2 * V[5]
    best, value, slope = -np.inf, 0.0, 0.0
    for k in range(shapes.vertex_start[g], shapes.vertex_start[g + 1]):
        x = x0 + d0 * vertex[k, 0] + d1 * vertex[k, 1] + d2 * vertex[k, 2]
        s = s0 + e0 * vertex[k, 0] + e1 * vertex[k, 1] + e2 * vertex[k, 2]
        if x + t * s > best:
            best, value, slope = x + t * s, x, s
    if shapes.disc[g] > 0.0:  # ρ |P(d + t e)| with P across the axis
        a, rho = shapes.axis[g], shapes.disc[g]
        da, ea = d0 * a[0] + d1 * a[1] + d2 * a[2], e0 * a[0] + e1 * a[1] + e2 * a[2]
        e0, e1, e2 = e0 - ea * a[0], e1 - ea * a[1], e2 - ea * a[2]
        d0, d1, d2 = d0 - da * a[0] + t * e0, d1 - da * a[1] + t * e1, d2 - da * a[2] + t * e2
        across = np.sqrt(d0 * d0 + d1 * d1 + d2 * d2)
        if across > 0.0:
            s = rho * (d0 * e0 + d1 * e1 + d2 * e2) / across
            value, slope = value + rho * across - t * s, slope + s
    return value, slope


@inner
def _bound(shapes, m, a, b, Va, Vb, n, K, t):
    """Return a lower bound of the separation along n after t, and its slope."""
    vb, sb = _extreme(shapes, m, b, Vb, n, -1.0, t)
    if shapes.is_plane[a]:
        point = shapes.vertex[shapes.vertex_start[a]]
        va, sa = dot(n, point), 0.0
    else:
        va, sa = _extreme(shapes, m, a, Va, n, 1.0, t)
    rounding = shapes.radius[a] + shapes.radius[b]
    return -vb - va - rounding - t * (sa + sb) - 0.5 * K * t * t, -(sa + sb) - K * t


@inner
def safe_time(shapes, m, a, b, Va, Vb, n, K, target, rest):
    """Return a time, near the largest, within which the separation along n stays above ``target``;
    at most ``rest``.

    Args:
        Va, Vb: (6,) twists of a and b in a frame in which n is fixed.
        K: sum of the bounds of their points' accelerations in that frame.
    """
    high, slope = _bound(shapes, m, a, b, Va, Vb, n, K, rest)
    if high >= target:
        return rest
    low, _ = _bound(shapes, m, a, b, Va, Vb, n, K, 0.0)
    if low <= target:
        return 0.0
    left, right = 0.0, rest
    low, high = low - target, high - target
    for _ in range(16):
        # the parabola of the corners lowest at `right` lies above the minimum over all: its root is
        # not left of theirs
        linear = slope + K * right
        value = high - right * (linear - 0.5 * K * right)
        root = np.sqrt(linear * linear + 2.0 * K * max(value, 0.0))
        t = right
        if linear < 0.0:
            t = 2.0 * value / (root - linear)
        elif K > 0.0:
            t = (linear + root) / K
        if left < t < right:
            right = t
        high, slope = _bound(shapes, m, a, b, Va, Vb, n, K, right)
        high -= target
        if high >= -ROUNDING:
            return right
        t = left + (right - left) * low / (low - high)  # the chord's root lies left of it
        value, _ = _bound(shapes, m, a, b, Va, Vb, n, K, t)
        if value - target >= -ROUNDING:
            left, low = t, max(value - target, 0.0)
        if right - left <= 1e-3 * left:
            break
    return left


@inner
def _turn(shapes, m, a, b, n, depth, turn):
    """Write the angular velocity, across n, at which n stays normal to the nearest face or edges;
    return False if there are none."""
    wa, wb = m.V[shapes.body[a], :3], m.V[shapes.body[b], :3]
    e, f, rate = np.zeros(3), np.zeros(3), np.zeros(3)
    on_a = level(shapes, a, m.R[shapes.body[a]], n, 1.0, depth, e)
    on_b = level(shapes, b, m.R[shapes.body[b]], n, -1.0, depth, f)
    if on_a == 3:
        cross(wa, n, rate)
    elif on_b == 3:
        cross(wb, n, rate)
    else:  # the least rate of n with rate·e = −n·(ω × e) on both edges
        ea, eb = -dot(n, crossed(wa, e)), -dot(n, crossed(wb, f))
        ee, ef, ff = dot(e, e), dot(e, f), dot(f, f)
        D = ee * ff - ef * ef
        if on_a == 2 and on_b == 2 and 1e-6 * ee * ff < D:
            for i in range(3):
                rate[i] = ((ff * ea - ef * eb) * e[i] + (ee * eb - ef * ea) * f[i]) / D
        elif on_a == 2:
            put(rate, times(ea / ee, e))
        elif on_b == 2:
            put(rate, times(eb / ff, f))
        else:
            return False
    cross(n, rate, turn)
    return True


@inner
def turning_time(shapes, m, a, b, n, Ka, Kb, target, rest):
    """As :func:`safe_time`, with a direction that turns with the nearest face or edges; corners of
    a face leave a fixed one.

    In a frame that moves with w and turns with Ω about o, points of a body have the velocities
    ẋ − w − Ω × (x − o), and their accelerations are greater by at most
    2 |Ω| |ẋ − w| + |Ω|² |x − o − w t|.
    """
    turn, o, w, x = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    low, _ = _bound(shapes, m, a, b, m.V[shapes.body[a]], m.V[shapes.body[b]], n, 0.0, 0.0)
    if low <= target or not _turn(shapes, m, a, b, n, 10.0 * low, turn):
        return 0.0
    omega = np.sqrt(dot(turn, turn))
    h = min(rest, 0.1 / (omega + 1e-300))
    Va, Vb = m.V[shapes.body[a]].copy(), m.V[shapes.body[b]].copy()
    put(o, plus(m.p[shapes.body[b]], rotated(m.R[shapes.body[b]], shapes.centre[b])))
    put(w, plus(Vb[3:], crossed(Vb[:3], o)))
    K = Ka + Kb
    for i in range(2):
        g, V, k = (a, Va, Ka) if i == 0 else (b, Vb, Kb)
        put(x, minus(plus(m.p[shapes.body[g]], rotated(m.R[shapes.body[g]], shapes.centre[g])), o))
        away = np.sqrt(dot(x, x)) + shapes.reach[g]
        put(x, minus(plus(V[3:], crossed(V[:3], plus(x, o))), w))
        speed = np.sqrt(dot(x, x)) + np.sqrt(dot(V[:3], V[:3])) * shapes.reach[g] + k * h
        K += 2.0 * omega * speed + omega * omega * (away + h * speed)
        shift = minus(crossed(turn, o), w)
        for j in range(3):
            V[j] -= turn[j]
            V[3 + j] += shift[j]
    return safe_time(shapes, m, a, b, Va, Vb, n, K, target, h)


@inner
def time_of_impact(tree, shapes, near, pairs, axis, q, u, h, m, at, counts):
    """Find the first time at which one of the first ``pairs`` pairs of ``near`` comes down to its
    floor, which is negative for pairs that overlap.

    Args:
        axis: (P, 3) directions of separation, first guesses, kept up to date.
        q: (Q,); u: (V,) velocities that stay constant. m: the motion at q, overwritten.
        at: (Q,) written: the end of the path; m has its poses where a pair touches.
        counts: evaluations are added.

    Returns:
        The time and the entry of ``near`` that touches; h and −1 if none does.
    """
    until, tried, now = near.until, np.zeros(pairs, np.int64), 0.0
    fill(until, 0.0)
    twists(tree, u, m)
    while True:
        first, s = -1, h
        for i in range(pairs):
            if until[i] < s:
                first, s = i, until[i]
        if first < 0:
            integrate(tree, q, u, h, at)
            return h, -1
        if s != now:
            integrate(tree, q, u, s, at)
            kinematics(tree, at, m)
            twists(tree, u, m)
            now = s
        a, b = shapes.pairs[near.pair[first]]
        n, gap, floor = axis[near.pair[first]], near.gap[first], near.floor[first]
        if tried[first] > 0:
            ba, bb = shapes.body[a], shapes.body[b]
            gap = separation(shapes, a, b, m.R[ba], m.p[ba], m.R[bb], m.p[bb], n, np.inf)
            counts[EVALUATIONS] += 1
        tried[first] += 1
        if (s > 0.0 and gap <= floor + (END - 1.0) * abs(floor)) or tried[first] > MOST_EVALUATIONS:
            return s, first
        Va, Vb = m.V[shapes.body[a]], m.V[shapes.body[b]]
        Ka, Kb = near.acceleration[a], near.acceleration[b]
        step = safe_time(shapes, m, a, b, Va, Vb, n, Ka + Kb, floor, h - s)
        if tried[first] > 2 and step < 0.5 * (h - s) and not shapes.is_plane[a]:
            step = max(step, turning_time(shapes, m, a, b, n, Ka, Kb, floor, h - s))
        if step >= h - s:
            until[first] = h
        elif step <= 1e-15 * h:
            return s, first
        else:
            until[first] = s + step
