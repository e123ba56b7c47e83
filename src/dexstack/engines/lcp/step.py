"""One step in generalised coordinates: velocity from an LCP, motion up to the first impact, response, and again until the step is over.

What is decided on the way (which features touch, classes, where friction directions point, which pair collides) goes onto a tape, from
which :mod:`.replay` repeats the step in complex numbers.
"""

from __future__ import annotations

import math

import numpy as np

from dexstack.engines.kernels import inner
from dexstack.engines.lcp.ccd import time_of_impact
from dexstack.engines.lcp.classes import HIGH, SEPARATE
from dexstack.engines.lcp.dynamics import bias_forces, factorise, inertias, kinematics, kinetic_energy, mass_matrix, solve_mass, twists
from dexstack.engines.lcp.impact import add_impulse, impact_floor, respond, resting_speed, solve_and_count
from dexstack.engines.lcp.near import FLOOR, add_pairs, balls_of_motion, detect
from dexstack.engines.lcp.record import (
    BEGIN,
    BLUNT,
    CONTACTS_FULL,
    EVALUATIONS,
    FITS,
    MOVE,
    NONE,
    NOT_FINITE,
    SMALLEST_GAP,
    STALLED,
    STOPPED,
    SUBSTEPS,
    TAPE_FULL,
    UNSOLVED,
)
from dexstack.engines.lcp.rows import PARTS, count_rows, find_bends, find_pushes, move_right_hand_side, problem
from dexstack.engines.lcp.touchdown import floor_below, normal_speed, touchdown
from dexstack.engines.lcp.vectors import fill, put

MARGIN = 1e-3
"""Gap up to which contacts have rows before they touch [m]."""
LIMIT_MARGIN = 0.05
"""The same for joint stops [rad or m]."""
HALFWAY_ROUNDS = 12
"""Most iterations for the velocity halfway."""
FOLLOW_ROUNDS = 4
"""Most LCPs for how contacts bend towards each other while bodies turn: it depends on how bodies move."""
DEEPER = 1.1
"""Depth, as a multiple of that at its start, at which a sub-step ends [of pairs that overlap]; it is solved anew from there."""
STALL_AFTER, PROGRESS = 1000, 1e-3
"""A step that so many sub-steps in a row advance by less than this share of it is refused: no time is ever left out."""


@inner
def free_velocity(tree, mass, v, tau, h, m, halves, known, out):
    """v* = v + h M⁻¹(τ − c) with c, Coriolis and gravity, at the velocity halfway to v*, and joint damping at its end.

    With c at the start, as printed, a spinning body gains energy without bound; halfway it keeps it.

    Args:
        m: poses; written: the factors of M + h D, bias forces.
        halves: (HALFWAY_ROUNDS, V) written: velocities at which c was taken, one an iteration.
        known: whether m holds the factors and forces of an earlier call, which a steady tree's still are.
        out: (V,) written.

    Returns:
        How many iterations it took.
    """
    nv = v.size
    known = known and tree.steady
    if not known:
        inertias(tree, mass, m)
        mass_matrix(tree, m)
        for i in range(nv):
            m.M[i, i] += h * tree.damping[i]
        factorise(tree.above, m.M)
    put(halves[0], v)
    rounds, k = 1 if tree.steady else HALFWAY_ROUNDS, 0
    while True:
        if not known:
            bias_forces(tree, halves[k], m)
        for i in range(nv):
            out[i] = h * (tau[i] - m.bias[i] - tree.damping[i] * v[i])
        solve_mass(tree.above, m.M, out)
        k += 1
        change, size = 0.0, 1.0
        for i in range(nv):
            out[i] += v[i]
            x = 0.5 * (v[i] + out[i])
            change = max(change, abs((x - halves[k - 1, i]).real))
            size = max(size, abs(x.real))
            if k < rounds:
                halves[k, i] = x
        if k == rounds or change <= 1e-14 * size:
            return k


@inner
def _weight(tree, m):
    """(V,) bias forces at rest; those of m are overwritten, but for a steady tree's, which are the same."""
    bias_forces(tree, np.zeros(m.bias.size), m)
    return m.bias.copy()


@inner
def _remembered(memory, feature, k, w, out):
    """Classes of the same contact in the last move; False if it is new."""
    for j in range(memory.size[0]):
        f = memory.feature[j]
        if f[4] == feature[k, 4] and f[2] == feature[k, 2] and f[5] == feature[k, 5] and f[6] == feature[k, 6] and f[0] == feature[k, 0]:
            put(out[:w], memory.cls[j, :w])
            return True
    return False


