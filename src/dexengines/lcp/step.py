"""One step in generalised coordinates: velocity from an LCP, motion up to the first impact,
response, and again until the step is over.

Decisions (which features touch, classes, friction directions, which pair collides) are recorded on
a tape, which :mod:`.adjoint` sweeps back over.
"""

from __future__ import annotations

import math
from typing import NamedTuple

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
from dexengines.lcp.impact import bounce_threshold, impact_floor, respond
from dexengines.lcp.near import FLOOR, Near, add_pairs, bound_motion, detect, make_near
from dexengines.lcp.record import (
    BEGIN,
    CONTACTS_FULL,
    FITS,
    INEXACT_TIMES,
    MOVE,
    NONE,
    NOT_FINITE,
    SMALLEST_GAP,
    STALLED,
    STOPPED,
    SUBSTEPS,
    TAPE_FULL,
)
from dexengines.lcp.touchdown import floor_below, normal_speed, touchdown
from dexengines.lcp.vectors import put

MARGIN = 1e-3
"""Gap up to which contacts have rows before they touch [m]."""
LIMIT_MARGIN = 0.05
"""The same for joint limits [rad or m]."""
HALFWAY_ROUNDS = 12
"""Most iterations for the velocity halfway."""
DEEPER = 1.1
"""Depth of an overlapping pair, as a multiple of that at the start, at which a substep ends."""
STALL_AFTER, PROGRESS = 1000, 1e-3
"""Substeps after which a step that they advanced by less than this share of it is refused."""


class Work(NamedTuple):
    """Scratch of a step."""

    motion: Motion
    near: Near
    halves: np.ndarray
    """(HALFWAY_ROUNDS, V)"""
    gain: np.ndarray
    """(V,) change of velocity without contacts over the whole step."""


