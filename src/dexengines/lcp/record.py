"""Data of a simulation: world, parameters, tape of decisions, memory, and the entries of counts and
extremes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dexengines.kernels import inner, load, tuple_type
from dexengines.lcp.dynamics import MOTION, TREE, Motion
from dexengines.lcp.features import DATA
from dexengines.lcp.shapes import SHAPES

SUBSTEPS, IMPACTS, UNSOLVED, PLASTIC_ENDS, WARM = range(5)
RETRIED, EVALUATIONS, SOLVES, OVERLAPS, INEXACT_TIMES = range(5, 10)
"""Entries of the counts: substeps; impact responses; LCPs without valid solution; impacts ended by
a plastic pass over all contacts; LCPs solved by the last classes; by Lemke's second or later try;
distance evaluations; LCPs; pairs found overlapping; impacts whose time is safe, but not that of the
target gap."""
RESIDUAL, SMALLEST_GAP = range(2)
"""Entries of the extremes."""
MOVE, IMPACT, BEGIN = 0, 1, 2
"""Kinds of operations on the tape."""
NONE, STOPPED = -1, -2
"""In place of the contact that ended a move: none; a pair that overlaps went deeper, at a time
without derivative."""
FITS, CONTACTS_FULL, TAPE_FULL, NOT_FINITE, STALLED = 0, 1, 2, 3, 4
"""Status of a step; a stalled one had a thousand substeps that advanced it by less than a
thousandth."""


class World(NamedTuple):
    """Constants of a simulation."""

    tree: object
    shapes: object
    limit_q: np.ndarray
    limit_v: np.ndarray
    limit_range: np.ndarray
    """(limits, 2)"""
    directions: int
    """Friction rows per contact: half the corners of the friction polygon."""


WORLD = tuple_type(World, "l1 l1 f2 l", TREE, SHAPES)


class Parameters(NamedTuple):
    """Parameters with derivatives."""

    mass: np.ndarray
    """(B,) [kg]; moments of inertia scale with it."""
    friction: np.ndarray
    """(G,) of the geometries, then of pairs that have their own."""
    restitution: np.ndarray
    """(G,)"""


PARAMETERS = tuple_type(Parameters, "f1 f1 f1")


class Tape(NamedTuple):
    """Decisions of a step or rollout, and the impulses of its contacts."""

    size: np.ndarray
    """(4,) numbers of operations, contacts, classes, limits."""
    op: np.ndarray
    """(n, 14): kind; first and last contact; first class; first and last limit; contact of the
    impact that ended it; index of the controls; whether an impact has restitution, or a move's
    velocities leave out a push; LCPs whose forces are not regularised (bit i for the i-th); number
    of LCPs after the first, for the curvature of gaps and the push; binary exponent of the floor of
    the impact; number of LCPs before the first, whose sliding contacts had other directions (bit 16
    + i for the i-th); 1 for the first move of a step."""
    length: np.ndarray
    """(n,) duration of a move, of a step where it begins [s]."""
    q: np.ndarray
    """(n, Q) configuration at its end."""
    v: np.ndarray
    """(n, V) velocities at its end."""
    feature: np.ndarray
    """(contacts, 7) geometries a and b, kind, side, pair, indices of the two features."""
    data: np.ndarray
    """(contacts, DATA), see :data:`.features.DATA`."""
    mode: np.ndarray
    """(contacts,) see :func:`.rows.make_rows`."""
    report: np.ndarray
    """(contacts, 10) of contacts with rows: gap [m], normal from a to b, point, impulse on b [N
    s]."""
    cls: np.ndarray
    """Of every LCP with other directions the modes of its contacts, then the classes of its rows;
    classes of the first LCP; for every further one the part of the move after which each row was
    corrected, then classes."""
    limit: np.ndarray


TAPE = tuple_type(Tape, "l1 l2 f1 f2 f2 l2 f2 l1 f2 l1 l1")


class Memory(NamedTuple):
    """Guesses that one step leaves for the next; they change its time, never its result beyond
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


MEMORY = tuple_type(Memory, "f2 l2 l2 l1 l1")


class Simulation(NamedTuple):
    """Data that a simulation reads and writes besides its state. Entries from Python take the (5,)
    addresses of its parts, each a :class:`~dexengines.kernels.Stored`."""

    world: World
    parameters: Parameters
    tape: Tape
    memory: Memory
    motion: Motion


KINDS = WORLD, PARAMETERS, TAPE, MEMORY, MOTION


@inner
def refer(addresses):
    """Return the :class:`Simulation` of references to the parts at (5,) addresses."""
    return Simulation(
        load(addresses[0], WORLD),
        load(addresses[1], PARAMETERS),
        load(addresses[2], TAPE),
        load(addresses[3], MEMORY),
        load(addresses[4], MOTION),
    )


def make_tape(nq: int, nv: int, ops: int, contacts: int, directions: int, limits: int) -> Tape:
    """Allocate a tape for a number of operations and contacts."""
    return Tape(
        np.zeros(4, np.int64),
        np.zeros((ops, 14), np.int64),
        np.zeros(ops),
        np.zeros((ops, nq)),
        np.zeros((ops, nv)),
        np.zeros((contacts, 7), np.int64),
        np.zeros((contacts, DATA)),
        np.zeros(contacts, np.int64),
        np.zeros((contacts, 10)),
        np.zeros(contacts * (1 + directions) + ops * 2 * limits, np.int64),
        np.zeros(ops * 2 * limits, np.int64),
    )
