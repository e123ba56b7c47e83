"""Response to impacts: passes over the contacts that approach, each a plastic impulse of which a
share is applied once more.

A pass solves the frictional LCP without restitution, b = J v on the rows that approach, and
multiplies the impulse of every group of contacts that push on each other by 1 + s. With
fᵀ(A f + b) ≤ 0, which the LCP gives, the energy changes by
(1 + s) fᵀb + ½ (1 + s)² fᵀA f ≤ ½ (1 − s²) fᵀb ≤ 0 for 0 ≤ s ≤ 1: no bound is needed.
"""

from __future__ import annotations

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.dynamics import factorise, inertias, kinematics, mass_matrix
from dexengines.lcp.features import DATA
from dexengines.lcp.record import (
    FITS,
    IMPACT,
    IMPACTS,
    NONE,
    PLASTIC_ENDS,
    RESIDUAL,
    RETRIED,
    SOLVES,
    TAPE_FULL,
    UNSOLVED,
    WARM,
)
from dexengines.lcp.rows import add_impulse, impact_right_hand_side, make_rows, report_impulses
from dexengines.lcp.solver import FAILED, RETRY, TOLERANCE, WARM_START, solve_lcp
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
"""Passes at one instant after which a plastic one over all contacts ends them; it adds no energy
and is counted."""


@inner
def impact_floor(shapes, a, b):
    """Return the gap at which geometries a and b bounce."""
    exact = shapes.is_plane[a] or (
        shapes.radius[a] + shapes.radius[b] > 0.0 and shapes.disc[a] + shapes.disc[b] == 0.0
    )
    return IMPACT_FLOOR if exact else IMPACT_FLOOR_OF_HULLS


@inner
def solve_and_count(rows, b, cls, warm, counts, extremes):
    """Solve w = A f + b for ``rows.f`` and classes; return the way it was found, see
    :func:`.solver.solve_lcp`."""
    way, error, _ = solve_lcp(rows.A, b, rows.owner, rows.mu, cls, rows.f, warm, TOLERANCE)
    counts[SOLVES] += 1
    if way == WARM_START:
        counts[WARM] += 1
    elif way >= RETRY:
        counts[RETRIED] += 1
    if way != FAILED:
        extremes[RESIDUAL] = max(extremes[RESIDUAL], error)
    return way


@inner
def linked_groups(A, owner, group):
    """Write to ``group`` (n,) the least row of the contacts that each row is linked with, directly
    or through others."""
    for i in range(owner.size):
        group[i] = i
        for j in range(i):
            size = abs(A[i, j])
            if group[j] != group[i] and (owner[i] == j or size * size > LINKED * LINKED * A[i, i] * A[j, j]):
                least, other = min(group[i], group[j]), max(group[i], group[j])
                for k in range(i + 1):
                    if group[k] == other:
                        group[k] = least


@inner
def apply_restitution(rows, e):
    """f ← (1 + s) f with one s per linked group: the restitution of its contacts, weighted by the
    work −f b of their normal impulses.

    Args:
        rows: of a solved plastic LCP. e: (n,) restitution of the normal rows.
    """
    b, f, owner, n = rows.b, rows.f, rows.owner, rows.f.size
    group = np.empty(n, np.int64)
    linked_groups(rows.A, owner, group)
    for g in range(n):
        if group[g] != g:
            continue
        work, back = 0.0 * b[0], 0.0 * b[0]
        for i in range(g, n):
            if group[i] == g and owner[i] < 0:
                work += f[i] * b[i]
                back += e[i] * f[i] * b[i]
        if work < 0.0:
            s = back / work
            for i in range(g, n):
                if group[i] == g:
                    f[i] *= 1.0 + s


@inner
def _swap(tape, i, j):
    """Exchange contacts i and j of the tape."""
    for c in range(7):
        tape.feature[i, c], tape.feature[j, c] = tape.feature[j, c], tape.feature[i, c]
    for c in range(DATA):
        tape.data[i, c], tape.data[j, c] = tape.data[j, c], tape.data[i, c]


@inner
def _gather(world, par, v, m, tape, span, threshold, plastic):
    """Move to the front the contacts that take part in a pass: those that approach, in a plastic
    one all that touch.

    Returns:
        One past the last of them, and how many of them bounce.
    """
    shapes, row, (first, last) = world.shapes, np.empty(v.size), span
    touching, bouncing = first, 0
    for k in range(first, last):
        gap, speed = normal_speed(world.tree, shapes, m, tape.feature[k], tape.data[k], v, row)
        approaches = speed < -threshold
        if gap > TOUCH or not (approaches or plastic):
            continue
        bounces = approaches and par.restitution[shapes.restitution_of[tape.feature[k, 4]]] > 0.0
        if bounces and gap > 3.0 * impact_floor(shapes, tape.feature[k, 0], tape.feature[k, 1]):
            continue  # it meets at its own time
        bouncing += bounces
        _swap(tape, k, touching)
        touching += 1
    return touching, bouncing


