"""Contacts and joint stops as rows of a frictional LCP, for real and for complex numbers."""

from __future__ import annotations

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.distance import separation
from dexengines.lcp.dynamics import integrate, kinematics, solve_mass
from dexengines.lcp.features import gap_of_features
from dexengines.lcp.vectors import cross, divide, dot, fill, put

TARGET = 1e-5
"""Gap that a resting contact keeps [m]."""
LOST = 5e-7
"""Gap below which a contact is pushed open again [m]."""
PUSH = 0.1
"""Greatest speed at which geometries that overlap or nearly do are pushed apart [m/s]: it moves
them, and is no part of their velocity."""
FULL_PUSH, LAST_PUSH = 100, 101
"""In place of a part: a row pushed at that speed; one that its depth and the time that is left ask
for."""
PARTS = (1.0, 2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-10, 2.0**-12)
"""Parts of a move after which contacts are looked at that bend towards each other."""
SLIP = 1e-7
"""Sliding speed above which friction directions follow the slip [m/s]."""


@inner
def point_row(tree, S, body, c, d, sign, row):
    """Add ``sign`` times the velocity along d of the body's point at c, as a row over all
    velocities."""
    k = tree.last_dof[body]
    if k < 0:
        return
    m0, m1, m2 = c[1] * d[2] - c[2] * d[1], c[2] * d[0] - c[0] * d[2], c[0] * d[1] - c[1] * d[0]
    while k >= 0:
        s = S[k]
        row[k] += sign * (s[0] * m0 + s[1] * m1 + s[2] * m2 + s[3] * d[0] + s[4] * d[1] + s[5] * d[2])
        k = tree.dof_parent[k]


@inner
def count_rows(friction, friction_of, feature, first, last, directions, limits):
    """Rows of contacts first … last − 1 and of the joint stops."""
    n = limits
    for k in range(first, last):
        n += 1 if friction[friction_of[feature[k, 4]]].real == 0.0 else 1 + directions
    return n


@inner
def _slip(tree, S, ba, bb, slip, c, n, twist, t):
    """Write to t the velocity of body bb at point c, relative to ba and across n, at joint
    velocities ``slip``; return its square.

    ``twist`` (2, 6) is room to work in.
    """
    twist[:] = 0.0
    va, vb = twist[0], twist[1]
    i = tree.last_dof[ba]
    while i >= 0:
        for j in range(6):
            va[j] += S[i, j] * slip[i]
        i = tree.dof_parent[i]
    i = tree.last_dof[bb]
    while i >= 0:
        for j in range(6):
            vb[j] += S[i, j] * slip[i]
        i = tree.dof_parent[i]
    for j in range(6):
        vb[j] -= va[j]
    t[0] = vb[3] + vb[1] * c[2] - vb[2] * c[1]
    t[1] = vb[4] + vb[2] * c[0] - vb[0] * c[2]
    t[2] = vb[5] + vb[0] * c[1] - vb[1] * c[0]
    along = dot(n, t)
    for i in range(3):
        t[i] -= along * n[i]
    return dot(t, t)


@inner
def _least(n):
    """Index of the component of n nearest to zero; of equal ones the first."""
    low = 0
    for i in range(1, 3):
        if abs(n[i].real) < abs(n[low].real) - 1e-9:
            low = i
    return low


