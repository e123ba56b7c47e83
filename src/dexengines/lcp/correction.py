"""Corrections of a substep's LCP: the curvature of gaps, which rows linear in time leave out, and
the push that opens contacts whose gap is too small."""

from __future__ import annotations

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.distance import separation
from dexengines.lcp.dynamics import integrate, kinematics
from dexengines.lcp.features import gap_of_features
from dexengines.lcp.vectors import fill

LOST = 5e-7
"""Gap below which a contact is pushed open again [m]."""
PUSH = 0.1
"""Greatest speed at which geometries that overlap, or nearly do, are pushed apart [m/s]. The push
moves them and is no part of their velocity."""
FULL_PUSH, LAST_PUSH = 100, 101
"""In place of a part: a row pushed at that speed; one pushed at the speed that its depth and the
time that is left ask for."""
PARTS = (1.0, 2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-10, 2.0**-12)
"""Parts of a move after which the curvature of gaps is evaluated."""


@inner
def _curvature(world, m, tape, rows, k, r, velocity, t, n):
    """Return the gap of contact k after t, and the speed at which it closes on average beyond that
    of its row r; n (3,) receives the normal."""
    shapes, feature = world.shapes, tape.feature[k]
    ba, bb = shapes.body[feature[0]], shapes.body[feature[1]]
    end = gap_of_features(
        feature[2], feature[3], tape.data[k], m.R[ba], m.p[ba], m.R[bb], m.p[bb], n, np.empty(3, n.dtype)
    )
    rate = (end - rows.gap[r]) / t
    for j in range(velocity.size):
        rate -= rows.J[r, j] * velocity[j]
    return end, rate


@inner
def _bodies_meet(shapes, m, feature, n, least):
    """Return whether two geometries are closer than ``least``. The lines and planes of two features
    meet anywhere, the bodies only where these end."""
    a, b = feature[0], feature[1]
    ba, bb = shapes.body[a], shapes.body[b]
    return separation(shapes, a, b, m.R[ba], m.p[ba], m.R[bb], m.p[bb], n, np.inf) < least


@inner
def find_curvature(world, m, tape, rows, q, velocity, h, at, longest, part, lift):
    """Find contacts whose bodies would meet within h because they turn.

    Args:
        m: poses, overwritten. at: (Q,) scratch.
        longest: index of the first of :data:`PARTS` that is evaluated.
        part: (n,) written: index of the part after which the curvature of each row is greatest, or
            −1.
        lift: (n,) correction of b, not positive; lowered further.

    Returns:
        True if there are any.
    """
    n, found = np.empty(3), False
    fill(part, -1)
    for i in range(longest, len(PARTS)):  # edges that cross may have met and parted by the end
        integrate(world.tree, q, velocity, PARTS[i] * h, at)
        kinematics(world.tree, at, m)
        r = 0
        for k in range(rows.first, rows.last):
            end, rate = _curvature(world, m, tape, rows, k, r, velocity, PARTS[i] * h, n)
            gap = rows.gap[r]
            least = 0.5 * min(gap, rows.rest[r])
            closes = gap > 0.0 and rate < lift[r] and end < least
            if closes and _bodies_meet(world.shapes, m, tape.feature[k], n, least):
                lift[r], part[r], found = rate, i, True
            r += 1
            while r < rows.owner.size and rows.owner[r] >= 0:
                r += 1
    return found


@inner
def find_pushes(rows, velocity, h, part, lift):
    """Find rows of contacts that overlap, or nearly do, and do not part fast enough.

    Args:
        velocity: (V,) without a push.
        h: time that is left of the step [s].
        part: (n,) written: ``FULL_PUSH``, ``LAST_PUSH`` or −1.
        lift: (n,) correction of b, not positive; lowered further.

    Returns:
        True if there are any.
    """
    found = False
    fill(part, -1)
    for r in range(rows.contacts):
        if rows.owner[r] >= 0 or rows.gap[r] >= LOST:
            continue
        wanted = max((rows.gap[r] - rows.rest[r]) / h, -PUSH)
        if wanted < lift[r]:
            lift[r], part[r] = wanted, FULL_PUSH if wanted == -PUSH else LAST_PUSH
            found = found or np.dot(rows.J[r], velocity) < -wanted
    return found


@inner
def repeat_corrections(world, m, tape, rows, q, velocity, h, at, part, lift):
    """Repeat on ``lift`` the corrections that :func:`find_curvature` and :func:`find_pushes`
    recorded in ``part``."""
    n = np.empty(3)
    for r in range(part.size):
        if part[r] == FULL_PUSH:
            lift[r] = -PUSH
        elif part[r] == LAST_PUSH:
            lift[r] = (rows.gap[r] - rows.rest[r]) / h
    for i in range(len(PARTS)):
        integrate(world.tree, q, velocity, PARTS[i] * h, at)
        kinematics(world.tree, at, m)
        r = 0
        for k in range(rows.first, rows.last):
            if part[r] == i:
                _, lift[r] = _curvature(world, m, tape, rows, k, r, velocity, PARTS[i] * h, n)
            r += 1
            while r < rows.owner.size and rows.owner[r] >= 0:
                r += 1
