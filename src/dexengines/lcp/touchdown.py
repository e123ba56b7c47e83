"""Features that meet at a time of impact, and the exact time.

Conservative advancement ends somewhere between a floor and a little above it: safe, but as a
function of the state it jumps with every change of its steps. The two features that meet are known
by then, and their gap is a smooth function of time: the impact is put where it equals a target just
above the end of the search. That lies back in time, where no pair meets, and need not be searched
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
from dexengines.lcp.rows import pair_row
from dexengines.lcp.vectors import fill

TARGET = 1.1
"""Gap of the two features at an impact, as a multiple of the pair's floor; more than the search
leaves (:data:`.ccd.END`)."""
LEAST = 2.0**-42
"""Least separation at which a pair touches [m], above the rounding errors of distances."""
ROUNDS = 10
"""Most Newton steps towards the target."""
ROUNDING = 1e-14
"""Error of the gap that is accepted where further steps do not reduce it [m]."""


@inner
def floor_below(floor, gap):
    """Return the separation at which a pair touches: ``floor``, or a power of two of at most half
    its present gap where that is less.

    A step function of the gap, so that an impact's gap has no derivative.
    """
    if floor <= 0.5 * gap:
        return floor
    return max(math.ldexp(1.0, math.frexp(0.5 * gap)[1] - 1), min(LEAST, 0.9 * gap))


@inner
def normal_speed(tree, shapes, m, feature, data, v, row):
    """Return the gap of one contact and its rate at velocities v; ``row`` (V,) receives its normal
    row."""
    place, ba, bb = np.empty(6), shapes.body[feature[0]], shapes.body[feature[1]]
    gap = gap_of_features(
        feature[2], feature[3], data, m.R[ba], m.p[ba], m.R[bb], m.p[bb], place[:3], place[3:]
    )
    fill(row, 0.0)
    pair_row(tree, m.S, ba, bb, place, row)
    return gap, np.dot(row, v)


@inner
def touchdown(tree, shapes, k, floor, q, u, s, axis, m, at, tape, first, row):
    """Find the features of pair k that meet, and the time at which their gap equals the target.

    Args:
        floor: separation at which the pair touches [m]; s: end of the search for it [s].
        q, u: start, and velocities that stay constant. axis: (3,) direction of separation.
        m: poses at s; at: (Q,) configuration there; both are moved to the time found.
        tape: contacts are written from ``first`` on. row: (V,) scratch.

    Returns:
        The time; the contact that met; one past the last contact, more than there is room for where
        the tape is full; True if the time is that of the target.
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