@inner
def contact_rows(
    tree, shapes, friction, m, feature, data, mode, first, last, directions, slip, decide, J, gap, mu, owner
):
    """Normal and friction rows of contacts.

    Args:
        m: poses and axes.
        mode: (contacts,) where the first friction direction points: 0 along the slip at velocities
            ``slip``, k across axis k − 1. Written if ``decide``.
        directions: friction rows per contact, at equal angles; together their forces span a polygon
            of twice as many corners, scaled so that the first direction bears μ f_n.
        J: (n, V) zero; gap, mu, owner: (n,); all written.

    Returns:
        The number of rows.
    """
    kind = J.dtype
    n, c, t, s = np.empty(3, kind), np.empty(3, kind), np.empty(3, kind), np.empty(3, kind)
    d, twist = np.empty(3, kind), np.empty((2, 6), kind)
    total = 0.0
    for j in range(directions):
        total += abs(np.cos(np.pi * j / directions))
    r = 0
    for k in range(first, last):
        a, b = feature[k, 0], feature[k, 1]
        ba, bb = shapes.body[a], shapes.body[b]
        gap[r] = gap_of_features(
            feature[k, 2], feature[k, 3], data[k], m.R[ba], m.p[ba], m.R[bb], m.p[bb], n, c
        )
        mu[r], owner[r] = 0.0, -1
        point_row(tree, m.S, bb, c, n, 1.0, J[r])
        point_row(tree, m.S, ba, c, n, -1.0, J[r])
        normal = r
        r += 1
        coefficient = friction[shapes.friction_of[feature[k, 4]]]
        if coefficient.real == 0.0:
            continue
        square = _slip(tree, m.S, ba, bb, slip, c, n, twist, t)
        if decide:
            mode[k] = 0
            if square.real < SLIP * SLIP:
                mode[k] = 1 + _least(n)
        if mode[k] > 0:
            i = mode[k] - 1
            for j in range(3):
                t[j] = -n[i] * n[j]
            t[i] += 1.0
            square = dot(t, t)
        divide(t, np.sqrt(square))
        cross(n, t, s)
        for j in range(directions):
            x, y = np.cos(np.pi * j / directions), np.sin(np.pi * j / directions)
            if 2 * j == directions:
                x = 0.0
            for i in range(3):
                d[i] = x * t[i] + y * s[i]
            point_row(tree, m.S, bb, c, d, 1.0, J[r])
            point_row(tree, m.S, ba, c, d, -1.0, J[r])
            gap[r], mu[r], owner[r] = 0.0, coefficient / total, normal
            r += 1
    return r


@inner
def limit_rows(limit_q, limit_v, limit_range, limit, q, start, J, gap, mu, owner):
    """Rows of joint stops after the first ``start`` rows; in ``limit`` 2 i is the lower stop of
    limited joint i, 2 i + 1 the upper."""
    r = start
    for k in range(limit.size):
        i, upper = limit[k] // 2, limit[k] % 2
        x = q[limit_q[i]]
        gap[r] = limit_range[i, 1] - x if upper else x - limit_range[i, 0]
        J[r, limit_v[i]] = -1.0 if upper else 1.0
        mu[r], owner[r] = 0.0, -1
        r += 1
    return r


@inner
def delassus(above, L, J, Y, A):
    """Y = J M⁻¹ and A = J M⁻¹ Jᵀ from the factors L of M."""
    n, nv = J.shape
    for i in range(n):
        put(Y[i], J[i])
        solve_mass(above, L, Y[i])
        for j in range(i + 1):
            total = J[j, 0] * Y[i, 0]
            for k in range(1, nv):
                total += J[j, k] * Y[i, k]
            A[i, j] = total
            A[j, i] = total


@inner
def problem(world, par, tape, m, q, slip, first, last, limit, rows, decide):
    """The rows of contacts ``first`` … ``last`` − 1 of the tape, then of joint stops ``limit``, and
    the room for their LCP.

    Args:
        m: poses at q, factors of the mass matrix. slip, decide: see :func:`contact_rows`.
        rows: how many they are.

    Returns:
        J, A, Y = J M⁻¹, room for b, forces (zero), gap, friction coefficient and owner of every
        row; rows that belong to contacts.
    """
    tree, shapes, kind, nv = world.tree, world.shapes, q.dtype, slip.size
    J, Y, A = np.zeros((rows, nv), kind), np.empty((rows, nv), kind), np.empty((rows, rows), kind)
    gap, mu, b, f = np.empty(rows, kind), np.empty(rows, kind), np.empty(rows, kind), np.zeros(rows, kind)
    owner = np.empty(rows, np.int64)
    contacts = contact_rows(
        tree,
        shapes,
        par.friction,
        m,
        tape.feature,
        tape.data,
        tape.mode,
        first,
        last,
        world.directions,
        slip,
        decide,
        J,
        gap,
        mu,
        owner,
    )
    limit_rows(world.limit_q, world.limit_v, world.limit_range, limit, q, contacts, J, gap, mu, owner)
    delassus(tree.above, m.M, J, Y, A)
    return J, A, Y, b, f, gap, mu, owner, contacts


@inner
def move_right_hand_side(J, velocity, gap, owner, contacts, h, b):
    """b = J v* plus, on normal rows, the speed at which the gap may still close within h."""
    for i in range(b.size):
        b[i] = J[i, 0] * velocity[0]
        for k in range(1, velocity.size):
            b[i] += J[i, k] * velocity[k]
        if owner[i] < 0:
            target = TARGET if i < contacts else 0.0
            if gap[i].real > target:
                b[i] += (gap[i] - target) / h