@inner
def advance(world, par, q, v, tau, dt, tape, memory, m, counts, extremes, control):
    """Advance q and v by one step of dt under the generalised forces tau; world, par, tape, memory and m are references.

    Long: the sub-steps share tape, memory and a dozen numbers, which its parts would hand to each other as arguments and results.

    Returns:
        ``FITS``; or what kept it from finishing, q and v then being somewhere within the step.
    """
    tree, shapes = world.tree, world.shapes
    nv = v.size
    P = shapes.pairs.shape[0]
    near, gaps, until, floor = np.empty(P, np.int64), np.empty(P), np.empty(P), np.empty(P)
    G = shapes.body.size
    K, x, room, travel = np.empty(G), np.empty((G, 3)), np.empty(G), np.empty(G)
    halves = np.empty((HALFWAY_ROUNDS, nv))
    u, at, row, free, after, around = np.empty(nv), np.empty(q.size), np.empty(nv), np.empty(nv), np.empty(nv), np.empty(nv)
    gain = np.empty(nv)
    if tape.size[0] + 2 > tape.op.shape[0]:
        return TAPE_FULL
    tape.op[tape.size[0], 0], tape.op[tape.size[0], 7] = BEGIN, control
    tape.length[tape.size[0]] = dt
    put(tape.q[tape.size[0]], q)
    put(tape.v[tape.size[0]], v)
    tape.size[0] += 1
    rest = mark = dt
    done, follow = 0, False
    while rest > 0.0:
        done += 1
        if done % STALL_AFTER == 0:
            if mark - rest < PROGRESS * dt:
                return STALLED
            mark = rest
        counts[SUBSTEPS] += 1
        kinematics(tree, q, m)
        free_velocity(tree, par.mass, v, tau, rest, m, halves, control > 0 or done > 1, u)
        if done == 1:
            for i in range(nv):
                gain[i] = u[i] - v[i]
        first = tape.size[1]
        twists(tree, u, m)
        balls_of_motion(tree, shapes, m, u, rest, K, x, room, travel)
        pairs, last = detect(world, m, MARGIN, memory, x, room, travel, gaps, near, tape, first, counts)
        if last > tape.feature.shape[0]:
            return CONTACTS_FULL
        for i in range(pairs):
            extremes[SMALLEST_GAP] = min(extremes[SMALLEST_GAP], gaps[i])
        bouncing, hit = False, False
        for k in range(first, last):
            bouncing = bouncing or par.restitution[shapes.restitution_of[tape.feature[k, 4]]] > 0.0
        if bouncing:
            before, resting = last - first, resting_speed(world, m, tape, first, last, gain, row)
            last, status, hit = respond(world, par, q, v, m, tape, first, last, resting, counts, extremes)
            if status != FITS:
                return status
            first = last - before
            if hit:
                free_velocity(tree, par.mass, v, tau, rest, m, halves, True, u)
            kept = first
            for k in range(first, last):  # what is about to bounce is left to its time of impact
                gap, speed = normal_speed(tree, shapes, m, tape.feature[k], tape.data[k], u, row)
                if gap > 0.0 and par.restitution[shapes.restitution_of[tape.feature[k, 4]]] > 0.0 and speed < -resting:
                    now = np.dot(row, v)  # it arrives with what it has now, and its part of what it gains within the step
                    if now + min(max(gap, 0.0) / (-speed * rest), 1.0) * (speed - now) < -resting:
                        continue
                if kept != k:
                    put(tape.feature[kept], tape.feature[k])
                    put(tape.data[kept], tape.data[k])
                kept += 1
            last = kept
        limits = 0
        if tape.size[3] + 2 * world.limit_q.size > tape.limit.size and world.limit_q.size > 0:
            return TAPE_FULL
        for i in range(world.limit_q.size):
            angle, speed = q[world.limit_q[i]], u[world.limit_v[i]]
            for upper in range(2):
                gap = world.limit_range[i, 1] - angle if upper else angle - world.limit_range[i, 0]
                if gap < LIMIT_MARGIN or gap + (-speed if upper else speed) * rest < LIMIT_MARGIN:
                    tape.limit[tape.size[3] + limits] = 2 * i + upper
                    limits += 1
        limit = tape.limit[tape.size[3] : tape.size[3] + limits]
        n = count_rows(par.friction, shapes.friction_of, tape.feature, first, last, world.directions, limits)
        if tape.size[0] + 2 > tape.op.shape[0] or tape.size[2] + (3 + 2 * FOLLOW_ROUNDS) * n > tape.cls.size:
            return TAPE_FULL
        plain, rounds, pushed = 0, 0, False
        cls = np.empty(n, np.int64)
        put(free, u)
        put(after, u)
        if n > 0:
            J, A, Y, b, f, gap_, mu, owner, contacts = problem(world, par, tape, m, q, u, first, last, limit, n, True)
            move_right_hand_side(J, u, gap_, owner, contacts, rest, b)
            known, r = memory.size[0] > 0, 0
            for k in range(first, last):
                w = 1
                while r + w < contacts and owner[r + w] == r:
                    w += 1
                if not _remembered(memory, tape.feature, k, w, cls[r:]):
                    cls[r] = SEPARATE
                    fill(cls[r + 1 : r + w], HIGH)
                r += w
            for k in range(limits):
                cls[r + k] = memory.limit_cls[limit[k]]
                known = known or cls[r + k] != SEPARATE
            way = solve_and_count(A, b, owner, mu, cls, f, known, counts, extremes)
            plain = 1 if way < 0 or way >= 2 else 0
            if way < 0:
                counts[UNSOLVED] += 1
            add_impulse(Y, f, u)
            put(tape.cls[tape.size[2] : tape.size[2] + n], cls)
            put(after, u)
            lift, other = np.zeros(n), cls.copy()
            if follow:
                weight = _weight(tree, m)
                kinetic = kinetic_energy(tree.above, m.M, v)
                longest = 0
                while rounds < FOLLOW_ROUNDS and longest < len(PARTS):
                    r = tape.size[2] + (1 + 2 * rounds) * n
                    part = tape.cls[r : r + n]
                    if not find_bends(world, m, tape, first, last, owner, gap_, J, q, u, rest, at, longest, part, lift):
                        break
                    way = solve_and_count(A, b + lift, owner, mu, other, f, way >= 0, counts, extremes)
                    put(around, free)
                    add_impulse(Y, f, around)
                    most = kinetic  # with the work of forces; contacts do none
                    for i in range(nv):
                        most += rest * (around[i] * (tau[i] - weight[i]) - 0.5 * tree.damping[i] * (v[i] ** 2 + around[i] ** 2))
                    if way < 0 or kinetic_energy(tree.above, m.M, around) > most:  # again, for less of the time
                        longest, rounds, plain = longest + 1, 0, plain & 1
                        put(u, after)
                        put(other, cls)
                        fill(lift, 0.0)
                        continue
                    rounds += 1
                    plain += 1 << rounds if way >= 2 else 0
                    put(u, around)
                    put(tape.cls[r + n : r + 2 * n], other)
                put(after, u)
                kinematics(tree, q, m)
            r = tape.size[2] + (1 + 2 * rounds) * n
            if find_pushes(J, u, gap_, contacts, owner, rest, tape.cls[r : r + n], lift):
                way = solve_and_count(A, b + lift, owner, mu, other, f, way >= 0, counts, extremes)
                if way >= 0:  # it moves bodies; their velocities, and with them energy, stay those without it
                    put(u, free)
                    add_impulse(Y, f, u)
                    rounds, pushed = rounds + 1, True
                    plain += 1 << rounds if way >= 2 else 0
                    put(tape.cls[r + n : r + 2 * n], other)
            fill(memory.limit_cls, SEPARATE)
            r = 0
            for k in range(first, last):
                w = 1
                while r + w < contacts and owner[r + w] == r:
                    w += 1
                j = k - first
                if j < memory.feature.shape[0]:
                    put(memory.feature[j], tape.feature[k])
                    put(memory.cls[j], cls[r : r + w])
                r += w
            for k in range(limits):
                memory.limit_cls[limit[k]] = cls[r + k]
        memory.size[0] = min(last - first, memory.feature.shape[0])
        if n > 0 or hit:  # otherwise u is what it was
            twists(tree, u, m)
            balls_of_motion(tree, shapes, m, u, rest, K, x, room, travel)
            pairs = add_pairs(shapes, m, memory, x, room, travel, gaps, near, pairs, counts)
        for i in range(pairs):
            floor[i] = DEEPER * gaps[i] - FLOOR
            if gaps[i] <= 0.0:
                continue
            floor[i] = FLOOR
            if par.restitution[shapes.restitution_of[near[i]]] > 0.0:
                floor[i] = impact_floor(shapes, shapes.pairs[near[i], 0], shapes.pairs[near[i], 1])
            floor[i] = floor_below(floor[i], gaps[i])
        for i in range(nv):
            if not np.isfinite(u[i]):
                return NOT_FINITE
        s, hit_pair = time_of_impact(
            tree, shapes, near[:pairs], floor[:pairs], gaps[:pairs], memory.axis, q, u, rest, m, at, K, until, counts[EVALUATIONS:]
        )
        end, met = last, NONE
        if hit_pair >= 0 and gaps[hit_pair] <= 0.0:
            met = STOPPED
        elif hit_pair >= 0:
            axis = memory.axis[near[hit_pair]]
            s, met, end, sharp = touchdown(tree, shapes, near[hit_pair], floor[hit_pair], q, u, s, axis, m, at, tape, last, row)
            if end > tape.feature.shape[0]:
                return CONTACTS_FULL
            counts[BLUNT] += not sharp
            for k in range(first, last):  # it had rows, linear in time: they do not say how it goes
                follow = follow or tape.feature[k, 4] == near[hit_pair]
        o = tape.op[tape.size[0]]
        o[0], o[1], o[2], o[3], o[4], o[5], o[6] = MOVE, first, last, tape.size[2], tape.size[3], tape.size[3] + limits, met
        o[8], o[9], o[10] = pushed, plain, rounds
        o[11] = math.frexp(floor[hit_pair])[1] if met >= 0 else 0
        tape.length[tape.size[0]] = s
        if hit_pair >= 0:
            for i in range(nv):
                v[i] += s / rest * (after[i] - v[i])
            rest -= s
        else:
            put(v, after)
            rest = 0.0
        put(q, at)
        put(tape.q[tape.size[0]], q)
        put(tape.v[tape.size[0]], v)
        tape.size[0] += 1
        tape.size[1] = end
        tape.size[2] += (1 + 2 * rounds) * n
        tape.size[3] += limits
    return FITS
