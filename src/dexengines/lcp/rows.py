"""Contacts and joint limits as rows of a frictional LCP."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.dynamics import solve_mass_of_tree
from dexengines.lcp.features import gap_of_features
from dexengines.lcp.vectors import cross, divide, dot, fill, put

SLIP = 1e-7
"""Sliding speed above which friction directions follow the slip [m/s]."""
SLIDING = -1
"""Mode of a contact that slides: friction in one direction, that of its slip."""


class Rows(NamedTuple):
    """The n rows of contacts ``first`` … ``last`` − 1 of the tape, then of joint limits, and the
    LCP w = A f + b that they pose."""

    J: np.ndarray
    """(n, V) row velocity per joint velocity."""
    A: np.ndarray
    """(n, n) J M⁻¹ Jᵀ."""
    Y: np.ndarray
    """(n, V) J M⁻¹."""
    b: np.ndarray
    """(n,) right-hand side, written by :func:`move_right_hand_side` or
    :func:`impact_right_hand_side`."""
    f: np.ndarray
    """(n,) impulses, zero until solved for [N s]."""
    gap: np.ndarray
    """(n,) of normal rows [m], zero on friction rows."""
    rest: np.ndarray
    """(n,) gap that a resting contact keeps [m], zero on friction rows and those of joint limits."""
    mu: np.ndarray
    """(n,) friction coefficient of friction rows, zero on normal rows."""
    owner: np.ndarray
    """(n,) −1 on normal rows; on a friction row its normal row."""
    place: np.ndarray
    """(n, 6) direction of a contact's row and its point in the world; unset for joint limits."""
    contacts: int
    """Number of rows that belong to contacts."""
    first: int
    last: int


@inner
def point_row(tree, S, body, c, d, sign, row):
    """Add ``sign`` times the velocity along d of the body's point at c, as a row over all joint
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
def pair_row(tree, S, ba, bb, place, row):
    """Add the velocity of body bb relative to body ba at a place (6,): direction, then point."""
    point_row(tree, S, bb, place[3:], place[:3], 1.0, row)
    point_row(tree, S, ba, place[3:], place[:3], -1.0, row)


@inner
def slip_at(tree, S, ba, bb, slip, c, n, twist, t):
    """Write to t the velocity of body bb at point c, relative to ba and across n, at joint
    velocities ``slip``; return its square. ``twist`` (2, 6) is scratch."""
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
    """Return the index of the component of n nearest to zero, the first of equal ones."""
    low = 0
    for i in range(1, 3):
        if abs(n[i]) < abs(n[low]) - 1e-9:
            low = i
    return low


@inner
def _contact_rows(world, friction, tape, m, slips, decide, rows):
    """Write the normal and friction rows of the contacts: J (zero before), gap, rest (zero before), mu,
    owner, place.

    Args:
        m: poses and axes.
        slips: two velocities (V,) whose slip the first friction direction follows, the second for
            contacts that slide.
        decide: write ``tape.mode`` of each contact, the direction of its first friction row: 0
            along the slip, k across axis k − 1. Otherwise read it; it may be ``SLIDING``.

    The other directions follow at equal angles. Together their forces span a polygon of twice as
    many corners, scaled so that the first direction bears μ f_n. A contact that slides has only the
    first.
    """
    tree, shapes, mode = world.tree, world.shapes, tape.mode
    t, s, twist = np.empty(3), np.empty(3), np.empty((2, 6))
    total = 0.0
    for j in range(world.directions):
        total += abs(np.cos(np.pi * j / world.directions))
    r = 0
    for k in range(rows.first, rows.last):
        feature, normal = tape.feature[k], r
        ba, bb = shapes.body[feature[0]], shapes.body[feature[1]]
        n, c = rows.place[r, :3], rows.place[r, 3:]
        rows.gap[r] = gap_of_features(
            feature[2], feature[3], tape.data[k], m.R[ba], m.p[ba], m.R[bb], m.p[bb], n, c
        )
        rows.rest[r], rows.mu[r], rows.owner[r] = shapes.rest[feature[4]], 0.0, -1
        pair_row(tree, m.S, ba, bb, rows.place[r], rows.J[r])
        r += 1
        coefficient = friction[shapes.friction_of[feature[4]]]
        if coefficient == 0.0:
            continue
        sliding = mode[k] == SLIDING
        square = slip_at(tree, m.S, ba, bb, slips[1] if sliding else slips[0], c, n, twist, t)
        if decide:
            mode[k] = 0
            if square < SLIP * SLIP:
                mode[k] = 1 + _least(n)
        if mode[k] > 0:
            i = mode[k] - 1
            for j in range(3):
                t[j] = -n[i] * n[j]
            t[i] += 1.0
            square = dot(t, t)
        divide(t, np.sqrt(square))
        cross(n, t, s)
        for j in range(1 if sliding else world.directions):
            x, y = np.cos(np.pi * j / world.directions), np.sin(np.pi * j / world.directions)
            if 2 * j == world.directions:
                x = 0.0
            for i in range(3):
                rows.place[r, i], rows.place[r, 3 + i] = x * t[i] + y * s[i], c[i]
            pair_row(tree, m.S, ba, bb, rows.place[r], rows.J[r])
            rows.gap[r], rows.owner[r] = 0.0, normal
            rows.mu[r] = coefficient if sliding else coefficient / total
            r += 1


@inner
def _limit_rows(world, limit, q, rows):
    """Write the rows of joint limits after those of the contacts; in ``limit`` 2 i is the lower
    limit of limited joint i, 2 i + 1 the upper."""
    r = rows.contacts
    for k in range(limit.size):
        i, upper = limit[k] // 2, limit[k] % 2
        x = q[world.limit_q[i]]
        rows.gap[r] = world.limit_range[i, 1] - x if upper else x - world.limit_range[i, 0]
        rows.J[r, world.limit_v[i]] = -1.0 if upper else 1.0
        rows.mu[r], rows.owner[r] = 0.0, -1
        r += 1


@inner
def _find_trees(above, end):
    """Return the first degree of freedom (V,) of every one's tree; write to ``end`` (V,) that after
    its tree's last, at the first one. Those of a tree follow each other."""
    root = np.empty(above.size, np.int64)
    for k in range(above.size):
        root[k] = k if above[k] < 0 else root[above[k]]
        end[root[k]] = k + 1
    return root