@inner
def _bend(shapes, m, feature, data, gap, row, velocity, t, n):
    """Gap of a contact after t, and the speed at which it closes on average beyond that of its row;
    n (3,) gets the normal."""
    ba, bb = shapes.body[feature[0]], shapes.body[feature[1]]
    end = gap_of_features(
        feature[2], feature[3], data, m.R[ba], m.p[ba], m.R[bb], m.p[bb], n, np.empty(3, n.dtype)
    )
    bend = (end - gap) / t
    for j in range(velocity.size):
        bend -= row[j] * velocity[j]
    return end, bend


@inner
def find_bends(world, m, tape, first, last, owner, gap, J, q, velocity, h, at, longest, part, lift):
    """Where contacts would meet within h because bodies turn: what the rows, linear in h, leave
    out.

    Args:
        m: poses, overwritten. gap, J: of the rows at q. at: (Q,) room.
        longest: from which of :data:`PARTS` on contacts are looked at.
        part: (n,) written: after which of them each row bends most, −1 where it does not.
        lift: (n,) what b is to be lowered by, not positive; lowered further.

    Returns:
        Whether any contact would.
    """
    shapes, n = world.shapes, np.empty(3)
    any_meets = False
    fill(part, -1)
    for i in range(longest, len(PARTS)):  # edges that cross may have met and parted by the end
        integrate(world.tree, q, velocity, PARTS[i] * h, at)
        kinematics(world.tree, at, m)
        r = 0
        for k in range(first, last):
            end, bend = _bend(
                shapes, m, tape.feature[k], tape.data[k], gap[r], J[r], velocity, PARTS[i] * h, n
            )
            least = 0.5 * min(gap[r], TARGET)
            if gap[r] > 0.0 and bend < lift[r] and end < least:
                a, b = tape.feature[k, 0], tape.feature[k, 1]
                ba, bb = shapes.body[a], shapes.body[b]
                # the lines and planes of two features meet anywhere, the bodies where these end do
                # not
                if separation(shapes, a, b, m.R[ba], m.p[ba], m.R[bb], m.p[bb], n, np.inf) < least:
                    lift[r], part[r], any_meets = bend, i, True
            r += 1
            while r < owner.size and owner[r] >= 0:
                r += 1
    return any_meets


@inner
def find_pushes(J, velocity, gap, contacts, owner, h, part, lift):
    """Rows of contacts that overlap, or nearly do, and do not part fast enough.

    Args:
        J, gap, owner: of the n rows, of which the first ``contacts`` belong to contacts. velocity:
            (V,) without a push.
        h: what is left of the step [s].
        part: (n,) written: ``FULL_PUSH``, ``LAST_PUSH`` or −1.
        lift: (n,) what b is to be lowered by, not positive; lowered further.

    Returns:
        Whether there is any.
    """
    any_pushed = False
    fill(part, -1)
    for r in range(contacts):
        if owner[r] >= 0 or gap[r] >= LOST:
            continue
        wanted = max((gap[r] - TARGET) / h, -PUSH)
        if wanted < lift[r]:
            lift[r], part[r] = wanted, FULL_PUSH if wanted == -PUSH else LAST_PUSH
            any_pushed = any_pushed or np.dot(J[r], velocity) < -wanted
    return any_pushed


@inner
def follow_bends(world, m, tape, first, last, owner, gap, J, q, velocity, h, at, part, lift):
    """What :func:`find_bends` and :func:`find_pushes` do to ``lift`` if they find ``part``."""
    n = np.empty(3, J.dtype)
    for r in range(part.size):
        if part[r] == FULL_PUSH:
            lift[r] = -PUSH
        elif part[r] == LAST_PUSH:
            lift[r] = (gap[r] - TARGET) / h
    for i in range(len(PARTS)):
        integrate(world.tree, q, velocity, PARTS[i] * h, at)
        kinematics(world.tree, at, m)
        r = 0
        for k in range(first, last):
            if part[r] == i:
                _, lift[r] = _bend(
                    world.shapes, m, tape.feature[k], tape.data[k], gap[r], J[r], velocity, PARTS[i] * h, n
                )
            r += 1
            while r < owner.size and owner[r] >= 0:
                r += 1


@inner
def impact_right_hand_side(J, velocity, b):
    """b = J v: of an impulse without restitution."""
    for i in range(b.size):
        b[i] = J[i, 0] * velocity[0]
        for k in range(1, velocity.size):
            b[i] += J[i, k] * velocity[k]
