"""The frictional LCP behind one interface: a status and a verified residual with every solution,
whatever found it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from dexengines.errors import EngineError
from dexengines.kernels import entry, inner
from dexengines.lcp.classes import (
    EVEN,
    HIGH,
    ROUNDS,
    SEPARATE,
    clip_classes,
    clip_forces,
    forces_of_classes,
    read_classes,
    relative,
    residual,
)
from dexengines.lcp.dantzig import dantzig
from dexengines.lcp.lemke import DONE, lemke
from dexengines.lcp.pgs import pgs
from dexengines.lcp.vectors import fill, put

TOLERANCE = 1e-9
"""Largest residual of a solution, relative to 1 + |f|."""
ENOUGH = 1e-12
"""Relative residual beyond which no polishing is tried."""
EXACT = 1e-11
"""Relative residual that the last classes must reach to be taken over, and the first covering
vectors to be content with."""
TRIES = 13
"""Most covering vectors tried, the first with forces spread."""
METHODS = ("lemke", "dantzig", "pgs")


class Status(IntEnum):
    """How a solve ended."""

    SOLVED = 0
    """Every row is within :data:`TOLERANCE`."""
    UNSOLVED = 1
    """No valid solution was found; the forces are the best seen, not a solution."""


class Way(IntEnum):
    """What found the solution."""

    WARM = 0
    """The classes given."""
    FIRST = 1
    """The method asked for, at once."""
    RETRY = 2
    """Lemke with another covering vector, forces not spread."""
    SEARCH = 3
    """The search of classes, after Dantzig's pivots had looped."""


@dataclass(frozen=True)
class Solution:
    """What a solve returns."""

    f: np.ndarray
    """(n,) forces or impulses."""
    status: Status
    residual: float
    """Largest error of any row relative to 1 + |f|; see :func:`.classes.residual`."""
    classes: np.ndarray
    """(n,) of :mod:`.classes`, a start for the next solve."""
    way: Way
    work: int
    """Pivots (Lemke), looping rows (Dantzig) or sweeps (PGS)."""


@inner
def _accept(A, b, owner, mu, cls, f, tolerance):
    """Polish forces by their classes, verify them. Returns the relative residual; ``f`` is
    overwritten only by something better."""
    clip_classes(owner, mu, f, cls)
    clip_forces(owner, mu, f)
    best = relative(A, b, owner, mu, f)
    g = np.empty(f.size)
    for rounds in range(0, 3, 2):
        if best <= ENOUGH:
            break
        forces_of_classes(A, b, owner, mu, cls, g, rounds, 0.0)
        clip_forces(owner, mu, g)
        error = relative(A, b, owner, mu, g)
        if error < best:
            best = error
            put(f, g)
    return best


@inner
def _spread(A, b, owner, mu, cls, f):
    """Forces of classes, spread over redundant contacts, into f. Their relative residual; infinite
    where there is no such solution.

    Classes that contradict each other would get forces so large that an error of any size is small
    beside them: here it is held against b.
    """
    forces_of_classes(A, b, owner, mu, cls, f, ROUNDS, EVEN)
    clip_classes(owner, mu, f, cls)
    clip_forces(owner, mu, f)
    top = 0.0
    for i in range(b.size):
        top = max(top, abs(b[i]))
    if residual(A, b, owner, mu, f) > EXACT * (1.0 + top):
        return np.inf
    return relative(A, b, owner, mu, f)


