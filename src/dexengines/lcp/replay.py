"""A recorded step or rollout again, in complex numbers: the imaginary part is its derivative, exact
to rounding.

All decisions are read from the tape. What is left is a composition of P (moves), C (responses) and
T (times of impact). The forces are those of the recorded classes, so that their derivative is the
implicit one, of A_cc f_c + b_c = 0; the time of impact gets the implicit derivative of gap(q ⊕ t u)
= const, dt = −d gap / (J_n u).
"""

from __future__ import annotations

import numpy as np

from dexengines.kernels import entry, inner
from dexengines.lcp.classes import EVEN, ROUNDS, forces_of_classes
from dexengines.lcp.dynamics import factorise, inertias, integrate, kinematics, mass_matrix
from dexengines.lcp.features import gap_of_features
from dexengines.lcp.impact import add_impulse, give_back, restitutions
from dexengines.lcp.record import BEGIN, IMPACT, MOVE, NONE, STOPPED, Parameters
from dexengines.lcp.rows import (
    count_rows,
    follow_bends,
    impact_right_hand_side,
    move_right_hand_side,
    point_row,
    problem,
)
from dexengines.lcp.step import HALFWAY_ROUNDS, free_velocity
from dexengines.lcp.vectors import put

SMALL = 1e-30
"""Size of the imaginary perturbation; its square vanishes beside 1."""


@inner
def recorded_forces(A, b, owner, mu, cls, f, plain):
    """Forces of recorded classes, as the solver found them: spread, or plain."""
    if plain:
        forces_of_classes(A, b, owner, mu, cls, f, 0, 0.0)
    else:
        forces_of_classes(A, b, owner, mu, cls, f, ROUNDS, EVEN)


@inner
def _respond(world, par, tape, op, q, v, m):
    """Response to an impact: v is changed."""
    tree, shapes = world.tree, world.shapes
    first, last = op[1], op[2]
    n = count_rows(par.friction, shapes.friction_of, tape.feature, first, last, world.directions, 0)
    kinematics(tree, q, m)
    inertias(tree, par.mass, m)
    mass_matrix(tree, m)
    factorise(tree.above, m.M)
    J, A, Y, b, f, _, mu, owner, _ = problem(world, par, tape, m, q, v, first, last, tape.limit[:0], n, False)
    impact_right_hand_side(J, v, b)
    recorded_forces(A, b, owner, mu, tape.cls[op[3] : op[3] + n], f, op[9] & 1)
    if op[8] == 1:
        e = np.empty(n, q.dtype)
        restitutions(par, shapes, tape, first, owner, e)
        give_back(A, b, owner, e, f)
    add_impulse(Y, f, v)


@inner
def _push(world, par, tape, op, q, u, after, rest, at, m):
    """Forces of contacts and stops over a move: u is changed, and goes to ``after``, without a
    push."""
    shapes = world.shapes
    first, last = op[1], op[2]
    n = count_rows(
        par.friction, shapes.friction_of, tape.feature, first, last, world.directions, op[5] - op[4]
    )
    limit = tape.limit[op[4] : op[5]]
    J, A, Y, b, f, gap, mu, owner, contacts = problem(world, par, tape, m, q, u, first, last, limit, n, False)
    move_right_hand_side(J, u, gap, owner, contacts, rest, b)
    recorded_forces(A, b, owner, mu, tape.cls[op[3] : op[3] + n], f, op[9] & 1)
    lift, free = np.zeros(n, b.dtype), u.copy()
    add_impulse(Y, f, u)
    for i in range(op[10]):
        put(after, u)
        part = op[3] + (1 + 2 * i) * n
        follow_bends(
            world, m, tape, first, last, owner, gap, J, q, u, rest, at, tape.cls[part : part + n], lift
        )
        recorded_forces(A, b + lift, owner, mu, tape.cls[part + n : part + 2 * n], f, (op[9] >> (1 + i)) & 1)
        put(u, free)
        add_impulse(Y, f, u)
    if op[8] == 0:
        put(after, u)


