"""One step in generalised coordinates: velocity from an LCP, motion up to the first impact,
response, and again until the step is over.

What is decided on the way (which features touch, classes, where friction directions point, which
pair collides) goes onto a tape, from which :mod:`.replay` repeats the step in complex numbers.
"""

from __future__ import annotations

import math

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.ccd import time_of_impact
from dexengines.lcp.contact_velocity import MOST_CLASSES, Motion, contact_velocity
from dexengines.lcp.dynamics import (
    bias_forces,
    factorise,
    inertias,
    kinematics,
    mass_matrix,
    solve_mass,
    twists,
)
from dexengines.lcp.impact import impact_floor, respond, resting_speed
from dexengines.lcp.near import FLOOR, add_pairs, balls_of_motion, detect
from dexengines.lcp.record import (
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
)
from dexengines.lcp.rows import count_rows
from dexengines.lcp.touchdown import floor_below, normal_speed, touchdown
from dexengines.lcp.vectors import put

MARGIN = 1e-3
"""Gap up to which contacts have rows before they touch [m]."""
LIMIT_MARGIN = 0.05
"""The same for joint stops [rad or m]."""
HALFWAY_ROUNDS = 12
"""Most iterations for the velocity halfway."""
DEEPER = 1.1
"""Depth, as a multiple of that at its start, at which a sub-step ends [of pairs that overlap]; it
is solved anew from there."""
STALL_AFTER, PROGRESS = 1000, 1e-3
"""A step that so many sub-steps in a row advance by less than this share of it is refused: no time
is ever left out."""


