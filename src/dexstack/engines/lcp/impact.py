"""Response to impacts: all linked bodies at once, restitution on the rows that collide."""

from __future__ import annotations

import numpy as np

from dexstack.engines.kernels import inner
from dexstack.engines.lcp.dynamics import factorise, inertias, kinematics, kinetic_energy, mass_matrix
from dexstack.engines.lcp.features import DATA
from dexstack.engines.lcp.record import (
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
from dexstack.engines.lcp.rows import count_rows, impact_right_hand_side, problem
from dexstack.engines.lcp.solver import TOLERANCE, solve_lcp
from dexstack.engines.lcp.touchdown import normal_speed
from dexstack.engines.lcp.vectors import fill, put

IMPACT_FLOOR = 1e-12
"""Gap at which a pair bounces [m] where one is a half-space or its edges are round: the gap's direction is then known to rounding."""
IMPACT_FLOOR_OF_HULLS = 1e-7
"""The same between polyhedra and cylinders."""
GAIN = 1e-9
"""Share of their kinetic energy that rounding may add to bodies that bounce."""
TOUCH = 2e-5
"""Gap up to which a contact takes part in the response to an impact elsewhere [m]."""


@inner
def impact_floor(shapes, a, b):
    """Gap at which geometries a and b bounce."""
    exact = shapes.is_plane[a] or (shapes.radius[a] + shapes.radius[b] > 0.0 and shapes.disc[a] + shapes.disc[b] == 0.0)
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
def respond(world, par, q, v, m, tape, first, last, resting, counts, extremes):
    """Responses to all collisions at the present configuration; contacts are reordered: those that take part come first."""
    tree, shapes = world.tree, world.shapes
    row = np.empty(v.size)
    any_impact = False
    for _ in range(20):
        touching, colliding = first, 0
        for k in range(first, last):
            gap, speed = normal_speed(tree, shapes, m, tape.feature[k], tape.data[k], v, row)
            if gap > TOUCH:
                continue
            e = par.restitution[shapes.restitution_of[tape.feature[k, 4]]]
            hit = e > 0.0 and speed < -resting
            if hit and gap > 3.0 * impact_floor(shapes, tape.feature[k, 0], tape.feature[k, 1]):
                continue  # it will meet at its own time
            colliding += hit
            for c in range(7):
                tape.feature[k, c], tape.feature[touching, c] = tape.feature[touching, c], tape.feature[k, c]
            for c in range(DATA):
                tape.data[k, c], tape.data[touching, c] = tape.data[touching, c], tape.data[k, c]
            tape.collides[k] = tape.collides[touching]
            tape.collides[touching] = 1 if hit else 0
            touching += 1
        if colliding == 0:
            return last, FITS, any_impact
        any_impact = True
        if tape.size[0] >= tape.op.shape[0] or last + (last - first) > tape.feature.shape[0]:
            return last, TAPE_FULL, True
        n = count_rows(par.friction, shapes.friction_of, tape.feature, first, touching, world.directions, 0)
        if tape.size[2] + n > tape.cls.size:
            return last, TAPE_FULL, True
        kinematics(tree, q, m)
        inertias(tree, par.mass, m)
        mass_matrix(tree, m)
        factorise(tree.dof_parent, m.M)
        J, A, Y, b, f, _, mu, owner, _ = problem(world, par, tape, m, q, v, first, touching, tape.limit[:0], n, True)
        hits, e_rows = np.zeros(n, np.bool_), np.zeros(n)
        k = first - 1
        for r in range(n):
            if owner[r] < 0:
                k += 1
                hits[r] = tape.collides[k] == 1
                e_rows[r] = par.restitution[shapes.restitution_of[tape.feature[k, 4]]]
        cls = np.empty(n, np.int64)
        bounce = 1
        impact_right_hand_side(J, v, e_rows, hits, b)
        way = solve_and_count(A, b, owner, mu, cls, f, False, counts, extremes)
        after = v.copy()
        add_impulse(Y, f, after)
        gained = kinetic_energy(tree.dof_parent, m.M, after) > (1.0 + GAIN) * kinetic_energy(tree.dof_parent, m.M, v)
        if way < 0 or gained:  # on some rows of a wedged body it need not have a solution, or may give energy
            counts[DROPPED] += 1
            bounce = 0
            fill(hits, False)
            impact_right_hand_side(J, v, e_rows, hits, b)
            way = solve_and_count(A, b, owner, mu, cls, f, False, counts, extremes)
            if way < 0:
                counts[UNSOLVED] += 1
            put(after, v)
            add_impulse(Y, f, after)
        put(v, after)
        put(tape.cls[tape.size[2] : tape.size[2] + n], cls)
        counts[IMPACTS] += 1
        o = tape.op[tape.size[0]]
        o[0], o[1], o[2], o[3], o[4], o[5], o[6], o[8] = IMPACT, first, touching, tape.size[2], 0, 0, NONE, bounce
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
        if bounce == 0:
            return last, FITS, True
    return last, FITS, any_impact
