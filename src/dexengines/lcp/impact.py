"""Response to impacts: passes over the contacts that approach, each a plastic impulse of which a
share is given once more.

A pass solves the frictional LCP without restitution, b = J v on the rows that approach, and
multiplies the impulse of every group of contacts that push on each other by 1 + s. With fᵀ(A f + b)
≤ 0, which the LCP gives, the energy changes by (1 + s) fᵀb + ½ (1 + s)² fᵀA f ≤ ½ (1 − s²) fᵀb ≤ 0
for 0 ≤ s ≤ 1: nothing has to be bounded.
"""

from __future__ import annotations

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.dynamics import factorise, inertias, kinematics, mass_matrix
from dexengines.lcp.features import DATA
from dexengines.lcp.record import (
    DROPPED,
    FITS,
    IMPACT,
    IMPACTS,
    NONE,
    RESIDUAL,
    RETRIED,
    SOLVES,
    TAPE_FULL,
    UNSOLVED,
    WARM,
)
from dexengines.lcp.rows import count_rows, impact_right_hand_side, problem
from dexengines.lcp.solver import TOLERANCE, solve_lcp
from dexengines.lcp.touchdown import normal_speed
from dexengines.lcp.vectors import put

IMPACT_FLOOR = 1e-12
"""Gap at which a pair bounces [m] where one is a half-space or its edges are round: the gap's
direction is then known to rounding."""
IMPACT_FLOOR_OF_HULLS = 1e-7
"""The same between polyhedra and cylinders."""
TOUCH = 2e-5
"""Gap up to which a contact takes part in the response to an impact elsewhere [m]."""
SLOWEST = 1e-6
"""Speed of approach below which nothing bounces, even without forces [m/s]."""
LINKED = 1e-12
"""Contacts push on each other where |A_ij| exceeds this share of √(A_ii A_jj)."""
MOST_PASSES = 256
"""After so many passes at one instant one more, plastic, over all contacts ends them: it gives no
energy, and is counted."""


@inner
def impact_floor(shapes, a, b):
    """Gap at which geometries a and b bounce."""
    exact = shapes.is_plane[a] or (
        shapes.radius[a] + shapes.radius[b] > 0.0 and shapes.disc[a] + shapes.disc[b] == 0.0
    )
    return IMPACT_FLOOR if exact else IMPACT_FLOOR_OF_HULLS


@inner
def add_impulse(Y, f, v):
    """v ← v + M⁻¹ Jᵀ f with Y = J M⁻¹."""
    for i in range(f.size):
        if f[i] != 0.0:
            for k in range(v.size):
                v[k] += f[i] * Y[i, k]


@inner
def solve_and_count(A, b, owner, mu, cls, f, warm, counts, extremes):
    way, error, _ = solve_lcp(A, b, owner, mu, cls, f, warm, TOLERANCE)
    counts[SOLVES] += 1
    if way == 0:
        counts[WARM] += 1
    elif way >= 2:
        counts[RETRIED] += 1
    if way >= 0:
        extremes[RESIDUAL] = max(extremes[RESIDUAL], error)
    return way


@inner
def groups(A, owner, group):
    """Least row of the contacts that each row is linked with, directly or through others, into
    ``group`` (n,)."""
    for i in range(owner.size):
        group[i] = i
        for j in range(i):
            size = abs(A[i, j].real)
            if group[j] != group[i] and (
                owner[i] == j or size * size > LINKED * LINKED * A[i, i].real * A[j, j].real
            ):
                least, other = min(group[i], group[j]), max(group[i], group[j])
                for k in range(i + 1):
                    if group[k] == other:
                        group[k] = least


@inner
def give_back(A, b, owner, e, f):
    """f ← (1 + s) f with one s per linked group: the restitution of its contacts, weighted by the
    work −f b of their normal impulses.

    Args:
        A, b, owner: of the plastic LCP that f (n,) solves. e: (n,) restitution of the normal rows.
    """
    n = f.size
    group = np.empty(n, np.int64)
    groups(A, owner, group)
    for g in range(n):
        if group[g] != g:
            continue
        work, back = 0.0 * b[0], 0.0 * b[0]
        for i in range(g, n):
            if group[i] == g and owner[i] < 0:
                work += f[i] * b[i]
                back += e[i] * f[i] * b[i]
        if work.real < 0.0:
            s = back / work
            for i in range(g, n):
                if group[i] == g:
                    f[i] *= 1.0 + s


@inner
def _swap(tape, i, j):
    """Contacts i and j of the tape change places."""
    for c in range(7):
        tape.feature[i, c], tape.feature[j, c] = tape.feature[j, c], tape.feature[i, c]
    for c in range(DATA):
        tape.data[i, c], tape.data[j, c] = tape.data[j, c], tape.data[i, c]


