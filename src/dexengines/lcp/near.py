"""Broad phase: which pairs may meet within a substep, and the contacts of those that are near."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.ccd import acceleration_bound, closing_bound
from dexengines.lcp.distance import separation
from dexengines.lcp.pairs import contacts_of_overlap, contacts_of_pair
from dexengines.lcp.record import EVALUATIONS, OVERLAPS

FLOOR = 1e-6
"""Gap at which an approaching pair touches [m], or half its present gap if that is less."""


class Near(NamedTuple):
    """Near pairs of a substep (P,), and balls (G,) in which geometries stay."""

    pair: np.ndarray
    """Rows of ``shapes.pairs``, ascending up to those that :func:`add_pairs` appends."""
    gap: np.ndarray
    """Separation at the start [m]."""
    floor: np.ndarray
    """Separation at which the substep ends [m]."""
    until: np.ndarray
    """Time until which a pair is known not to reach its floor [s]."""
    acceleration: np.ndarray
    """(G,) bound of the acceleration of any point [m/s²]."""
    centre: np.ndarray
    """(G, 3)"""
    radius: np.ndarray
    travel: np.ndarray
    """Bound of how far a point goes [m]."""


@inner
def make_near(pairs, geometries):
    """Allocate a :class:`Near`."""
    return Near(
        np.empty(pairs, np.int64),
        np.empty(pairs),
        np.empty(pairs),
        np.empty(pairs),
        np.empty(geometries),
        np.empty((geometries, 3)),
        np.empty(geometries),
        np.empty(geometries),
    )


@inner
def bound_motion(tree, shapes, m, u, h, near):
    """Write the balls that geometries stay in within h at velocities u; m: poses, and twists at
    u."""
    for g in range(near.radius.size):
        R, p, c, x = m.R[shapes.body[g]], m.p[shapes.body[g]], shapes.centre[g], near.centre[g]
        for i in range(3):
            x[i] = p[i] + R[i, 0] * c[0] + R[i, 1] * c[1] + R[i, 2] * c[2]
        near.acceleration[g] = acceleration_bound(tree, shapes, m, g, u, h)
        closing, V = closing_bound(shapes, m, g, u, h, near.acceleration[g]), m.V[shapes.body[g]]
        near.radius[g] = shapes.reach[g] + closing
        near.travel[g] = closing + h * np.sqrt(V[0] * V[0] + V[1] * V[1] + V[2] * V[2]) * (
            shapes.reach[g] - shapes.radius[g]
        )


@inner
def _could_meet(shapes, near, a, b, margin):
    x, radius = near.centre, near.radius
    if shapes.is_plane[a]:
        n, point = shapes.normal[a], shapes.vertex[shapes.vertex_start[a]]
        height = n[0] * (x[b, 0] - point[0]) + n[1] * (x[b, 1] - point[1]) + n[2] * (x[b, 2] - point[2])
        return height <= radius[b] + margin
    reach = radius[a] + radius[b] + margin
    return (x[a, 0] - x[b, 0]) ** 2 + (x[a, 1] - x[b, 1]) ** 2 + (x[a, 2] - x[b, 2]) ** 2 <= reach * reach


@inner
def detect(world, m, margin, memory, near, tape, first, counts):
    """Write the pairs that may come within the margin, and append the contacts of those within it.

    Most are known to stay apart along the direction that separated them before, and no better one
    is looked for.

    Returns:
        Number of near pairs; one past the last contact, more than there is room for where the tape
        is full.
    """
    shapes = world.shapes
    count, last = 0, first
    for k in range(shapes.pairs.shape[0]):
        a, b = shapes.pairs[k]
        if not _could_meet(shapes, near, a, b, margin):
            continue
        ba, bb, enough = shapes.body[a], shapes.body[b], margin + near.travel[a] + near.travel[b]
        gap = separation(shapes, a, b, m.R[ba], m.p[ba], m.R[bb], m.p[bb], memory.axis[k], enough)
        counts[EVALUATIONS] += 1
        if gap >= enough:
            continue
        near.pair[count], near.gap[count] = k, gap
        count += 1
        if gap <= 0.0:
            counts[OVERLAPS] += 1
            last = contacts_of_overlap(
                shapes, k, a, b, m.R, m.p, memory.axis[k], gap, margin, tape.feature, tape.data, last
            )
        elif gap <= margin:
            last = contacts_of_pair(
                shapes, k, a, b, m.R, m.p, memory.axis[k], gap, margin, tape.feature, tape.data, last
            )
        if last > tape.feature.shape[0]:
            return count, last
    return count, last


@inner
def add_pairs(shapes, m, memory, near, count, counts):
    """Append to the ``count`` near pairs those that only the forces of this substep bring within
    reach; return their number."""
    found, i = count, 0
    for k in range(shapes.pairs.shape[0]):
        if i < count and near.pair[i] == k:  # near pairs are in order
            i += 1
            continue
        a, b = shapes.pairs[k]
        if _could_meet(shapes, near, a, b, 0.0):
            ba, bb, enough = shapes.body[a], shapes.body[b], 2.0 * FLOOR + near.travel[a] + near.travel[b]
            gap = separation(shapes, a, b, m.R[ba], m.p[ba], m.R[bb], m.p[bb], memory.axis[k], enough)
            near.pair[found], near.gap[found] = k, gap
            counts[EVALUATIONS] += 1
            found += gap < enough
    return found
