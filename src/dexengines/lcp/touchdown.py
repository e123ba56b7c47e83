"""What meets at a time of impact, and when exactly.

Conservative advancement ends somewhere between a floor and a little above it: safe, but as a
function of the state it jumps with every change of its steps. Which two features meet is known by
then, and their gap is a smooth function of time: the impact is put where it equals a target just
above the end of the search. That lies back in time, where no pair meets: it need not be searched
again.
"""

from __future__ import annotations

import math

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.distance import separation
from dexengines.lcp.dynamics import integrate, kinematics
from dexengines.lcp.features import gap_of_features
from dexengines.lcp.pairs import NO_FEATURE, contacts_of_pair
from dexengines.lcp.record import NONE
from dexengines.lcp.rows import point_row
from dexengines.lcp.vectors import fill

TARGET = 1.1
"""Gap of the two features at an impact, as a multiple of the pair's floor; more than the search
leaves (:data:`.ccd.END`)."""
LEAST = 2.0**-42
"""Least separation at which a pair touches [m], above what rounding makes of distances."""
ROUNDS = 10
"""Most of Newton's steps towards it."""
ROUNDING = 1e-14
"""By how much the gap may miss the target where they no longer help [m]."""


@inner
def floor_below(floor, gap):
    """The separation at which a pair touches: ``floor``, or a power of two of at most half its
    present gap where that is less.

    A step function of the gap, so that an impact's gap has no derivative.
    """
    if floor <= 0.5 * gap:
        return floor
    return max(math.ldexp(1.0, math.frexp(0.5 * gap)[1] - 1), min(LEAST, 0.9 * gap))


@inner
def normal_speed(tree, shapes, m, feature, data, v, row):
    """Gap of one contact, and its rate at velocities v."""
    n, c = np.empty(3), np.empty(3)
    ba, bb = shapes.body[feature[0]], shapes.body[feature[1]]
    gap = gap_of_features(feature[2], feature[3], data, m.R[ba], m.p[ba], m.R[bb], m.p[bb], n, c)
    fill(row, 0.0)
    point_row(tree, m.S, bb, c, n, 1.0, row)
    point_row(tree, m.S, ba, c, n, -1.0, row)
    return gap, np.dot(row, v)


@inner
def touchdown(tree, shapes, k, floor, q, u, s, axis, m, at, tape, first, row):
    """Features of pair k that meet, and the time at which their gap equals the target.

    Args:
        floor: at which the pair touches [m]; s: end of the search for it [s].
        q, u: start, and velocities that stay constant. axis: (3,) direction of separation.
        m: poses at s; at: (Q,) configuration there; both go to the time found.
        tape: contacts are written from ``first`` on. row: (V,) room.

    Returns:
        The time; which contact met; one past the last contact, more than there is room for where
        the room was too small; whether the time is that of the target.
    """
    a, b = shapes.pairs[k]
    ba, bb = shapes.body[a], shapes.body[b]
    gap = separation(shapes, a, b, m.R[ba], m.p[ba], m.R[bb], m.p[bb], axis, np.inf)
    end = contacts_of_pair(shapes, k, a, b, m.R, m.p, axis, gap, gap + 1e-9, tape.feature, tape.data, first)
    if end > tape.feature.shape[0]:
        return s, NONE, end, False
    best, which = np.inf, first
    for j in range(first, end):
        g, _ = normal_speed(tree, shapes, m, tape.feature[j], tape.data[j], u, row)
        if abs(g - gap) < best:
            best, which = abs(g - gap), j
    t, last = s, np.inf
    for _ in range(ROUNDS):
        g, rate = normal_speed(tree, shapes, m, tape.feature[which], tape.data[which], u, row)
        error = abs(g - TARGET * floor)
        if error >= 0.5 * last:  # no better than rounding
            return t, which, end, last <= ROUNDING and tape.feature[which, 5] != NO_FEATURE
        last = error
        step = t + (TARGET * floor - g) / rate if rate < 0.0 else np.inf
        if not 0.0 < step <= s:
            break
        t = step
        integrate(tree, q, u, t, at)
        kinematics(tree, at, m)
    integrate(tree, q, u, s, at)
    kinematics(tree, at, m)
    return s, which, end, False