@inner
def solve_lcp(A, b, owner, mu, cls, f, warm, tolerance):
    """Warm start, then Lemke with up to ``TRIES`` covering vectors: each answer verified before it
    counts.

    Redundant contacts leave normal forces open, and with them how much friction each may bear: a
    solution at which two corners of a face carry everything lets a plate turn in a grip that would
    hold it. Warm start and first try therefore spread the forces
    (:func:`.classes.forces_of_classes`); the tries after that take any solution.

    Args:
        cls: (n,) classes to start from if ``warm``; overwritten by the solution's.
        f: (n,) overwritten by the forces.

    Returns:
        The :class:`Way` it was found, or −1; the relative residual; pivots in all.
    """
    n = b.size
    if n == 0:
        return 0, 0.0, 0
    best, way = np.inf, 2
    fill(f, 0.0)
    g, c = np.empty(n), np.empty(n, cls.dtype)
    if warm:
        error = _spread(A, b, owner, mu, cls, g)
        if error <= EXACT:
            put(f, g)
            return 0, error, 0
    if n == 1:  # the most frequent problem of all
        f[0] = max(-b[0] / A[0, 0], 0.0) if A[0, 0] > 0.0 else 0.0
        cls[0] = 1 if f[0] > 0.0 else 0
        error = relative(A, b, owner, mu, f)
        return (1 if error <= tolerance else -1), error, 1
    d = np.empty(n)
    seed = np.uint64(88172645463325252)  # the same problem always gets the same answer
    work = 0
    B = A.copy()
    for i in range(n):
        B[i, i] *= 1.0 + EVEN
    for attempt in range(TRIES):
        for i in range(n):
            seed ^= seed << np.uint64(13)
            seed ^= seed >> np.uint64(7)
            seed ^= seed << np.uint64(17)
            u = float(seed >> np.uint64(11)) / 9007199254740992.0
            scale = np.sqrt(max(A[i, i], 1e-300))
            d[i] = scale * (0.75 + 0.5 * u) if owner[i] < 0 else scale * (u - 0.5)
        status, pivots = lemke(A if attempt > 0 else B, b, owner, mu, d, c, g, 40 * n + 100)
        work += pivots
        if status != DONE:
            continue
        error = _spread(A, b, owner, mu, c, g) if attempt == 0 else _accept(A, b, owner, mu, c, g, tolerance)
        if error < best:
            best, way = error, min(attempt + 1, 2)
            put(f, g)
            put(cls, c)
        if best <= (EXACT if attempt < 4 else tolerance):
            break
    if best <= tolerance:
        return way, best, work
    return -1, best, work


@entry
def _lemke(A, b, owner, mu, cls, f, warm, tolerance):
    return solve_lcp(A, b, owner, mu, cls, f, warm, tolerance)


@entry
def _dantzig(A, b, owner, mu, cls, f, tolerance):
    _, work, searched = dantzig(A, b, owner, mu, cls, f, 10 * b.size + 20, 20_000, tolerance)
    return searched, _accept(A, b, owner, mu, cls, f, tolerance), work


@entry
def _pgs(A, b, owner, mu, cls, f, tolerance):
    work, _ = pgs(A, b, owner, mu, f, 2000, tolerance)
    read_classes(A, b, owner, mu, f, cls)
    return relative(A, b, owner, mu, f), work


def solve(
    A: np.ndarray,
    b: np.ndarray,
    owner: np.ndarray,
    mu: np.ndarray,
    method: str = "lemke",
    *,
    warm: np.ndarray | None = None,
    tolerance: float = TOLERANCE,
) -> Solution:
    """Solve one frictional LCP.

    Args:
        A: (n, n) symmetric, positive semidefinite.
        b: (n,).
        owner: (n,) −1 for normal rows, for a friction row its normal row, which comes before it.
        mu: (n,) friction coefficients, read on friction rows.
        method: one of :data:`METHODS`.
        warm: (n,) classes to try first (Lemke).
        tolerance: residual that counts as solved, relative to 1 + |f|.

    Raises:
        EngineError: an unknown method, sizes that do not match, numbers that are not finite.
    """
    A, b, mu = (np.ascontiguousarray(x, float) for x in (A, b, mu))
    owner = np.ascontiguousarray(owner, np.int64)
    n = b.size
    if method not in METHODS:
        raise EngineError(f"unknown LCP solver '{method}'; known: {', '.join(METHODS)}")
    if A.shape != (n, n) or owner.shape != (n,) or mu.shape != (n,):
        raise EngineError(
            f"an LCP of {n} rows needs A ({n}, {n}) and owner and mu ({n},), got {A.shape}, {owner.shape}, {mu.shape}"
        )
    if not (np.isfinite(A).all() and np.isfinite(b).all() and np.isfinite(mu).all() and (mu >= 0.0).all()):
        raise EngineError("an LCP needs finite A, b and mu, and mu not negative")
    if (owner >= np.arange(n)).any() or (owner[owner[owner >= 0]] >= 0).any():
        raise EngineError("a friction row must name a normal row before it")
    f, cls = np.zeros(n), np.full(n, SEPARATE, np.int64)
    cls[owner >= 0] = HIGH
    if method == "lemke":
        if warm is not None:
            cls[:] = warm
        way, error, work = _lemke(A, b, owner, mu, cls, f, warm is not None, tolerance)
        way = Way(way) if way >= 0 else Way.RETRY
    elif method == "dantzig":
        searched, error, work = _dantzig(A, b, owner, mu, cls, f, tolerance)
        way = Way.SEARCH if searched else Way.FIRST
    else:
        way = Way.FIRST
        error, work = _pgs(A, b, owner, mu, cls, f, tolerance)
    return Solution(
        f, Status.SOLVED if error <= tolerance else Status.UNSOLVED, float(error), cls, way, int(work)
    )
