"""Reverse sweep over a recorded rollout: every operation of the tape is repeated from its start,
and the cotangent of its end carried to it.

In real numbers and by hand, after the paper's derivatives of moves [4], responses [5] and times of
impact [10]. With the velocity free of contact v*, the forces f = E x that active rows c span under
the recorded classes, A_c E x + b_c = 0, and u = v* + M⁻¹ Jᵀ f:

    (A_c E)ᵀ Z = Eᵀ J M⁻¹ ū,    b̄ = −Z,    w = M⁻¹ (ū − Jᵀ Z),    J̄ = f wᵀ − Z uᵀ,
    M̄ = −w (u − v*)ᵀ,           v̄* = ū − Jᵀ Z

The iterations of the free motion are pulled back one by one. One sweep gives the derivatives by all
inputs. A name with ``_bar`` is a cotangent.
"""

from __future__ import annotations

import numpy as np

from dexengines.kernels import entry, inner, load
from dexengines.lcp.contact_velocity import find_flying
from dexengines.lcp.correction import FULL_PUSH, LAST_PUSH, PARTS
from dexengines.lcp.dynamics import inertias, integrate, kinematics, solve_mass
from dexengines.lcp.dynamics_adjoint import (
    COTANGENTS,
    coordinates_to_tangent,
    pull_integrate,
    pull_inverse_dynamics,
    pull_kinematics,
    tangent_to_coordinates,
)
from dexengines.lcp.impact import linked_groups, restitutions
from dexengines.lcp.record import BEGIN, IMPACT, MOVE, NONE, STOPPED, refer
from dexengines.lcp.recorded import repeat_lcps, response_rows, start_of_turn, turned_rows
from dexengines.lcp.rows import (
    add_impulse,
    make_rows,
    move_right_hand_side,
)
from dexengines.lcp.rows_adjoint import pull_contact_rows, pull_forces
from dexengines.lcp.step import HALFWAY_ROUNDS, end_shares, free_velocity
from dexengines.lcp.touchdown import normal_speed
from dexengines.lcp.vectors import fill, put

SMALLEST = 1e-15
"""Share of the first iteration of the free motion below which further ones are left out."""


@inner
def _pull_lcp(above, L, rows, cls, f, u, u_bar, f_bar, unregularised, w, Z, J_bar, mu_bar):
    """Pull back u = v* + Yᵀ f(A, b) to J, μ and the velocities that b is taken at.

    Args:
        f: the forces, f_bar: (n,) their cotangent; u: (V,) the velocity at which A f + b vanishes
            on active rows.
        u_bar: (V,) cotangent of the velocity after; Jᵀ Z is subtracted.
        w: (V,) written: −w (u − v*)ᵀ is the cotangent of M. Z: (n,) written: minus that of b.
        J_bar, mu_bar: added to.
    """
    J = rows.J
    n, nv = J.shape
    pull_forces(rows, cls, f, f_bar, unregularised, Z, mu_bar)
    for i in range(n):
        if Z[i] != 0.0:
            for k in range(nv):
                u_bar[k] -= Z[i] * J[i, k]
    put(w, u_bar)
    solve_mass(above, L, w)
    for i in range(n):
        if f[i] != 0.0 or Z[i] != 0.0:
            for k in range(nv):
                J_bar[i, k] += f[i] * w[k] - Z[i] * u[k]


@inner
def _times(J, x, out):
    """Write J x (n,) to ``out``."""
    for i in range(J.shape[0]):
        total = 0.0
        for k in range(x.size):
            total += J[i, k] * x[k]
        out[i] = total