@inner
def free_velocity(tree, mass, v, tau, h, m, halves, known, out):
    """v* = v + h M⁻¹(τ − c) with c, Coriolis and gravity, at the velocity halfway to v*, and joint
    damping at its end.

    With c at the start, as printed, a spinning body gains energy without bound; halfway it keeps
    it.

    Args:
        m: poses; written: the factors of M + h D, bias forces.
        halves: (HALFWAY_ROUNDS, V) written: velocities at which c was taken, one per iteration.
        known: whether m holds the factors and forces of an earlier call, which remain valid for a
            steady tree.
        out: (V,) written.

    Returns:
        The number of iterations.
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
            change = max(change, abs(x - halves[k - 1, i]))
            size = max(size, abs(x))
            if k < rounds:
                halves[k, i] = x
        if k == rounds or change <= 1e-14 * size:
            return k


@inner
def _bounces(par, shapes, tape, first, last):
    """Return whether any of the contacts has a coefficient of restitution."""
    bouncing = False
    for k in range(first, last):
        bouncing = bouncing or par.restitution[shapes.restitution_of[tape.feature[k, 4]]] > 0.0
    return bouncing


@inner
def _drop_bouncing(world, par, m, tape, first, last, motion, rest, threshold):
    """Remove contacts that are about to bounce, which happens at their time of impact; return one
    past the last contact that stays."""
    tree, shapes, v, u, row = world.tree, world.shapes, motion.v, motion.u, motion.row
    kept = first
    for k in range(first, last):
        gap, speed = normal_speed(tree, shapes, m, tape.feature[k], tape.data[k], u, row)
        if (
            gap > 0.0
            and par.restitution[shapes.restitution_of[tape.feature[k, 4]]] > 0.0
            and speed < -threshold
        ):
            # it arrives with its present speed and a share of what it gains within the step
            now = np.dot(row, v)
            if now + min(max(gap, 0.0) / (-speed * rest), 1.0) * (speed - now) < -threshold:
                continue
        if kept != k:
            put(tape.feature[kept], tape.feature[k])
            put(tape.data[kept], tape.data[k])
        kept += 1
    return kept


@inner
def _near_limits(world, q, u, rest, tape):
    """Write the joint limits that are near, or come near within ``rest``, to the tape; return their
    number, or −1 if it is full."""
    joints, limits = world.limit_q.size, 0
    if tape.size[3] + 2 * joints > tape.limit.size and joints > 0:
        return -1
    for i in range(joints):
        angle, speed = q[world.limit_q[i]], u[world.limit_v[i]]
        for upper in range(2):
            gap = world.limit_range[i, 1] - angle if upper else angle - world.limit_range[i, 0]
            if gap < LIMIT_MARGIN or gap + (-speed if upper else speed) * rest < LIMIT_MARGIN:
                tape.limit[tape.size[3] + limits] = 2 * i + upper
                limits += 1
    return limits


@inner
def _floors(par, shapes, near, pairs):
    """Write the separations at which the substep ends."""
    for i in range(pairs):
        gap, pair = near.gap[i], near.pair[i]
        near.floor[i] = DEEPER * gap - FLOOR
        if gap <= 0.0:
            continue
        near.floor[i] = FLOOR
        if par.restitution[shapes.restitution_of[pair]] > 0.0:
            near.floor[i] = impact_floor(shapes, shapes.pairs[pair, 0], shapes.pairs[pair, 1])
        near.floor[i] = floor_below(near.floor[i], gap)


@inner
def _begin(tape, q, v, dt, control):
    i = tape.size[0]
    tape.op[i, 0], tape.op[i, 7] = BEGIN, control
    tape.length[i] = dt
    put(tape.q[i], q)
    put(tape.v[i], v)
    tape.size[0] += 1


@inner
def _collide(world, par, tape, memory, m, work, rest, counts, extremes):
    """Detect contacts at velocities u, respond to impacts, and leave out contacts about to bounce.

    Returns:
        Status; number of near pairs; first and one past the last contact; True if an impact changed
        v.
    """
    tree, shapes, motion, first, hit = world.tree, world.shapes, work.motion, tape.size[1], False
    twists(tree, motion.u, m)
    bound_motion(tree, shapes, m, motion.u, rest, work.near)
    pairs, last = detect(world, m, MARGIN, memory, work.near, tape, first, counts)
    if last > tape.feature.shape[0]:
        return CONTACTS_FULL, pairs, first, last, hit
    for i in range(pairs):
        extremes[SMALLEST_GAP] = min(extremes[SMALLEST_GAP], work.near.gap[i])
    if _bounces(par, shapes, tape, first, last):
        before, span = last - first, (first, last)
        threshold = bounce_threshold(world, m, tape, span, work.gain, motion.row)
        last, status, hit = respond(
            world, par, motion.q, motion.v, m, tape, span, threshold, counts, extremes
        )
        if status != FITS:
            return status, pairs, first, last, hit
        first = last - before
        if hit:
            free_velocity(tree, par.mass, motion.v, motion.tau, rest, m, work.halves, True, motion.u)
        last = _drop_bouncing(world, par, m, tape, first, last, motion, rest, threshold)
    return FITS, pairs, first, last, hit


@inner
def _move(world, tape, memory, m, work, pairs, last, rest, counts):
    """Move up to the first time at which a pair comes down to its floor, or to the end of the step.

    Returns:
        Its duration; the contact that ended it, ``STOPPED`` or ``NONE``; one past the last contact;
        the near pair, −1 if none.
    """
    tree, shapes, motion, near = world.tree, world.shapes, work.motion, work.near
    s, hit = time_of_impact(
        tree, shapes, near, pairs, memory.axis, motion.q, motion.u, rest, m, motion.at, counts
    )
    if hit < 0:
        return s, NONE, last, hit
    if near.gap[hit] <= 0.0:
        return s, STOPPED, last, hit
    pair = near.pair[hit]
    s, met, end, exact = touchdown(
        tree, shapes, pair, near.floor[hit], motion.q, motion.u, s, memory.axis[pair], m, motion.at, tape,
        last, motion.row,
    )  # fmt: skip
    counts[INEXACT_TIMES] += not exact
    return s, met, end, hit


@inner
def end_shares(part, later, met):
    """Return the shares of the change of velocity over the rest of a step that a move ends with:
    in contact, and in flight.

    A step moves bodies with the velocity at its end, v + h a. Their energy is kept if that is the
    velocity halfway, so that v lags behind by ½ h a. In flight an impact is met with the velocity
    of its time: the first move of a step makes good for the lag, those after it move with the
    velocity halfway, and the last falls behind again.

    Args:
        part: share of the rest of the step that the move takes.
        later: half the step, as a share of its rest, if it is not the step's first move; else 0.
    """
    if met == NONE:
        return 1.0, 1.0 - later
    return part, part + (0.5 if later == 0.0 else 0.0)


@inner
def _record_move(tape, span, limits, flags, motion, s, rest, later, met, end, floor):
    """Append a move to the tape and set q and v to its end; return the time left of the step [s].

    Args:
        later: half the step, as a share of ``rest``, if it is not the step's first move; else 0.
    """
    (first, last), (rounds, bits, pushed, turns, classes), i = span, flags, tape.size[0]
    o, q, v, after = tape.op[i], motion.q, motion.v, motion.after
    o[0], o[1], o[2], o[3], o[4], o[5] = MOVE, first, last, tape.size[2], tape.size[3], tape.size[3] + limits
    o[6], o[8], o[9], o[10] = met, pushed, bits, rounds
    o[11], o[12], o[13] = math.frexp(floor)[1] if met >= 0 else 0, turns, later == 0.0
    tape.length[i] = s
    share, flight = end_shares(s / rest, later, met)
    for k in range(v.size):
        v[k] += (flight if motion.flying[k] else share) * (after[k] - v[k])
    left = 0.0
    if met != NONE:
        for k in range(first, last):
            for j in range(7, 10):
                tape.report[k, j] *= s / rest
        left = rest - s
    put(q, motion.at)
    put(tape.q[i], q)
    put(tape.v[i], v)
    tape.size[0] += 1
    tape.size[1] = end
    tape.size[2] = classes
    tape.size[3] += limits
    return left


@inner
def _make_work(world, q, v, tau):
    nv = v.size
    motion = Motion(
        q, v, tau, np.empty(nv), np.empty(nv), np.empty(nv, np.bool_), np.empty(nv), np.empty(nv),
        np.empty(q.size), np.empty(nv),
    )  # fmt: skip
    near = make_near(world.shapes.pairs.shape[0], world.shapes.body.size)
    return Work(motion, near, np.empty((HALFWAY_ROUNDS, nv)), np.empty(nv))


@inner
def _substep(simulation, work, rest, later, curved, counts, extremes):
    """Advance by one substep from ``work.motion``, whose u is the free velocity.

    Args:
        rest: time that is left of the step [s].
        later: see :func:`end_shares`.
        curved: whether to correct for the curvature of gaps.

    Returns:
        Status; time left of the step [s]; ``curved`` for the substeps that follow.
    """
    world, par, tape, memory, m = (
        simulation.world, simulation.parameters, simulation.tape, simulation.memory, simulation.motion,
    )  # fmt: skip
    tree, shapes, motion, near, u = world.tree, world.shapes, work.motion, work.near, work.motion.u
    status, pairs, first, last, hit = _collide(world, par, tape, memory, m, work, rest, counts, extremes)
    if status != FITS:
        return status, rest, curved
    limits = _near_limits(world, motion.q, u, rest, tape)
    if limits < 0:
        return TAPE_FULL, rest, curved
    n = (last - first) * (1 + world.directions) + limits
    if tape.size[0] + 2 > tape.op.shape[0] or tape.size[2] + MOST_CLASSES * n > tape.cls.size:
        return TAPE_FULL, rest, curved
    limit = tape.limit[tape.size[3] : tape.size[3] + limits]
    flags = contact_velocity(
        world, par, tape, memory, m, motion, (first, last), limit, rest, curved, counts, extremes
    )
    if later > 0.0:
        for k in range(u.size):
            u[k] += 0.5 * (motion.v[k] - motion.after[k]) if motion.flying[k] else 0.0
    if n > 0 or hit or later > 0.0:  # otherwise u is unchanged
        twists(tree, u, m)
        bound_motion(tree, shapes, m, u, rest, near)
        pairs = add_pairs(shapes, m, memory, near, pairs, counts)
    _floors(par, shapes, near, pairs)
    for i in range(u.size):
        if not np.isfinite(u[i]):
            return NOT_FINITE, rest, curved
    s, met, end, pair = _move(world, tape, memory, m, work, pairs, last, rest, counts)
    if end > tape.feature.shape[0]:
        return CONTACTS_FULL, rest, curved
    if met >= 0:  # rows, linear in time, did not keep such a pair apart
        for k in range(first, last):
            curved = curved or tape.feature[k, 4] == near.pair[pair]
    floor = near.floor[pair] if pair >= 0 else 0.0
    left = _record_move(tape, (first, last), limits, flags, motion, s, rest, later, met, end, floor)
    return FITS, left, curved


@inner
def advance(simulation, q, v, tau, dt, counts, extremes, control):
    """Advance q and v by one step of dt under the generalised forces tau.

    Args:
        simulation: a :class:`.record.Simulation` of references.
        control: index of tau among the controls of a rollout.

    Returns:
        ``FITS``; or the reason why it did not finish, q and v then being somewhere within the step.
    """
    tree, tape, m = simulation.world.tree, simulation.tape, simulation.motion
    if tape.size[0] + 2 > tape.op.shape[0]:
        return TAPE_FULL
    work = _make_work(simulation.world, q, v, tau)
    _begin(tape, q, v, dt, control)
    rest = mark = dt
    done, curved = 0, False
    while rest > 0.0:
        done += 1
        if done % STALL_AFTER == 0:
            if mark - rest < PROGRESS * dt:
                return STALLED
            mark = rest
        counts[SUBSTEPS] += 1
        kinematics(tree, q, m)
        known = control > 0 or done > 1
        free_velocity(tree, simulation.parameters.mass, v, tau, rest, m, work.halves, known, work.motion.u)
        if done == 1:
            for i in range(v.size):
                work.gain[i] = work.motion.u[i] - v[i]
        later = 0.5 * dt / rest if done > 1 else 0.0
        status, rest, curved = _substep(simulation, work, rest, later, curved, counts, extremes)
        if status != FITS:
            return status
    return FITS
