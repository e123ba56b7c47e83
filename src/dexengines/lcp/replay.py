"""Repetition of a recorded step or rollout in complex numbers: the imaginary part is its
derivative, exact to rounding.

All decisions are read from the tape. What remains is a composition of P (moves), C (responses) and
T (times of impact). The forces are those of the recorded classes, so that their derivative is the
implicit one, of A_cc f_c + b_c = 0; the time of impact gets the implicit derivative of gap(q ⊕ t u)
= const, dt = −d gap / (J_n u).
"""

from __future__ import annotations

import numpy as np

from dexengines.kernels import entry, inner
from dexengines.lcp.classes import REFINEMENTS, REGULARISATION, forces_of_classes
from dexengines.lcp.correction import repeat_corrections
from dexengines.lcp.dynamics import factorise, inertias, integrate, kinematics, mass_matrix
from dexengines.lcp.features import gap_of_features
from dexengines.lcp.impact import apply_restitution, restitutions
from dexengines.lcp.record import BEGIN, IMPACT, MOVE, NONE, STOPPED, Parameters
from dexengines.lcp.rows import (
    add_impulse,
    impact_right_hand_side,
    make_rows,
    move_right_hand_side,
    pair_row,
)
from dexengines.lcp.step import HALFWAY_ROUNDS, free_velocity
from dexengines.lcp.vectors import put

SMALL = 1e-30
"""Size of the imaginary perturbation; its square vanishes relative to 1."""


@inner
def recorded_forces(rows, b, cls, f, unregularised):
    """Write to f the forces of recorded classes as the solver found them."""
    if unregularised:
        forces_of_classes(rows.A, b, rows.owner, rows.mu, cls, f, 0, 0.0)
    else:
        forces_of_classes(rows.A, b, rows.owner, rows.mu, cls, f, REFINEMENTS, REGULARISATION)


@inner
def response_rows(world, par, tape, op, q, v, m):
    """Return the rows of a recorded response with the forces of its plastic LCP; m holds poses at q
    and factors of the mass matrix."""
    kinematics(world.tree, q, m)
    inertias(world.tree, par.mass, m)
    mass_matrix(world.tree, m)
    factorise(world.tree.above, m.M)
    rows = make_rows(world, par, tape, m, q, v, (op[1], op[2]), tape.limit[:0], False)
    impact_right_hand_side(rows, v)
    recorded_forces(rows, rows.b, tape.cls[op[3] : op[3] + rows.f.size], rows.f, op[9] & 1)
    return rows


@inner
def _respond(world, par, tape, op, q, v, m):
    """Repeat a response on v."""
    rows = response_rows(world, par, tape, op, q, v, m)
    if op[8] == 1:
        e = np.empty(rows.f.size, q.dtype)
        restitutions(par, world.shapes, tape, rows, e)
        apply_restitution(rows, e)
    add_impulse(rows, v)


@inner
def _push(world, par, tape, op, q, u, after, rest, at, m):
    """Repeat the forces of contacts and limits over a move on u; ``after`` receives it without a
    push."""
    limit = tape.limit[op[4] : op[5]]
    rows = make_rows(world, par, tape, m, q, u, (op[1], op[2]), limit, False)
    move_right_hand_side(rows, u, rest)
    n = rows.f.size
    recorded_forces(rows, rows.b, tape.cls[op[3] : op[3] + n], rows.f, op[9] & 1)
    lift, free = np.zeros(n, u.dtype), u.copy()
    add_impulse(rows, u)
    for i in range(op[10]):
        put(after, u)
        r = op[3] + (1 + 2 * i) * n
        repeat_corrections(world, m, tape, rows, q, u, rest, at, tape.cls[r : r + n], lift)
        recorded_forces(rows, rows.b + lift, tape.cls[r + n : r + 2 * n], rows.f, (op[9] >> (1 + i)) & 1)
        put(u, free)
        add_impulse(rows, u)
    if op[8] == 0:
        put(after, u)


@inner
def _impact_time(world, tape, met, q, u, s, at, m):
    """Return s with the derivative of the time at which contact ``met`` keeps its gap; at and m are
    moved to s."""
    place, row = np.empty(6, q.dtype), np.zeros(u.size, q.dtype)
    shapes, feature = world.shapes, tape.feature[met]
    kinematics(world.tree, at, m)
    ba, bb = shapes.body[feature[0]], shapes.body[feature[1]]
    g = gap_of_features(
        feature[2], feature[3], tape.data[met], m.R[ba], m.p[ba], m.R[bb], m.p[bb], place[:3], place[3:]
    )
    pair_row(world.tree, m.S, ba, bb, place, row)
    rate = 0.0
    for k in range(u.size):
        rate += row[k].real * u[k].real
    if rate < 0.0:
        s -= (g - g.real) / rate
    return s


@inner
def _repeat(world, par, tape, i, q, v, rest, tau, m, known):
    """Repeat operation i of the tape, a move or an impact, from q and v, which are overwritten.

    Args:
        rest: time that is left of the step [s]. tau: (V,). known: see :func:`.step.free_velocity`.

    Returns:
        Time that is left after it; its real part is unset where nothing ended the move.
    """
    tree, op = world.tree, tape.op[i]
    if op[0] == IMPACT:
        _respond(world, par, tape, op, q, v, m)
        return rest
    nv, kind = v.size, q.dtype
    u, at, after = np.empty(nv, kind), np.empty(q.size, kind), np.empty(nv, kind)
    halves = np.empty((HALFWAY_ROUNDS, nv), kind)
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
        s = _impact_time(world, tape, op[6], q, u, s, at, m)
        integrate(tree, q, u, s, at)
    put(q, at)
    for k in range(nv):
        v[k] += s / rest * (after[k] - v[k])
    return rest - s


@inner
def _replay(world, par, tape, q, v, tau, m):
    """Repeat the tape from q and v, which are overwritten; all arguments complex, tau (T, V)."""
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
    """Write the directional derivatives of the end of a recorded rollout.

    Args:
        simulation: result of :func:`.roll.refer`; its parameters are those of the rollout.
        q, v: initial state; tau: (T, V).
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
        _replay(world, pc, tape, qc, vc, tc, m)
        for i in range(nq):
            out[k, i] = qc[i].imag / SMALL
        for i in range(v.size):
            out[k, nq + i] = vc[i].imag / SMALL