@inner
def _gather(world, par, v, m, tape, first, last, resting, plastic):
    """Bring forward the contacts that take part in a pass: those that approach, in a plastic one
    all that touch.

    Returns:
        Where they end, and how many of them bounce.
    """
    shapes, row = world.shapes, np.empty(v.size)
    touching, bouncing = first, 0
    for k in range(first, last):
        gap, speed = normal_speed(world.tree, shapes, m, tape.feature[k], tape.data[k], v, row)
        approaches = speed < -resting
        if gap > TOUCH or not (approaches or plastic):
            continue
        bounces = approaches and par.restitution[shapes.restitution_of[tape.feature[k, 4]]] > 0.0
        if bounces and gap > 3.0 * impact_floor(shapes, tape.feature[k, 0], tape.feature[k, 1]):
            continue  # it will meet at its own time
        bouncing += bounces
        _swap(tape, k, touching)
        touching += 1
    return touching, bouncing


@inner
def restitutions(par, shapes, tape, first, owner, e):
    """Restitution of the normal rows of the contacts from ``first`` on, into e (n,); that of
    friction rows is 0."""
    k = first - 1
    for r in range(owner.size):
        e[r] = 0.0
        if owner[r] < 0:
            k += 1
            e[r] = par.restitution[shapes.restitution_of[tape.feature[k, 4]]]


@inner
def resting_speed(world, m, tape, first, last, gain, row):
    """Speed of approach below which contacts ``first`` … ``last`` − 1 do not bounce [m/s].

    Twice what the forces give the one they press hardest within a step: what would leave slower
    comes back within four steps. Each bounce above it takes at least ½ (1 − e²) m w² from bodies of
    effective mass m, so that with e < 1 there are finitely many.

    Args:
        gain: (V,) Δt M⁻¹(τ − c) of a whole step. row: (V,) room.
    """
    fastest = 0.0
    for k in range(first, last):
        _, closing = normal_speed(world.tree, world.shapes, m, tape.feature[k], tape.data[k], gain, row)
        fastest = max(fastest, -closing)
    return SLOWEST + 2.0 * fastest


@inner
def respond(world, par, q, v, m, tape, first, last, resting, counts, extremes):
    """Responses to all collisions at the present configuration; contacts are reordered: those that
    take part come first.

    Passes repeat until no contact that bounces approaches faster than ``resting`` [m/s].
    """
    tree, shapes = world.tree, world.shapes
    any_impact = False
    for i in range(MOST_PASSES + 1):
        plastic = i == MOST_PASSES
        touching, bouncing = _gather(world, par, v, m, tape, first, last, resting, plastic)
        if bouncing == 0:
            break
        any_impact = True
        if tape.size[0] >= tape.op.shape[0] or last + (last - first) > tape.feature.shape[0]:
            return last, TAPE_FULL, True
        n = count_rows(par.friction, shapes.friction_of, tape.feature, first, touching, world.directions, 0)
        if tape.size[2] + n > tape.cls.size:
            return last, TAPE_FULL, True
        kinematics(tree, q, m)
        inertias(tree, par.mass, m)
        mass_matrix(tree, m)
        factorise(tree.above, m.M)
        J, A, Y, b, f, _, mu, owner, _ = problem(
            world, par, tape, m, q, v, first, touching, tape.limit[:0], n, True
        )
        impact_right_hand_side(J, v, b)
        cls, e = np.empty(n, np.int64), np.empty(n)
        way = solve_and_count(A, b, owner, mu, cls, f, False, counts, extremes)
        if way < 0:
            counts[UNSOLVED] += 1
        if plastic:
            counts[DROPPED] += 1
        else:
            restitutions(par, shapes, tape, first, owner, e)
            give_back(A, b, owner, e, f)
        add_impulse(Y, f, v)
        put(tape.cls[tape.size[2] : tape.size[2] + n], cls)
        counts[IMPACTS] += 1
        o = tape.op[tape.size[0]]
        o[0], o[1], o[2], o[3], o[4], o[5], o[6], o[8] = (
            IMPACT,
            first,
            touching,
            tape.size[2],
            0,
            0,
            NONE,
            0 if plastic else 1,
        )
        o[9], o[10] = 1 if way < 0 or way >= 2 else 0, 0
        put(tape.q[tape.size[0]], q)
        put(tape.v[tape.size[0]], v)
        tape.size[0] += 1
        tape.size[2] += n
        shift = last  # what follows reorders its contacts: it gets a copy
        for k in range(first, last):
            put(tape.feature[shift + k - first], tape.feature[k])
            put(tape.data[shift + k - first], tape.data[k])
        first, last = shift, shift + last - first
    return last, FITS, any_impact
