"""Velocity of a sub-step under contacts and joint stops: an LCP, anew where contacts bend towards
each other, and to push them apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.classes import HIGH, SEPARATE
from dexengines.lcp.dynamics import bias_forces, kinematics, kinetic_energy
from dexengines.lcp.impact import add_impulse, solve_and_count
from dexengines.lcp.record import UNSOLVED
from dexengines.lcp.rows import PARTS, find_bends, find_pushes, move_right_hand_side, problem
from dexengines.lcp.vectors import fill, put

FOLLOW_ROUNDS = 4
"""Most LCPs for how contacts bend towards each other while bodies turn: it depends on how bodies
move."""
MOST_CLASSES = 3 + 2 * FOLLOW_ROUNDS
"""Most entries of a tape's classes for each row of a sub-step: those of the first LCP; of every
other one, its parts and its classes."""


class Motion(NamedTuple):
    """State of a step, and velocities that its sub-steps work with; (V,) where not said."""

    q: np.ndarray
    """(Q,)"""
    v: np.ndarray
    tau: np.ndarray
    """Generalised forces."""
    u: np.ndarray
    """At which bodies move within the sub-step."""
    free: np.ndarray
    """Without contacts."""
    after: np.ndarray
    """At the end of the sub-step: u without what pushes geometries apart."""
    around: np.ndarray
    """Room."""
    at: np.ndarray
    """(Q,) room."""
    row: np.ndarray
    """Room."""


class _Lcp(NamedTuple):
    """The rows of a sub-step, see :func:`.rows.problem`."""

    J: np.ndarray
    A: np.ndarray
    Y: np.ndarray
    b: np.ndarray
    f: np.ndarray
    gap: np.ndarray
    mu: np.ndarray
    owner: np.ndarray
    contacts: int
    lift: np.ndarray
    """(n,) what b is lowered by."""
    cls: np.ndarray
    """(n,) classes of the LCP with ``lift``."""


@inner
def _solve(lcp, b, cls, warm, counts, extremes):
    return solve_and_count(lcp.A, b, lcp.owner, lcp.mu, cls, lcp.f, warm, counts, extremes)


@inner
def _rows_of(lcp, r):
    """How many rows the contact has whose normal row is r."""
    w = 1
    while r + w < lcp.contacts and lcp.owner[r + w] == r:
        w += 1
    return w


@inner
def _remembered(memory, feature, k, w, out):
    """Classes of the same contact in the last move; False if it is new."""
    for j in range(memory.size[0]):
        f = memory.feature[j]
        if (
            f[4] == feature[k, 4]
            and f[2] == feature[k, 2]
            and f[5] == feature[k, 5]
            and f[6] == feature[k, 6]
            and f[0] == feature[k, 0]
        ):
            put(out[:w], memory.cls[j, :w])
            return True
    return False


@inner
def _recall(memory, tape, first, last, lcp, limit, cls):
    """Classes to start from: those of the last move, of what is new "separate". Whether there are
    any of the last move."""
    known, r = memory.size[0] > 0, 0
    for k in range(first, last):
        w = _rows_of(lcp, r)
        if not _remembered(memory, tape.feature, k, w, cls[r:]):
            cls[r] = SEPARATE
            fill(cls[r + 1 : r + w], HIGH)
        r += w
    for k in range(limit.size):
        cls[r + k] = memory.limit_cls[limit[k]]
        known = known or cls[r + k] != SEPARATE
    return known


@inner
def _remember(memory, tape, first, last, lcp, limit, cls):
    fill(memory.limit_cls, SEPARATE)
    r = 0
    for k in range(first, last):
        w = _rows_of(lcp, r)
        j = k - first
        if j < memory.feature.shape[0]:
            put(memory.feature[j], tape.feature[k])
            put(memory.cls[j], cls[r : r + w])
        r += w
    for k in range(limit.size):
        memory.limit_cls[limit[k]] = cls[r + k]


@inner
def _most_energy(tree, kinetic, tau, weight, v, u, rest):
    """Kinetic energy that forces may give within the rest of the step; contacts do no work."""
    most = kinetic
    for i in range(v.size):
        most += rest * (u[i] * (tau[i] - weight[i]) - 0.5 * tree.damping[i] * (v[i] ** 2 + u[i] ** 2))
    return most


@inner
def _follow_bends(world, tape, m, motion, lcp, first, last, rest, solved, counts, extremes):
    """Solve again while contacts bend towards each other; u is what it is without that if its
    energy says no.

    Args:
        solved: whether the LCP without it is.

    Returns:
        How many LCPs were solved for it; a bit for each of them, from the second on, that took any
        solution; whether the last is solved.
    """
    tree, n, q, v, u = world.tree, lcp.b.size, motion.q, motion.v, motion.u
    first_cls = tape.cls[tape.size[2] : tape.size[2] + n]
    bias_forces(tree, np.zeros(m.bias.size), m)
    weight = m.bias.copy()
    kinetic = kinetic_energy(tree.above, m.M, v)
    rounds, plain, longest = 0, 0, 0
    while rounds < FOLLOW_ROUNDS and longest < len(PARTS):
        r = tape.size[2] + (1 + 2 * rounds) * n
        part = tape.cls[r : r + n]
        if not find_bends(
            world,
            m,
            tape,
            first,
            last,
            lcp.owner,
            lcp.gap,
            lcp.J,
            q,
            u,
            rest,
            motion.at,
            longest,
            part,
            lcp.lift,
        ):
            break
        way = _solve(lcp, lcp.b + lcp.lift, lcp.cls, solved, counts, extremes)
        solved = way >= 0
        put(motion.around, motion.free)
        add_impulse(lcp.Y, lcp.f, motion.around)
        most = _most_energy(tree, kinetic, motion.tau, weight, v, motion.around, rest)
        if way < 0 or kinetic_energy(tree.above, m.M, motion.around) > most:  # again, for less of the time
            longest, rounds, plain = longest + 1, 0, 0
            put(u, motion.after)
            put(lcp.cls, first_cls)
            fill(lcp.lift, 0.0)
            continue
        rounds += 1
        plain += 1 << rounds if way >= 2 else 0
        put(u, motion.around)
        put(tape.cls[r + n : r + 2 * n], lcp.cls)
    put(motion.after, u)
    kinematics(tree, q, m)
    return rounds, plain, solved


@inner
def contact_velocity(
    world, par, tape, memory, m, motion, first, last, limit, n, rest, follow, counts, extremes
):
    """Velocities of bodies in contact.

    Args:
        m: poses at q, factors of the mass matrix.
        motion: u is the free velocity; u, free and after are written.
        first, last: the tape's contacts. limit: joint stops. n: rows of both.
        rest: what is left of the step [s].
        follow: whether contacts are looked at that bend towards each other.

    Returns:
        LCPs after the first whose classes lie on the tape; a bit for each one that took any
        solution; whether the last one is a push.
    """
    u, free, after = motion.u, motion.free, motion.after
    put(free, u)
    put(after, u)
    memory_size = min(last - first, memory.feature.shape[0])
    if n == 0:
        memory.size[0] = memory_size
        return 0, 0, False
    J, A, Y, b, f, gap, mu, owner, contacts = problem(
        world, par, tape, m, motion.q, u, first, last, limit, n, True
    )
    lcp = _Lcp(J, A, Y, b, f, gap, mu, owner, contacts, np.zeros(n), np.empty(n, np.int64))
    move_right_hand_side(J, u, gap, owner, contacts, rest, b)
    cls = tape.cls[tape.size[2] : tape.size[2] + n]
    known = _recall(memory, tape, first, last, lcp, limit, lcp.cls)
    way = _solve(lcp, b, lcp.cls, known, counts, extremes)
    solved, rounds, pushed = way >= 0, 0, False
    plain = 1 if way < 0 or way >= 2 else 0
    if not solved:
        counts[UNSOLVED] += 1
    add_impulse(Y, f, u)
    put(cls, lcp.cls)
    put(after, u)
    if follow:
        rounds, bits, solved = _follow_bends(
            world, tape, m, motion, lcp, first, last, rest, solved, counts, extremes
        )
        plain += bits
    r = tape.size[2] + (1 + 2 * rounds) * n
    if find_pushes(J, u, gap, contacts, owner, rest, tape.cls[r : r + n], lcp.lift):
        way = _solve(lcp, b + lcp.lift, lcp.cls, solved, counts, extremes)
        if way >= 0:  # it moves bodies; their velocities, and with them energy, stay those without it
            put(u, free)
            add_impulse(Y, f, u)
            rounds, pushed = rounds + 1, True
            plain += 1 << rounds if way >= 2 else 0
            put(tape.cls[r + n : r + 2 * n], lcp.cls)
    _remember(memory, tape, first, last, lcp, limit, cls)
    memory.size[0] = memory_size
    return rounds, plain, pushed
