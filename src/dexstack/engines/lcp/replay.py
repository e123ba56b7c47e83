"""A recorded step or rollout again, in complex numbers: the imaginary part is its derivative, exact to rounding.

All decisions are read from the tape. What is left is a composition of P (moves), C (responses) and T (times of impact). The forces are
those of the recorded classes, so that their derivative is the implicit one, of A_cc f_c + b_c = 0; the time of impact gets the implicit
derivative of gap(q ⊕ t u) = const, dt = −d gap / (J_n u).
"""

from __future__ import annotations

import numpy as np

from dexstack.engines.kernels import entry, inner
from dexstack.engines.lcp.classes import EVEN, ROUNDS, forces_of_classes
from dexstack.engines.lcp.dynamics import factorise, inertias, integrate, kinematics, mass_matrix
from dexstack.engines.lcp.features import gap_of_features
from dexstack.engines.lcp.impact import add_impulse, give_back, restitutions
from dexstack.engines.lcp.record import BEGIN, IMPACT, MOVE, NONE, STOPPED, Parameters
from dexstack.engines.lcp.rows import (
    count_rows,
    follow_bends,
    impact_right_hand_side,
    move_right_hand_side,
    point_row,
    problem,
)
from dexstack.engines.lcp.step import free_velocity
from dexstack.engines.lcp.vectors import put

SMALL = 1e-30
"""Size of the imaginary perturbation; its square vanishes beside 1."""


@inner
def _forces(A, b, owner, mu, cls, f, plain):
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
    _forces(A, b, owner, mu, tape.cls[op[3] : op[3] + n], f, op[9] & 1)
    if op[8] == 1:
        e = np.empty(n, q.dtype)
        restitutions(par, shapes, tape, first, owner, e)
        give_back(A, b, owner, e, f)
    add_impulse(Y, f, v)