@inner
def _pull_restitution(rows, e, f_bar, b_bar, e_bar):
    """Pull back :func:`.impact.apply_restitution`: f_bar goes from after it to before it. Return
    the factors (n,) of the forces."""
    b, f, owner, n = rows.b, rows.f, rows.owner, rows.f.size
    group, factor = np.empty(n, np.int64), np.ones(n)
    linked_groups(rows.A, owner, group)
    for g in range(n):
        if group[g] != g:
            continue
        work, back, share_bar = 0.0, 0.0, 0.0
        for i in range(g, n):
            if group[i] == g:
                share_bar += f_bar[i] * f[i]
                if owner[i] < 0:
                    work += f[i] * b[i]
                    back += e[i] * f[i] * b[i]
        if not work < 0.0:
            continue
        share = back / work
        for i in range(g, n):
            if group[i] == g:
                factor[i] = 1.0 + share
                f_bar[i] *= 1.0 + share
                if owner[i] < 0:
                    rate = share_bar * (e[i] - share) / work
                    f_bar[i] += rate * b[i]
                    b_bar[i] += rate * f[i]
                    e_bar[i] += share_bar * f[i] * b[i] / work
    return factor


@inner
def _pull_given(par, shapes, tape, rows, f_bar, b_bar, out):
    """Pull back the restitution of a response to its forces and b, and add to the cotangent of the
    coefficients; return the factors (n,) of the forces."""
    e, e_bar = np.empty(rows.f.size), np.zeros(rows.f.size)
    restitutions(par, shapes, tape, rows, e)
    given, k = _pull_restitution(rows, e, f_bar, b_bar, e_bar), rows.first - 1
    for r in range(e.size):
        if rows.owner[r] < 0:
            k += 1
            out.restitution[shapes.restitution_of[tape.feature[k, 4]]] += e_bar[r]
    return given


@inner
def _pull_response(world, par, tape, op, q, v, m, unit, out, q_bar, v_bar):
    """Pull back a response: v_bar goes from after it to before it, q_bar is added to."""
    tree, nv = world.tree, v.size
    rows = response_rows(world, par, tape, op, q, v, m)
    J, Y, f, n = rows.J, rows.Y, rows.f, rows.f.size
    cls, unregularised = tape.cls[op[3] : op[3] + n], op[9] & 1
    w, f_bar, J_bar, mu_bar, b_bar = v_bar.copy(), np.empty(n), np.zeros((n, nv)), np.zeros(n), np.zeros(n)
    solve_mass(tree.above, m.M, w)
    _times(J, w, f_bar)
    given, zero, u = np.ones(n), np.zeros(nv), v.copy()
    add_impulse(rows, u)
    if op[8] == 1:
        given = _pull_given(par, world.shapes, tape, rows, f_bar, b_bar, out)
    inertias(tree, unit, m)
    end, off, Z, w2 = np.zeros(nv), np.zeros(nv), np.empty(n), np.empty(nv)
    for r in range(n):
        for k in range(nv):
            end[k] += given[r] * f[r] * Y[r, k]
            J_bar[r, k] += given[r] * f[r] * w[k] + b_bar[r] * v[k]
            off[k] += b_bar[r] * J[r, k]
    for k in range(nv):
        w[k] = -w[k]
    pull_inverse_dynamics(tree, par.mass, m, w, zero, end, 0.0, out, np.empty(nv))
    total = np.zeros(nv)
    _pull_lcp(tree.above, m.M, rows, cls, f, u, total, f_bar, unregularised, w2, Z, J_bar, mu_bar)
    for k in range(nv):
        v_bar[k] += off[k] + total[k]
        w2[k] = -w2[k]
        end[k] = u[k] - v[k]
    pull_inverse_dynamics(tree, par.mass, m, w2, zero, end, 0.0, out, np.empty(nv))
    pull_contact_rows(
        world, par.friction, m, tape, rows, (v, v), J_bar, b_bar * 0.0, mu_bar, out, (v_bar, v_bar)
    )
    pull_kinematics(tree, m, out, q_bar)