@inner
def _repeat(world, par, tape, i, q, v, rest, tau, m, known):
    """Repeat operation i of the tape, a move or an impact, from q and v, which are overwritten.

    Args:
        rest: what is left of the time step [s]. tau: (V,). known: see :func:`.step.free_velocity`.

    Returns:
        What is left after it; its real part is void where nothing ended the move.
    """
    tree, shapes, op = world.tree, world.shapes, tape.op[i]
    if op[0] == IMPACT:
        _respond(world, par, tape, op, q, v, m)
        return rest
    nv, kind = v.size, q.dtype
    u, at, after, halves = (
        np.empty(nv, kind),
        np.empty(q.size, kind),
        np.empty(nv, kind),
        np.empty((HALFWAY_ROUNDS, nv), kind),
    )
    pushed = op[2] > op[1] or op[5] > op[4]
    if pushed or not (known and tree.steady):
        kinematics(tree, q, m)
    free_velocity(tree, par.mass, v, tau, rest, m, halves, known, u)
    put(after, u)
    if pushed:
        _push(world, par, tape, op, q, u, after, rest, at, m)
    if op[6] == NONE:
        integrate(tree, q, u, rest, at)
        put(q, at)
        put(v, after)
        return rest
    s = q[0] * 0.0 + tape.length[i]
    integrate(tree, q, u, s, at)
    if op[6] != STOPPED:
        n3, c3, row = np.empty(3, kind), np.empty(3, kind), np.zeros(nv, kind)
        kinematics(tree, at, m)
        feature = tape.feature[op[6]]
        ba, bb = shapes.body[feature[0]], shapes.body[feature[1]]
        g = gap_of_features(
            feature[2], feature[3], tape.data[op[6]], m.R[ba], m.p[ba], m.R[bb], m.p[bb], n3, c3
        )
        point_row(tree, m.S, bb, c3, n3, 1.0, row)
        point_row(tree, m.S, ba, c3, n3, -1.0, row)
        rate = 0.0
        for k in range(nv):
            rate += row[k].real * u[k].real
        if rate < 0.0:
            s -= (g - g.real) / rate
        integrate(tree, q, u, s, at)
    put(q, at)
    for k in range(nv):
        v[k] += s / rest * (after[k] - v[k])
    return rest - s


@inner
def replay(world, par, tape, q, v, tau, m):
    """Repeat what is on the tape from q and v, which are overwritten.

    Args:
        par, q, v, tau, m: all of one number type; tau: (T, V) controls.
    """
    rest = q[0] * 0.0
    control, known = 0, False
    for i in range(tape.size[0]):
        if tape.op[i, 0] == BEGIN:
            rest = q[0] * 0.0 + tape.length[i]
            control = tape.op[i, 7]
            continue
        rest = _repeat(world, par, tape, i, q, v, rest, tau[control], m, known)
        known = known or tape.op[i, 0] == MOVE


@entry
def differentiate(simulation, q, v, tau, dq, dv, dtau, dmass, dfriction, drestitution, out):
    """Directional derivatives of the end of a recorded rollout.

    Args:
        simulation: as :func:`.roll.refer` returns it; its parameters are those of the rollout.
        q, v: the state it began with; tau: (T, V).
        dq: (n, Q), dv: (n, V), dtau: (n, T, V), dmass: (n, B), dfriction, drestitution: (n, G): n
            directions.
        out: (n, Q + V) written.
    """
    world, par, tape, m = simulation.world, simulation.parameters, simulation.tape, simulation.complex_motion
    nq = q.size
    for k in range(out.shape[0]):
        step = 1j * SMALL
        qc, vc, tc = q + step * dq[k], v + step * dv[k], tau + step * dtau[k]
        pc = Parameters(
            par.mass + step * dmass[k],
            par.friction + step * dfriction[k],
            par.restitution + step * drestitution[k],
        )
        replay(world, pc, tape, qc, vc, tc, m)
        for i in range(nq):
            out[k, i] = qc[i].imag / SMALL
        for i in range(v.size):
            out[k, nq + i] = vc[i].imag / SMALL