@inner
def _delassus(above, L, rows):
    """Write Y = J M⁻¹ and A = J M⁻¹ Jᵀ (zero before) from the factors L of M; a row acts on two trees
    at most."""
    J, A, Y = rows.J, rows.A, rows.Y
    n, nv = J.shape
    end = np.empty(nv, np.int64)
    root = _find_trees(above, end)
    column, count, tree = np.empty((n, nv), np.int64), np.zeros(n, np.int64), np.full((n, 2), -1)
    for i in range(n):
        for k in range(nv):
            if J[i, k] != 0.0:
                column[i, count[i]] = k
                count[i] += 1
        put(Y[i], J[i])
        if count[i] == 0:
            continue
        a, b = root[column[i, 0]], root[column[i, count[i] - 1]]
        tree[i, 0], tree[i, 1] = a, b
        solve_mass_of_tree(above, L, Y[i], a, end[a])
        if b != a:
            solve_mass_of_tree(above, L, Y[i], b, end[b])
        for j in range(i + 1):
            if tree[j, 0] != a and tree[j, 0] != b and tree[j, 1] != a and tree[j, 1] != b:
                continue
            total = 0.0
            for k in column[j, : count[j]]:
                total += J[j, k] * Y[i, k]
            A[i, j] = total
            A[j, i] = total


@inner
def make_rows(world, par, tape, m, q, slips, span, limit, decide):
    """Return the :class:`Rows` of contacts ``span`` = (first, last) and of joint limits ``limit``.

    Args:
        m: poses at q, factors of the mass matrix.
        slips, decide: see :func:`_contact_rows`.
    """
    nv, (first, last), contacts = slips[0].size, span, 0
    if decide:
        fill(tape.mode[first:last], 0)
    for k in range(first, last):
        contacts += 1
        if par.friction[world.shapes.friction_of[tape.feature[k, 4]]] != 0.0:
            contacts += 1 if tape.mode[k] == SLIDING else world.directions
    n = contacts + limit.size
    rows = Rows(
        np.zeros((n, nv)),
        np.zeros((n, n)),
        np.empty((n, nv)),
        np.empty(n),
        np.zeros(n),
        np.empty(n),
        np.zeros(n),
        np.empty(n),
        np.empty(n, np.int64),
        np.empty((n, 6)),
        contacts,
        first,
        last,
    )
    _contact_rows(world, par.friction, tape, m, slips, decide, rows)
    _limit_rows(world, limit, q, rows)
    _delassus(world.tree.above, m.M, rows)
    return rows


@inner
def impact_right_hand_side(rows, velocity):
    """b = J v of an impulse without restitution."""
    J, b = rows.J, rows.b
    for i in range(b.size):
        b[i] = J[i, 0] * velocity[0]
        for k in range(1, velocity.size):
            b[i] += J[i, k] * velocity[k]


@inner
def move_right_hand_side(rows, velocity, h):
    """b = J v* plus, on normal rows, the speed at which the gap may still close within h."""
    impact_right_hand_side(rows, velocity)
    for i in range(rows.b.size):
        if rows.owner[i] < 0 and rows.gap[i] > rows.rest[i]:
            rows.b[i] += (rows.gap[i] - rows.rest[i]) / h


@inner
def add_impulse(rows, v):
    """v ← v + M⁻¹ Jᵀ f."""
    for i in range(rows.f.size):
        if rows.f[i] != 0.0:
            for k in range(v.size):
                v[k] += rows.f[i] * rows.Y[i, k]


@inner
def report_impulses(tape, rows, f):
    """Write gap, normal, point and impulse f of every contact to ``tape.report``."""
    k = rows.first - 1
    for r in range(rows.contacts):
        if rows.owner[r] < 0:
            k += 1
            tape.report[k, 0] = rows.gap[r]
            for i in range(6):
                tape.report[k, 1 + i] = rows.place[r, i]
            for i in range(3):
                tape.report[k, 7 + i] = 0.0
        for i in range(3):
            tape.report[k, 7 + i] += f[r] * rows.place[r, i]
