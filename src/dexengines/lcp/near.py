"""Which pairs may meet within a sub-step, and the contacts of those that are near."""

from __future__ import annotations

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.ccd import acceleration_bound, closing_bound
from dexengines.lcp.distance import separation
from dexengines.lcp.pairs import contacts_of_overlap, contacts_of_pair
from dexengines.lcp.record import EVALUATIONS, OVERLAPS

FLOOR = 1e-6
"""Gap at which an approaching pair touches [m], or half its present gap if that is less."""


@inner
def balls_of_motion(tree, shapes, m, u, h, K, x, room, travel):
    """Balls, centres x (G, 3) and radii ``room`` (G,), that geometries stay in within h at
    velocities u.

    Args:
        m: poses, and twists at u.
        K, travel: (G,) written: bounds of the acceleration of any point, and of how far one goes
            within h.
    """
    for g in range(K.size):
        R, p, c = m.R[shapes.body[g]], m.p[shapes.body[g]], shapes.centre[g]
        for i in range(3):
            x[g, i] = p[i] + R[i, 0] * c[0] + R[i, 1] * c[1] + R[i, 2] * c[2]
        K[g] = acceleration_bound(tree, shapes, m, g, u, h)
        closing, V = closing_bound(shapes, m, g, u, h, K[g]), m.V[shapes.body[g]]
        room[g] = shapes.reach[g] + closing
        travel[g] = closing + h * np.sqrt(V[0] * V[0] + V[1] * V[1] + V[2] * V[2]) * (
            shapes.reach[g] - shapes.radius[g]
        )


@inner
def _could_meet(shapes, x, room, a, b, margin):
    if shapes.is_plane[a]:
        n, point = shapes.normal[a], shapes.vertex[shapes.vertex_start[a]]
        height = n[0] * (x[b, 0] - point[0]) + n[1] * (x[b, 1] - point[1]) + n[2] * (x[b, 2] - point[2])
        return height <= room[b] + margin
    reach = room[a] + room[b] + margin
    return (x[a, 0] - x[b, 0]) ** 2 + (x[a, 1] - x[b, 1]) ** 2 + (x[a, 2] - x[b, 2]) ** 2 <= reach * reach


@inner
def detect(world, m, margin, memory, x, room, travel, gaps, near, tape, first, counts):
    """Pairs that may come within the margin, and the contacts of those that are.

    Most are seen to stay apart along the direction that separated them before, without looking for
    a better one.

    Returns:
        Number of near pairs; one past the last contact.
    """
    shapes = world.shapes
    count, last = 0, first
    for k in range(shapes.pairs.shape[0]):
        a, b = shapes.pairs[k]
        if not _could_meet(shapes, x, room, a, b, margin):
            continue
        ba, bb, enough = shapes.body[a], shapes.body[b], margin + travel[a] + travel[b]
        gap = separation(shapes, a, b, m.R[ba], m.p[ba], m.R[bb], m.p[bb], memory.axis[k], enough)
        counts[EVALUATIONS] += 1
        if gap >= enough:
            continue
        near[count], gaps[count] = k, gap
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
def add_pairs(shapes, m, memory, x, room, travel, gaps, near, count, counts):
    """Append to the ``count`` near pairs those that only the forces of this sub-step bring within
    reach. Their number now."""
    found, i = count, 0
    for k in range(shapes.pairs.shape[0]):
        if i < count and near[i] == k:  # near pairs are in order
            i += 1
            continue
        a, b = shapes.pairs[k]
        if _could_meet(shapes, x, room, a, b, 0.0):
            ba, bb, enough = shapes.body[a], shapes.body[b], 2.0 * FLOOR + travel[a] + travel[b]
            near[found], gaps[found] = (
                k,
                separation(shapes, a, b, m.R[ba], m.p[ba], m.R[bb], m.p[bb], memory.axis[k], enough),
            )
            counts[EVALUATIONS] += 1
            found += gaps[found] < enough
    return found