@inner
def _pull_free(tree, par, v, halves, rounds, star, h, m, out, star_bar, v_bar, tau_bar):
    """Pull back the ``rounds`` iterations of :func:`.step.free_velocity`; return the cotangent of
    h.

    Args:
        star: (V,) the velocity after, star_bar: its cotangent, both overwritten. v_bar, tau_bar:
            (V,) added to.
        m: factors of M + h D, inertias of bodies of 1 kg.
    """
    nv, h_bar, first = v.size, 0.0, 0.0
    w, a, back = np.empty(nv), np.empty(nv), np.empty(nv)
    for j in range(rounds - 1, -1, -1):
        put(w, star_bar)
        solve_mass(tree.above, m.M, w)
        size = 0.0
        for k in range(nv):
            size = max(size, abs(w[k]))
        first = max(first, size)
        if size <= SMALLEST * first:
            break
        for k in range(nv):
            a[k] = (star[k] - v[k]) / h
            h_bar += star_bar[k] * a[k] - w[k] * tree.damping[k] * (star[k] - v[k])
            v_bar[k] += star_bar[k] - h * tree.damping[k] * w[k]
            tau_bar[k] += h * w[k]
            w[k] *= -h
            back[k] = 0.0
        pull_inverse_dynamics(tree, par.mass, m, w, halves[j], a, 1.0, out, back)
        for k in range(nv):
            star_bar[k] = 0.5 * back[k] if j > 0 else 0.0
            v_bar[k] += 0.5 * back[k] if j > 0 else back[k]
            star[k] = 2.0 * halves[j, k] - v[k]
    return h_bar


@inner
def _pull_corrections(world, m, tape, rows, q, u, h, at, part, lift_bar, J_bar, gap_bar, q_bar, u_bar):
    """Pull back :func:`.correction.repeat_corrections`: ``lift_bar`` is set to zero where ``part``
    says that a row was corrected. Return the cotangent of h."""
    tree, shapes, gap, nv, h_bar = world.tree, world.shapes, rows.gap, u.size, 0.0
    row, end_bar = np.empty(nv), np.empty(nv)
    for r in range(part.size):
        if part[r] == LAST_PUSH:
            gap_bar[r] += lift_bar[r] / h
            h_bar -= lift_bar[r] * (gap[r] - rows.rest[r]) / (h * h)
        if part[r] >= FULL_PUSH:
            lift_bar[r] = 0.0
    for i in range(len(PARTS)):
        integrate(tree, q, u, PARTS[i] * h, at)
        kinematics(tree, at, m)
        t, r = PARTS[i] * h, 0
        fill(end_bar, 0.0)
        for k in range(rows.first, rows.last):
            if part[r] == i:
                end, _ = normal_speed(tree, shapes, m, tape.feature[k], tape.data[k], u, row)
                x = lift_bar[r]
                lift_bar[r] = 0.0
                gap_bar[r] -= x / t
                h_bar -= PARTS[i] * x * (end - gap[r]) / (t * t)
                for j in range(nv):
                    end_bar[j] += x / t * row[j]
                    J_bar[r, j] -= x * u[j]
                    u_bar[j] -= x * rows.J[r, j]
            r += 1
            while r < rows.owner.size and rows.owner[r] >= 0:
                r += 1
        h_bar += PARTS[i] * pull_integrate(tree, u, t, end_bar, q_bar, u_bar)
    return h_bar


@inner
def _pull_gaps(rows, h, Z, gap_bar):
    """Pull back :func:`.rows.move_right_hand_side` to the gaps, with −Z the cotangent of b; return
    the cotangent of h."""
    h_bar, gap = 0.0, rows.gap
    for r in range(gap.size):
        if rows.owner[r] < 0 and gap[r] > rows.rest[r]:
            gap_bar[r] -= Z[r] / h
            h_bar += Z[r] * (gap[r] - rows.rest[r]) / (h * h)
    return h_bar