@inner
def _push(world, par, tape, op, q, u, after, rest, at, m):
    """Forces of contacts and stops over a move: u is changed, and goes to ``after``, without a push."""
    shapes = world.shapes
    first, last = op[1], op[2]
    n = count_rows(par.friction, shapes.friction_of, tape.feature, first, last, world.directions, op[5] - op[4])
    limit = tape.limit[op[4] : op[5]]
    J, A, Y, b, f, gap, mu, owner, contacts = problem(world, par, tape, m, q, u, first, last, limit, n, False)
    move_right_hand_side(J, u, gap, owner, contacts, rest, b)
    _forces(A, b, owner, mu, tape.cls[op[3] : op[3] + n], f, op[9] & 1)
    lift, free = np.zeros(n, b.dtype), u.copy()
    add_impulse(Y, f, u)
    put(after, u)
    for i in range(op[10]):
        part = op[3] + (1 + 2 * i) * n
        follow_bends(world, m, tape, first, last, owner, gap, J, q, u, rest, at, tape.cls[part : part + n], lift)
        _forces(A, b + lift, owner, mu, tape.cls[part + n : part + 2 * n], f, (op[9] >> (1 + i)) & 1)
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
    u, at, half, after = np.empty(nv, kind), np.empty(q.size, kind), np.empty(nv, kind), np.empty(nv, kind)
    pushed = op[2] > op[1] or op[5] > op[4]
    if pushed or not (known and tree.steady):
        kinematics(tree, q, m)
    free_velocity(tree, par.mass, v, tau, rest, m, half, known, u)
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
        g = gap_of_features(feature[2], feature[3], tape.data[op[6]], m.R[ba], m.p[ba], m.R[bb], m.p[bb], n3, c3)
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
        dq: (n, Q), dv: (n, V), dtau: (n, T, V), dmass: (n, B), dfriction, drestitution: (n, G): n directions.
        out: (n, Q + V) written.
    """
    world, par, tape, m = simulation.world, simulation.parameters, simulation.tape, simulation.complex_motion
    nq = q.size
    for k in range(out.shape[0]):
        step = 1j * SMALL
        qc, vc, tc = q + step * dq[k], v + step * dv[k], tau + step * dtau[k]
        pc = Parameters(par.mass + step * dmass[k], par.friction + step * dfriction[k], par.restitution + step * drestitution[k])
        replay(world, pc, tape, qc, vc, tc, m)
        for i in range(nq):
            out[k, i] = qc[i].imag / SMALL
        for i in range(v.size):
            out[k, nq + i] = vc[i].imag / SMALL


@inner
def _times_left(tape):
    """(n,) what was left of the time step before each operation [s]."""
    left, rest = np.empty(tape.size[0]), 0.0
    for i in range(left.size):
        left[i] = rest
        if tape.op[i, 0] == BEGIN:
            rest = tape.length[i]
        elif tape.op[i, 0] == MOVE and tape.op[i, 6] != NONE:
            rest -= tape.length[i]
    return left


@entry
def pull_back(simulation, tau, state, dtau, dmass, dfriction, drestitution):
    """Transposed derivative of a recorded rollout: from its end back to its beginning, one operation after the other.

    What an operation does to its inputs' derivatives is found in complex numbers, one input at a time, and multiplied at once: the work
    grows with the steps, not with their square.

    Args:
        simulation: as in :func:`differentiate`. tau: (T, V).
        state: (Q + V,) cotangents of q and v at the end, overwritten by those at the beginning.
        dtau, dmass, dfriction, drestitution: (T, V), (B,), (G,), (G,) zeros, to which theirs are added; of no entries where not asked for.
    """
    world, par, tape, m = simulation.world, simulation.parameters, simulation.tape, simulation.complex_motion
    nq, nv, step = tape.q.shape[1], tau.shape[1], 1j * SMALL
    sizes = np.array([nq, nv, 1, nv if dtau.size > 0 else 0, dmass.size, dfriction.size, drestitution.size])
    left, rest_bar = _times_left(tape), 0.0
    q, v, force = np.empty(nq, np.complex128), np.empty(nv, np.complex128), np.empty(nv, np.complex128)
    pc = Parameters(par.mass + 0j, par.friction + 0j, par.restitution + 0j)
    back = np.empty(nq + nv + 1)
    control = tau.shape[0] - 1
    for i in range(tape.size[0] - 1, -1, -1):
        if tape.op[i, 0] == BEGIN:
            control, rest_bar = control - 1, 0.0
            continue
        for part in range(sizes.size):
            if (tape.op[i, 0] == IMPACT and (part == 2 or part == 3)) or (tape.op[i, 0] == MOVE and part == 6):
                continue  # on these it does not depend
            for k in range(sizes[part]):
                put(q, tape.q[i - 1])
                put(v, tape.v[i - 1])
                put(force, tau[control])
                rest = left[i] + 0j
                if part == 0:
                    q[k] += step
                elif part == 1:
                    v[k] += step
                elif part == 2:
                    rest += step
                elif part == 3:
                    force[k] += step
                elif part == 4:
                    pc.mass[k] += step
                elif part == 5:
                    pc.friction[k] += step
                else:
                    pc.restitution[k] += step
                rest = _repeat(world, pc, tape, i, q, v, rest, force, m, False)
                total = rest_bar * rest.imag
                for j in range(nq):
                    total += state[j] * q[j].imag
                for j in range(nv):
                    total += state[nq + j] * v[j].imag
                total /= SMALL
                if part < 2:
                    back[nq * part + k] = total
                elif part == 2:
                    back[nq + nv] = total
                elif part == 3:
                    dtau[control, k] += total
                elif part == 4:
                    pc.mass[k] = par.mass[k]
                    dmass[k] += total
                elif part == 5:
                    pc.friction[k] = par.friction[k]
                    dfriction[k] += total
                else:
                    pc.restitution[k] = par.restitution[k]
                    drestitution[k] += total
        put(state, back[: nq + nv])
        if tape.op[i, 0] == MOVE:
            rest_bar = back[nq + nv]