@inner
def restitutions(par, shapes, tape, rows, e):
    """Write to e (n,) the restitution of the normal rows, zero on friction rows."""
    k = rows.first - 1
    for r in range(rows.owner.size):
        e[r] = 0.0
        if rows.owner[r] < 0:
            k += 1
            e[r] = par.restitution[shapes.restitution_of[tape.feature[k, 4]]]


@inner
def bounce_threshold(world, m, tape, span, gain, row):
    """Return the speed of approach below which contacts do not bounce [m/s].

    Twice what the forces give the one they press hardest within a step: what would leave slower
    comes back within four steps. Each bounce above it takes at least ½ (1 − e²) m w² from bodies of
    effective mass m, so that with e < 1 there are finitely many.

    Args:
        gain: (V,) Δt M⁻¹(τ − c) of a whole step. row: (V,) scratch.
    """
    fastest = 0.0
    for k in range(span[0], span[1]):
        _, closing = normal_speed(world.tree, world.shapes, m, tape.feature[k], tape.data[k], gain, row)
        fastest = max(fastest, -closing)
    return SLOWEST + 2.0 * fastest


@inner
def _record(tape, rows, q, v, cls, plastic, unregularised):
    """Append a response to the tape."""
    o, n = tape.op[tape.size[0]], cls.size
    o[0], o[1], o[2], o[3], o[4], o[5], o[6] = IMPACT, rows.first, rows.last, tape.size[2], 0, 0, NONE
    o[8], o[9], o[10] = not plastic, unregularised, 0
    put(tape.cls[tape.size[2] : tape.size[2] + n], cls)
    put(tape.q[tape.size[0]], q)
    put(tape.v[tape.size[0]], v)
    tape.size[0] += 1
    tape.size[2] += n


@inner
def _pass(world, par, q, v, m, tape, span, plastic, counts, extremes):
    """Apply one pass over the contacts ``span`` to v and record it."""
    kinematics(world.tree, q, m)
    inertias(world.tree, par.mass, m)
    mass_matrix(world.tree, m)
    factorise(world.tree.above, m.M)
    rows = make_rows(world, par, tape, m, q, (v, v), span, tape.limit[:0], True)
    impact_right_hand_side(rows, v)
    cls, e = np.empty(rows.f.size, np.int64), np.empty(rows.f.size)
    way = solve_and_count(rows, rows.b, cls, False, counts, extremes)
    if way == FAILED:
        counts[UNSOLVED] += 1
    if plastic:
        counts[PLASTIC_ENDS] += 1
    else:
        restitutions(par, world.shapes, tape, rows, e)
        apply_restitution(rows, e)
    add_impulse(rows, v)
    report_impulses(tape, rows, rows.f)
    counts[IMPACTS] += 1
    _record(tape, rows, q, v, cls, plastic, way == FAILED or way >= RETRY)


@inner
def respond(world, par, q, v, m, tape, span, threshold, counts, extremes):
    """Apply the responses to all collisions at the present configuration to v.

    Passes repeat until no contact that bounces approaches faster than ``threshold`` [m/s]. Each
    records its contacts, reordered, and the next works on a copy of them.

    Returns:
        One past the last contact; ``FITS`` or ``TAPE_FULL``; True if there was an impact.
    """
    any_impact, (first, last) = False, span
    for i in range(MOST_PASSES + 1):
        plastic = i == MOST_PASSES
        touching, bouncing = _gather(world, par, v, m, tape, (first, last), threshold, plastic)
        if bouncing == 0:
            break
        any_impact = True
        n = (touching - first) * (1 + world.directions)
        room = tape.size[0] < tape.op.shape[0] and last + (last - first) <= tape.feature.shape[0]
        if not room or tape.size[2] + n > tape.cls.size:
            return last, TAPE_FULL, True
        _pass(world, par, q, v, m, tape, (first, touching), plastic, counts, extremes)
        for k in range(first, last):
            put(tape.feature[last + k - first], tape.feature[k])
            put(tape.data[last + k - first], tape.data[k])
        first, last = last, last + last - first
    return last, FITS, any_impact