@inner
def _pull_push(world, par, rows, cls, f, u, star, u_bar, unregularised, h, m, out, bars, star_bar):
    """Pull back the velocity u = v* + M⁻¹ Jᵀ f of one LCP of a move.

    Args:
        u_bar: (V,) its cotangent, set to zero.
        bars: cotangents of J, the gaps, μ and the corrections of b, added to.
        star_bar: (V,) of the free velocity, added to.

    Returns:
        The cotangent of h.
    """
    tree, n, nv, h_bar = world.tree, f.size, star.size, 0.0
    J_bar, gap_bar, mu_bar, lift_bar = bars
    f_bar, Z, w, y, zero = np.empty(n), np.empty(n), np.empty(nv), np.empty(nv), np.zeros(nv)
    put(w, u_bar)
    solve_mass(tree.above, m.M, w)
    _times(rows.J, w, f_bar)
    _pull_lcp(tree.above, m.M, rows, cls, f, u, u_bar, f_bar, unregularised, w, Z, J_bar, mu_bar)
    for k in range(nv):
        y[k] = u[k] - star[k]
        star_bar[k] += u_bar[k]
        u_bar[k] = 0.0
        h_bar -= w[k] * tree.damping[k] * y[k]
        w[k] = -w[k]
    pull_inverse_dynamics(tree, par.mass, m, w, zero, y, 0.0, out, np.empty(nv))
    for j in range(n):
        lift_bar[j] -= Z[j]
    return h_bar + _pull_gaps(rows, h, Z, gap_bar)


