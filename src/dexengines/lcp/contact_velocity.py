"""Velocity of a substep under contacts and joint limits: one LCP, more for the curvature of gaps,
and one to push contacts open."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.classes import CLAMP, HIGH, LOW, SEPARATE, STICK
from dexengines.lcp.correction import PARTS, find_curvature, find_pushes
from dexengines.lcp.dynamics import bias_forces, kinematics, kinetic_energy
from dexengines.lcp.impact import solve_and_count
from dexengines.lcp.record import SOLVES, UNSOLVED, WARM
from dexengines.lcp.rows import (
    SLIDING,
    SLIP,
    add_impulse,
    make_rows,
    move_right_hand_side,
    report_impulses,
    slip_at,
)
from dexengines.lcp.solver import EXACT, FAILED, RETRY, solve_from_classes
from dexengines.lcp.vectors import fill, put

CURVATURE_ROUNDS = 4
"""Most LCPs for the curvature of gaps, which depends on how bodies move."""
TURNS = 2
"""Most LCPs in which friction directions are turned to the slip that the last one gives."""
MOST_CLASSES = 3 + 2 * CURVATURE_ROUNDS + 2 * TURNS
"""Most entries of a tape's classes for each row of a substep: those of the first LCP; of every
other one, its modes or parts and its classes."""


class Motion(NamedTuple):
    """State of a step, and velocities that its substeps work with; (V,) where not given."""

    q: np.ndarray
    """(Q,)"""
    v: np.ndarray
    tau: np.ndarray
    """Generalised forces."""
    u: np.ndarray
    """Velocity of the motion within the substep."""
    free: np.ndarray
    """Velocity without contacts."""
    flying: np.ndarray
    """True where no contact or limit acts on any body of the same tree."""
    after: np.ndarray
    """Velocity at the end of the substep, u without the push."""
    trial: np.ndarray
    """Scratch."""
    at: np.ndarray
    """(Q,) scratch."""
    row: np.ndarray
    """Scratch."""


@inner
def _rows_of(rows, r):
    """Return the number of rows of the contact whose normal row is r."""
    w = 1
    while r + w < rows.contacts and rows.owner[r + w] == r:
        w += 1
    return w


@inner
def _remembered(memory, feature, w, out):
    """Write the classes that the same contact had in the last move; return False if it is new."""
    for j in range(memory.size[0]):
        f = memory.feature[j]
        if (
            f[4] == feature[4]
            and f[2] == feature[2]
            and f[5] == feature[5]
            and f[6] == feature[6]
            and f[0] == feature[0]
        ):
            put(out[:w], memory.cls[j, :w])
            return True
    return False


@inner
def _recall(memory, tape, rows, limit, cls):
    """Write the classes to start from: those of the last move, "separate" for new contacts. Return
    whether there was a last move."""
    known, r = memory.size[0] > 0, 0
    for k in range(rows.first, rows.last):
        w = _rows_of(rows, r)
        if not _remembered(memory, tape.feature[k], w, cls[r:]):
            cls[r] = SEPARATE
            fill(cls[r + 1 : r + w], HIGH)
        r += w
    for k in range(limit.size):
        cls[r + k] = memory.limit_cls[limit[k]]
        known = known or cls[r + k] != SEPARATE
    return known


@inner
def _remember(memory, tape, rows, limit, cls):
    fill(memory.limit_cls, SEPARATE)
    r = 0
    for k in range(rows.first, rows.last):
        w = _rows_of(rows, r)
        j = k - rows.first
        if j < memory.feature.shape[0]:
            put(memory.feature[j], tape.feature[k])
            put(memory.cls[j], cls[r : r + w])
        r += w
    for k in range(limit.size):
        memory.limit_cls[limit[k]] = cls[r + k]


@inner
def find_flying(above, rows, f, velocities, free, flying):
    """Write which velocities (V,) belong to trees on which no row acts: none has a force f (n,), or
    would if those that fly had the velocity halfway to ``after``, and the others that at its end.

    Args:
        above: as in :class:`.dynamics.Tree`. rows: with the right-hand side at velocities ``free``.
        velocities: v at the start; ``after``, that at the end; u, the same with the push.
    """
    (v, after, u), J, landed = velocities, rows.J, True
    fill(flying, True)
    while landed:
        landed = False
        for r in range(f.size):
            w = rows.b[r]
            for k in range(above.size):
                w += J[r, k] * (u[k] - free[k])
                if flying[k]:
                    w += 0.5 * J[r, k] * (v[k] - after[k])
            if f[r] != 0.0 or (rows.owner[r] < 0 and w < 0.0):
                for k in range(above.size):
                    if flying[k] and J[r, k] != 0.0:
                        flying[k], landed = False, True
        for k in range(above.size - 1, -1, -1):  # down to the roots, and back up
            if above[k] >= 0:
                flying[above[k]] = flying[above[k]] and flying[k]
        for k in range(above.size):
            if above[k] >= 0:
                flying[k] = flying[above[k]]


@inner
def _find_sliding(world, m, tape, rows, cls, mode, u):
    """Set the mode of contacts with load that slide at velocities u, and that of the others to
    their first one, ``mode``; return whether any slides."""
    tree, body, found, r = world.tree, world.shapes.body, False, 0
    t, twist = np.empty(3), np.empty((2, 6))
    for k in range(rows.first, rows.last):
        w, feature, n, c = _rows_of(rows, r), tape.feature[k], rows.place[r, :3], rows.place[r, 3:]
        tape.mode[k] = mode[k - rows.first]
        if w > 1 and cls[r] == CLAMP:
            square = slip_at(tree, m.S, body[feature[0]], body[feature[1]], u, c, n, twist, t)
            if square > SLIP * SLIP:
                tape.mode[k], found = SLIDING, True
        r += w
    return found


@inner
def _turned_classes(tape, before, cls, rows, turned):
    """Write the classes to start from after a turn, from those before it."""
    r, s = 0, 0
    for k in range(rows.first, rows.last):
        w, x = _rows_of(rows, r), _rows_of(before, s)
        turned[r] = cls[s]
        for j in range(1, w):
            turned[r + j] = LOW if tape.mode[k] == SLIDING else cls[s + j] if x == w else STICK
        r, s = r + w, s + x
    put(turned[r:], cls[s:])


@inner
def _turn(world, par, tape, m, motion, rows, cls, limit, rest, bits, counts):
    """Solve again with the friction of contacts that slide along their slip, as long as any does.

    Within a pyramid, a contact that slides along one direction may also bear friction across it.
    Only Newton's method is tried; where it fails, the last solution remains.

    Args:
        rows, cls: the first LCP, solved, and its classes. ``motion.u`` is its velocity, overwritten.
        bits: 1 if its forces are not regularised.

    Returns:
        The rows and classes of the last LCP that was solved; the number of those before it, which
        are on the tape; a bit for each of them, and one for the last, whose forces are not
        regularised; where the tape's classes end.
    """
    turns, end, u = 0, tape.size[2], motion.u
    span, first = (rows.first, rows.last), tape.mode[rows.first : rows.last].copy()
    mode = first.copy()
    while turns < TURNS and _find_sliding(world, m, tape, rows, cls, first, u):
        turned = make_rows(world, par, tape, m, motion.q, (motion.free, u), span, limit, False)
        move_right_hand_side(turned, motion.free, rest)
        classes = np.empty(turned.f.size, np.int64)
        _turned_classes(tape, rows, cls, turned, classes)
        counts[SOLVES] += 1
        if solve_from_classes(turned.A, turned.b, turned.owner, turned.mu, classes, turned.f) > EXACT:
            break
        counts[WARM] += 1
        put(tape.cls[end : end + mode.size], mode)
        put(tape.cls[end + mode.size : end + mode.size + cls.size], cls)
        end += mode.size + cls.size
        put(mode, tape.mode[span[0] : span[1]])
        turns += 1
        bits += 1 << (15 + turns) if bits & 1 else 0
        bits -= bits & 1
        rows, cls = turned, classes
        put(u, motion.free)
        add_impulse(rows, u)
    put(tape.mode[span[0] : span[1]], mode)
    return rows, cls, turns, bits, end


@inner
def _energy_bound(tree, kinetic, tau, weight, v, u, rest):
    """Return the kinetic energy that forces allow within the rest of the step; contacts do no
    work."""
    most = kinetic
    for i in range(v.size):
        most += rest * (u[i] * (tau[i] - weight[i]) - 0.5 * tree.damping[i] * (v[i] ** 2 + u[i] ** 2))
    return most


@inner
def _correct_curvature(world, tape, m, motion, rows, lift, cls, start, rest, solved, counts, extremes):
    """Solve again while bodies would meet because they turn; a correction that exceeds the energy
    bound is tried for a shorter part of the time.

    Args:
        lift: (n,) correction of b; cls: (n,) classes; ``rows.f`` and both are written.
        start: where the tape has the classes of the LCP without it.
        solved: whether the LCP without it is.

    Returns:
        The number of LCPs recorded; a bit for each of them, from the second on, whose forces are
        not regularised; whether the last is solved.
    """
    tree, n, q, v, u, after = world.tree, cls.size, motion.q, motion.v, motion.u, motion.after
    first_cls, first_f = tape.cls[start : start + n], rows.f.copy()
    bias_forces(tree, np.zeros(m.bias.size), m)
    weight = m.bias.copy()
    kinetic = kinetic_energy(tree.above, m.M, v)
    rounds, bits, longest = 0, 0, 0
    while rounds < CURVATURE_ROUNDS and longest < len(PARTS):
        r = start + (1 + 2 * rounds) * n
        part = tape.cls[r : r + n]
        if not find_curvature(world, m, tape, rows, q, u, rest, motion.at, longest, part, lift):
            break
        way = solve_and_count(rows, rows.b + lift, cls, solved, counts, extremes)
        solved = way != FAILED
        put(motion.trial, motion.free)
        add_impulse(rows, motion.trial)
        most = _energy_bound(tree, kinetic, motion.tau, weight, v, motion.trial, rest)
        if not solved or kinetic_energy(tree.above, m.M, motion.trial) > most:
            longest, rounds, bits = longest + 1, 0, 0
            put(u, after)
            put(cls, first_cls)
            put(rows.f, first_f)
            fill(lift, 0.0)
            continue
        rounds += 1
        bits += 1 << rounds if way >= RETRY else 0
        put(u, motion.trial)
        put(tape.cls[r + n : r + 2 * n], cls)
    put(after, u)
    kinematics(tree, q, m)
    return rounds, bits, solved


@inner
def contact_velocity(world, par, tape, memory, m, motion, span, limit, rest, curved, counts, extremes):
    """Compute the velocities of bodies in contact.

    Args:
        m: poses at q, factors of the mass matrix.
        motion: u is the free velocity; u, free and after are written.
        span: the tape's contacts. limit: joint limits.
        rest: time that is left of the step [s].
        curved: whether to correct for the curvature of gaps.

    Returns:
        Number of LCPs after the first whose classes are on the tape; a bit for each one whose
        forces are not regularised; True if the last one is a push; number of LCPs before the first;
        where the tape's classes end.
    """
    u, free, after = motion.u, motion.free, motion.after
    put(free, u)
    put(after, u)
    rows = make_rows(world, par, tape, m, motion.q, (u, u), span, limit, True)
    n, rounds, pushed = rows.f.size, 0, False
    if n == 0:
        memory.size[0] = 0
        fill(motion.flying, True)
        return rounds, 0, pushed, 0, tape.size[2]
    classes = np.empty(n, np.int64)
    move_right_hand_side(rows, u, rest)
    known = _recall(memory, tape, rows, limit, classes)
    way = solve_and_count(rows, rows.b, classes, known, counts, extremes)
    _remember(memory, tape, rows, limit, classes)
    memory.size[0] = min(span[1] - span[0], memory.feature.shape[0])
    solved = way != FAILED
    bits, turns, start = 0 if solved and way < RETRY else 1, 0, tape.size[2]
    add_impulse(rows, u)
    if solved:
        rows, classes, turns, more, start = _turn(
            world, par, tape, m, motion, rows, classes, limit, rest, bits, counts
        )
        bits, n = more, rows.f.size
    else:
        counts[UNSOLVED] += 1
    lift = np.zeros(n)
    put(tape.cls[start : start + n], classes)
    put(after, u)
    if curved:
        rounds, more, solved = _correct_curvature(
            world, tape, m, motion, rows, lift, classes, start, rest, solved, counts, extremes
        )
        bits += more
    f = rows.f.copy()
    report_impulses(tape, rows, f)
    r = start + (1 + 2 * rounds) * n
    if find_pushes(rows, u, rest, tape.cls[r : r + n], lift):
        way = solve_and_count(rows, rows.b + lift, classes, solved, counts, extremes)
        if way != FAILED:  # it moves bodies; their velocities, and with them energy, stay those without it
            put(u, free)
            add_impulse(rows, u)
            rounds, pushed = rounds + 1, True
            bits += 1 << rounds if way >= RETRY else 0
            put(tape.cls[r + n : r + 2 * n], classes)
    find_flying(world.tree.above, rows, f, (motion.v, after, u), free, motion.flying)
    return rounds, bits, pushed, turns, start + (1 + 2 * rounds) * n
