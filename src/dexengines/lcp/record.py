"""What a simulation is made of, and what it records: world, parameters, tape of decisions, memory;
the entries of counts and extremes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dexengines.lcp.features import DATA

SUBSTEPS, IMPACTS, UNSOLVED, DROPPED, WARM, RETRIED, EVALUATIONS, SOLVES, OVERLAPS, BLUNT = range(10)
"""Entries of the counts: sub-steps; impact responses; LCPs without valid solution; impacts that a
plastic pass over all contacts ended; LCPs solved by the last classes; by Lemke's second or later
try; distance evaluations; LCPs; pairs found overlapping; impacts whose time is a safe one, but not
that of a certain gap."""
RESIDUAL, SMALLEST_GAP = range(2)
"""Entries of the extremes."""
MOVE, IMPACT, BEGIN = 0, 1, 2
"""Kinds of operations on the tape."""
NONE, STOPPED = -1, -2
"""In place of the contact that ended a move: none did; a pair that overlaps went deeper, at a time
without derivative."""
FITS, CONTACTS_FULL, TAPE_FULL, NOT_FINITE, STALLED = 0, 1, 2, 3, 4
"""How a step ends; a stalled one had a thousand sub-steps that advanced it by less than a
thousandth."""


class World(NamedTuple):
    """What does not change during a simulation."""

    tree: object
    shapes: object
    limit_q: np.ndarray
    limit_v: np.ndarray
    limit_range: np.ndarray
    """(limits, 2)"""
    directions: int
    """Friction rows per contact: half the corners of the friction polygon."""


class Parameters(NamedTuple):
    """What derivatives are taken with respect to, besides state and control."""

    mass: np.ndarray
    """(B,) [kg]; moments of inertia scale with it."""
    friction: np.ndarray
    """(G,) of the geometries, then of pairs with their own."""
    restitution: np.ndarray
    """(G,)"""


class Tape(NamedTuple):
    """What was decided. ``size``: numbers of operations, contacts, classes, limits."""

    size: np.ndarray
    op: np.ndarray
    """(n, 12): kind, first and last contact, first class, first and last limit, contact of the
    impact that ended it, index of the controls, whether an impact gives anything back or a move's
    velocities leave a push out, in which of the LCPs forces are not spread (bit i for the i-th),
    how many more LCPs followed the first, for contacts that bend and for the push, binary exponent
    of the floor of the impact."""
    length: np.ndarray
    """(n,) duration of a move [s]."""
    q: np.ndarray
    """(n, Q) configuration at its end."""
    v: np.ndarray
    """(n, V) velocities at its end."""
    feature: np.ndarray
    data: np.ndarray
    mode: np.ndarray
    cls: np.ndarray
    """Classes of the rows; for every further LCP which part of the move each row was looked at
    after, then classes."""
    limit: np.ndarray


class Memory(NamedTuple):
    """What one step leaves for the next: guesses that change its time, never its result beyond
    rounding."""

    axis: np.ndarray
    """(P, 3)"""
    feature: np.ndarray
    cls: np.ndarray
    """Classes of the last move's contacts, one row each."""
    size: np.ndarray
    """(1,)"""
    limit_cls: np.ndarray
    """(2 limits,)"""


def make_tape(nq: int, nv: int, ops: int, contacts: int, directions: int, limits: int) -> Tape:
    """Room for so many operations and contacts."""
    return Tape(
        np.zeros(4, np.int64),
        np.zeros((ops, 12), np.int64),
        np.zeros(ops),
        np.zeros((ops, nq)),
        np.zeros((ops, nv)),
        np.zeros((contacts, 7), np.int64),
        np.zeros((contacts, DATA)),
        np.zeros(contacts, np.int64),
        np.zeros(contacts * (1 + directions) + ops * 2 * limits, np.int64),
        np.zeros(ops * 2 * limits, np.int64),
    )