@inner
def _pull_limits(world, tape, op, rows, gap_bar, q_bar):
    for k in range(op[5] - op[4]):
        limit, x = tape.limit[op[4] + k], gap_bar[rows.contacts + k]
        q_bar[world.limit_v[limit // 2]] += -x if limit % 2 else x


@inner
def _make_bars(n, nv):
    return np.zeros((n, nv)), np.zeros(n), np.zeros(n), np.zeros(n)


@inner
def _pull_contacts(
    world, par, tape, op, q, star, turned, us, fs, rows, h, m, out, q_bar, u_bar, after_bar, star_bar
):
    """Pull back the effect of contacts and limits on a move.

    Args:
        turned: (1 + turns, V) velocities of the LCPs before the first; row 0 is unset.
        us: (1 + rounds, V), fs: (1 + rounds, n) velocities and forces of its LCPs.
        u_bar, after_bar: (V,) cotangents of the velocity that moves and of the one that is kept,
            overwritten.
        star_bar: (V,) of the free velocity, added to.

    Returns:
        The cotangent of h.
    """
    nv, h_bar, at, turns = star.size, 0.0, np.empty(q.size), op[12]
    start, n = start_of_turn(world, par, tape, op, turns), rows.f.size
    bars, slip_bar = _make_bars(n, nv), np.zeros(nv)
    for i in range(op[10], -1, -1):
        if i == op[10] - op[8]:
            for k in range(nv):
                u_bar[k] += after_bar[k]
        r, bit = start + 2 * i * n, (op[9] >> i) & 1
        cls = tape.cls[r : r + n]
        h_bar += _pull_push(world, par, rows, cls, fs[i], us[i], star, u_bar, bit, h, m, out, bars, star_bar)
        if i > 0:
            J_bar, gap_bar, _, lift_bar = bars
            part = tape.cls[r - n : r]
            h_bar += _pull_corrections(
                world, m, tape, rows, q, us[i - 1], h, at, part, lift_bar, J_bar, gap_bar, q_bar, u_bar
            )
            kinematics(world.tree, q, m)
    for i in range(turns, -1, -1):
        if i < turns:
            rows, cls = turned_rows(world, par, tape, op, i, q, star, turned[i], h, m)
            bars, bit = _make_bars(rows.f.size, nv), (op[9] >> (16 + i)) & 1
            put(u_bar, slip_bar)
            h_bar += _pull_push(
                world, par, rows, cls, rows.f, turned[i + 1], star, u_bar, bit, h, m, out, bars, star_bar
            )
        J_bar, gap_bar, mu_bar, _ = bars
        fill(slip_bar, 0.0)
        pull_contact_rows(
            world, par.friction, m, tape, rows, (star, turned[i]), J_bar, gap_bar, mu_bar, out,
            (star_bar, slip_bar),
        )  # fmt: skip
        _pull_limits(world, tape, op, rows, gap_bar, q_bar)
    return h_bar


@inner
def _pull_end(
    world, tape, i, q, v, u, after, flying, later, h, m, at, q_bar, v_bar, u_bar, after_bar, rest_bar
):
    """Pull back the end of a move: q_bar and v_bar go from its end to their part that does not
    depend on u. Return the cotangent of h.

    Args:
        later: see :func:`.step.end_shares`.
    """
    tree, shapes, nv = world.tree, world.shapes, v.size
    end_bar, met = q_bar.copy(), tape.op[i, 6]
    fill(q_bar, 0.0)
    share, flight = end_shares(tape.length[i] / h, later, met)
    if met == NONE:
        h_bar = 0.0
        for k in range(nv):
            x = flight if flying[k] else share
            h_bar += later / h * v_bar[k] * (after[k] - v[k]) if flying[k] else 0.0
            after_bar[k] = x * v_bar[k]
            v_bar[k] *= 1.0 - x
        return h_bar + pull_integrate(tree, u, h, end_bar, q_bar, u_bar)
    s, h_bar = tape.length[i], rest_bar
    if met != STOPPED:
        row, scratch = np.empty(nv), np.zeros(nv)
        integrate(tree, q, u, s, at)
        kinematics(tree, at, m)
        _, rate = normal_speed(tree, shapes, m, tape.feature[met], tape.data[met], u, row)
        s_bar = pull_integrate(tree, u, s, end_bar, scratch, scratch) - rest_bar
        for k in range(nv):
            s_bar += v_bar[k] * (after[k] - v[k]) / h
        if rate < 0.0:
            for k in range(nv):
                end_bar[k] -= s_bar / rate * row[k]
    pull_integrate(tree, u, s, end_bar, q_bar, u_bar)
    for k in range(nv):
        h_bar -= s / (h * h) * v_bar[k] * (after[k] - v[k])
        x = flight if flying[k] else share
        after_bar[k] = x * v_bar[k]
        v_bar[k] *= 1.0 - x
    return h_bar


@inner
def _pull_move(world, par, tape, i, q, v, h, dt, tau, m, unit, out, tau_bar, q_bar, v_bar, rest_bar):
    """Pull back a move: q_bar and v_bar go from its end to its beginning. Return the cotangent of
    the time left before it."""
    tree, op, nv = world.tree, tape.op[i], v.size
    star, halves, at = np.empty(nv), np.empty((HALFWAY_ROUNDS, nv)), np.empty(q.size)
    kinematics(tree, q, m)
    rounds = free_velocity(tree, par.mass, v, tau, h, m, halves, False, star)
    limit, turned = tape.limit[op[4] : op[5]], np.empty((1 + op[12], nv))
    mode = tape.mode[op[1] : op[2]].copy()
    for k in range(op[12]):
        rows, _ = turned_rows(world, par, tape, op, k, q, star, turned[k], h, m)
        put(turned[k + 1], star)
        add_impulse(rows, turned[k + 1])
    put(tape.mode[op[1] : op[2]], mode)
    rows = make_rows(world, par, tape, m, q, (star, turned[op[12]]), (op[1], op[2]), limit, False)
    n, start = rows.f.size, start_of_turn(world, par, tape, op, op[12])
    move_right_hand_side(rows, star, h)
    us, fs = np.empty((1 + op[10], nv)), np.empty((1 + op[10], n))
    repeat_lcps(world, tape, op, start, rows, q, star, h, m, at, us, fs)
    u, after, flying = us[op[10]].copy(), us[op[10] - op[8]], np.empty(nv, np.bool_)
    find_flying(tree.above, rows, fs[op[10] - op[8]], (v, after, u), star, flying)
    later = 0.0 if op[13] else 0.5 * dt / h
    for k in range(nv):
        u[k] += 0.5 * (v[k] - after[k]) if later > 0.0 and flying[k] else 0.0
    u_bar, after_bar, star_bar = np.zeros(nv), np.empty(nv), np.zeros(nv)
    h_bar = _pull_end(
        world, tape, i, q, v, u, after, flying, later, h, m, at, q_bar, v_bar, u_bar, after_bar, rest_bar
    )
    for k in range(nv):
        if later > 0.0 and flying[k]:
            v_bar[k] += 0.5 * u_bar[k]
            after_bar[k] -= 0.5 * u_bar[k]
    if op[6] >= 0:
        kinematics(tree, q, m)
    inertias(tree, unit, m)
    if n > 0:
        h_bar += _pull_contacts(
            world, par, tape, op, q, star, turned, us, fs, rows, h, m, out, q_bar, u_bar, after_bar, star_bar
        )
    else:
        for k in range(nv):
            star_bar[k] = u_bar[k] + after_bar[k]
    put(tape.mode[op[1] : op[2]], mode)
    h_bar += _pull_free(tree, par, v, halves, rounds, star, h, m, out, star_bar, v_bar, tau_bar)
    pull_kinematics(tree, m, out, q_bar)
    return h_bar


@inner
def _times_left(tape):
    """Return (n, 2) the time that was left of the step before each operation, and the step [s]."""
    left, rest, dt = np.empty((tape.size[0], 2)), 0.0, 0.0
    for i in range(tape.size[0]):
        left[i] = rest, dt
        if tape.op[i, 0] == BEGIN:
            rest = dt = tape.length[i]
        elif tape.op[i, 0] == MOVE and tape.op[i, 6] != NONE:
            rest -= tape.length[i]
    return left


@entry(nogil=True)  # so that scenes can be swept concurrently
def pull_back(addresses, tau, state, cotangents):
    """Apply the transposed derivative of a recorded rollout.

    Args:
        addresses: (5,), see :class:`.record.Simulation`; its parameters are those of the
            rollout.
        tau: (T, V).
        state: (Q + V,) cotangents of q and v at the end, overwritten by those at the beginning.
        cotangents: address of stored :class:`.dynamics_adjoint.Cotangents`, zeros; those of the other
            inputs are added.
    """
    simulation, out = refer(addresses), load(cotangents, COTANGENTS)
    world, par, tape, m = simulation.world, simulation.parameters, simulation.tape, simulation.motion
    tree, nq, nv, ops = world.tree, tape.q.shape[1], tau.shape[1], tape.size[0]
    if ops == 0:
        return
    left, unit = _times_left(tape), np.ones(par.mass.size)
    q_bar, v_bar, rest_bar, control = np.empty(nv), state[nq:], 0.0, tau.shape[0] - 1
    coordinates_to_tangent(tree, tape.q[ops - 1], state[:nq], q_bar)
    for i in range(ops - 1, -1, -1):
        if tape.op[i, 0] == BEGIN:
            control, rest_bar = control - 1, 0.0
            continue
        q, v = tape.q[i - 1], tape.v[i - 1]
        if tape.op[i, 0] == IMPACT:
            _pull_response(world, par, tape, tape.op[i], q, v, m, unit, out, q_bar, v_bar)
        else:
            rest_bar = _pull_move(
                world, par, tape, i, q, v, left[i, 0], left[i, 1], tau[control], m, unit, out,
                out.tau[control], q_bar, v_bar, rest_bar,
            )  # fmt: skip
    tangent_to_coordinates(tree, tape.q[0], q_bar, state[:nq])