@inner
def free_velocity(tree, mass, v, tau, h, m, halves, known, out):
    """v* = v + h M⁻¹(τ − c) with c, Coriolis and gravity, at the velocity halfway to v*, and joint
    damping at its end.

    With c at the start, as printed, a spinning body gains energy without bound; halfway it keeps
    it.

    Args:
        m: poses; written: the factors of M + h D, bias forces.
        halves: (HALFWAY_ROUNDS, V) written: velocities at which c was taken, one an iteration.
        known: whether m holds the factors and forces of an earlier call, which a steady tree's
            still are.
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
def _bounces(par, shapes, tape, first, last):
    """Whether any of the contacts has a coefficient of restitution."""
    bouncing = False
    for k in range(first, last):
        bouncing = bouncing or par.restitution[shapes.restitution_of[tape.feature[k, 4]]] > 0.0
    return bouncing


@inner
def _drop_bouncing(world, par, m, tape, first, last, motion, rest, resting):
    """Take the rows of what is about to bounce: it is left to its time of impact.

    Returns:
        One past the last contact that stays.
    """
    tree, shapes, v, u, row = world.tree, world.shapes, motion.v, motion.u, motion.row
    kept = first
    for k in range(first, last):
        gap, speed = normal_speed(tree, shapes, m, tape.feature[k], tape.data[k], u, row)
        if (
            gap > 0.0
            and par.restitution[shapes.restitution_of[tape.feature[k, 4]]] > 0.0
            and speed < -resting
        ):
            now = np.dot(
                row, v
            )  # it arrives with what it has now, and its part of what it gains within the step
            if now + min(max(gap, 0.0) / (-speed * rest), 1.0) * (speed - now) < -resting:
                continue
        if kept != k:
            put(tape.feature[kept], tape.feature[k])
            put(tape.data[kept], tape.data[k])
        kept += 1
    return kept


@inner
def _near_stops(world, q, u, rest, tape):
    """Write the joint stops that are near, or come near within ``rest``, onto the tape; how many,
    or −1 if it is full."""
    stops, limits = world.limit_q.size, 0
    if tape.size[3] + 2 * stops > tape.limit.size and stops > 0:
        return -1
    for i in range(stops):
        angle, speed = q[world.limit_q[i]], u[world.limit_v[i]]
        for upper in range(2):
            gap = world.limit_range[i, 1] - angle if upper else angle - world.limit_range[i, 0]
            if gap < LIMIT_MARGIN or gap + (-speed if upper else speed) * rest < LIMIT_MARGIN:
                tape.limit[tape.size[3] + limits] = 2 * i + upper
                limits += 1
    return limits


@inner
def _floors(par, shapes, near, gaps, pairs, floor):
    """Gaps down to which pairs may come before the sub-step ends."""
    for i in range(pairs):
        floor[i] = DEEPER * gaps[i] - FLOOR
        if gaps[i] <= 0.0:
            continue
        floor[i] = FLOOR
        if par.restitution[shapes.restitution_of[near[i]]] > 0.0:
            floor[i] = impact_floor(shapes, shapes.pairs[near[i], 0], shapes.pairs[near[i], 1])
        floor[i] = floor_below(floor[i], gaps[i])


@inner
def _begin(tape, q, v, dt, control):
    i = tape.size[0]
    tape.op[i, 0], tape.op[i, 7] = BEGIN, control
    tape.length[i] = dt
    put(tape.q[i], q)
    put(tape.v[i], v)
    tape.size[0] += 1


@inner
def advance(world, par, q, v, tau, dt, tape, memory, m, counts, extremes, control):
    """Advance q and v by one step of dt under the generalised forces tau; world, par, tape, memory
    and m are references.

    Returns:
        ``FITS``; or what kept it from finishing, q and v then being somewhere within the step.
    """
    tree, shapes = world.tree, world.shapes
    nv, P, G = v.size, shapes.pairs.shape[0], shapes.body.size
    near, gaps, until, floor = np.empty(P, np.int64), np.empty(P), np.empty(P), np.empty(P)
    K, x, room, travel = np.empty(G), np.empty((G, 3)), np.empty(G), np.empty(G)
    halves, gain = np.empty((HALFWAY_ROUNDS, nv)), np.empty(nv)
    u, at, row = np.empty(nv), np.empty(q.size), np.empty(nv)
    motion = Motion(q, v, tau, u, np.empty(nv), np.empty(nv), np.empty(nv), at, row)
    if tape.size[0] + 2 > tape.op.shape[0]:
        return TAPE_FULL
    _begin(tape, q, v, dt, control)
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
        hit = False
        if _bounces(par, shapes, tape, first, last):
            before, resting = last - first, resting_speed(world, m, tape, first, last, gain, row)
            last, status, hit = respond(world, par, q, v, m, tape, first, last, resting, counts, extremes)
            if status != FITS:
                return status
            first = last - before
            if hit:
                free_velocity(tree, par.mass, v, tau, rest, m, halves, True, u)
            last = _drop_bouncing(world, par, m, tape, first, last, motion, rest, resting)
        limits = _near_stops(world, q, u, rest, tape)
        if limits < 0:
            return TAPE_FULL
        limit = tape.limit[tape.size[3] : tape.size[3] + limits]
        n = count_rows(par.friction, shapes.friction_of, tape.feature, first, last, world.directions, limits)
        if tape.size[0] + 2 > tape.op.shape[0] or tape.size[2] + MOST_CLASSES * n > tape.cls.size:
            return TAPE_FULL
        rounds, plain, pushed = contact_velocity(
            world, par, tape, memory, m, motion, first, last, limit, n, rest, follow, counts, extremes
        )
        if n > 0 or hit:  # otherwise u is what it was
            twists(tree, u, m)
            balls_of_motion(tree, shapes, m, u, rest, K, x, room, travel)
            pairs = add_pairs(shapes, m, memory, x, room, travel, gaps, near, pairs, counts)
        _floors(par, shapes, near, gaps, pairs, floor)
        for i in range(nv):
            if not np.isfinite(u[i]):
                return NOT_FINITE
        s, hit_pair = time_of_impact(
            tree,
            shapes,
            near[:pairs],
            floor[:pairs],
            gaps[:pairs],
            memory.axis,
            q,
            u,
            rest,
            m,
            at,
            K,
            until,
            counts[EVALUATIONS:],
        )
        end, met = last, NONE
        if hit_pair >= 0 and gaps[hit_pair] <= 0.0:
            met = STOPPED
        elif hit_pair >= 0:
            axis = memory.axis[near[hit_pair]]
            s, met, end, sharp = touchdown(
                tree, shapes, near[hit_pair], floor[hit_pair], q, u, s, axis, m, at, tape, last, row
            )
            if end > tape.feature.shape[0]:
                return CONTACTS_FULL
            counts[BLUNT] += not sharp
            for k in range(first, last):  # it had rows, linear in time: they do not say how it goes
                follow = follow or tape.feature[k, 4] == near[hit_pair]
        o = tape.op[tape.size[0]]
        o[0], o[1], o[2], o[3], o[4], o[5], o[6] = (
            MOVE,
            first,
            last,
            tape.size[2],
            tape.size[3],
            tape.size[3] + limits,
            met,
        )
        o[8], o[9], o[10] = pushed, plain, rounds
        o[11] = math.frexp(floor[hit_pair])[1] if met >= 0 else 0
        tape.length[tape.size[0]] = s
        if hit_pair >= 0:
            for i in range(nv):
                v[i] += s / rest * (motion.after[i] - v[i])
            rest -= s
        else:
            put(v, motion.after)
            rest = 0.0
        put(q, at)
        put(tape.q[tape.size[0]], q)
        put(tape.v[tape.size[0]], v)
        tape.size[0] += 1
        tape.size[1] = end
        tape.size[2] += (1 + 2 * rounds) * n
        tape.size[3] += limits
    return FITS
