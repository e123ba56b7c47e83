"""Three solvers of the frictional LCP behind one function: Lemke's method as the engine runs it,
the paper's Dantzig method, and projected Gauss–Seidel."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from dexengines.errors import EngineError
from dexengines.kernels import entry
from dexengines.lcp.classes import CLAMP, HIGH, LOW, SEPARATE, STICK, relative
from dexengines.lcp.solver import FAILED, FIRST, RETRY, TOLERANCE, WARM_START, accept, solve_lcp
from experiments.lcp.dantzig import dantzig

METHODS = ("lemke", "dantzig", "pgs")
MOST_SOLVES, MOST_SWEEPS = 20_000, 2000
"""Assignments of classes that Dantzig's search tries at most; sweeps of Gauss–Seidel."""


class Status(IntEnum):
    """Status of a solution."""

    SOLVED = 0
    """Every row is within the tolerance."""
    UNSOLVED = 1
    """No valid solution was found; the forces are the best seen."""


class Way(IntEnum):
    """Origin of a solution."""

    WARM = WARM_START
    """The classes given."""
    FIRST = FIRST
    """The first try of the method."""
    RETRY = RETRY
    """Lemke with another covering vector, not regularised."""
    SEARCH = 3
    """The search of classes, after Dantzig's pivots had cycled."""


@dataclass(frozen=True)
class Solution:
    """Result of :func:`solve`."""

    f: np.ndarray
    """(n,) forces or impulses."""
    status: Status
    residual: float
    """Largest error of any row relative to 1 + |f|; see :func:`dexengines.lcp.classes.residual`."""
    classes: np.ndarray
    """(n,) of :mod:`dexengines.lcp.classes`, a start for the next solve."""
    way: Way
    work: int
    """Pivots (Lemke), cycling rows (Dantzig) or sweeps (Gauss–Seidel)."""


@entry
def _lemke(A, b, owner, mu, cls, f, warm, tolerance):
    return solve_lcp(A, b, owner, mu, cls, f, warm, tolerance)


@entry
def _dantzig(A, b, owner, mu, cls, f, tolerance):
    _, work, searched = dantzig(A, b, owner, mu, cls, f, 10 * b.size + 20, MOST_SOLVES, tolerance)
    return searched, accept(A, b, owner, mu, cls, f), work


@entry
def _pgs(A, b, owner, mu, cls, f, tolerance):
    """Sweep over the rows, each solved for its own force and projected onto its bounds."""
    n, work = b.size, 0
    for sweep in range(MOST_SWEEPS):
        for i in range(n):
            w = b[i]
            for j in range(n):
                w += A[i, j] * f[j]
            g = f[i] - w / A[i, i] if A[i, i] > 0.0 else f[i]
            limit = mu[i] * f[owner[i]]
            f[i] = max(g, 0.0) if owner[i] < 0 else min(max(g, -limit), limit)
        work = sweep + 1
        if sweep % 10 == 9 and relative(A, b, owner, mu, f) <= tolerance:
            break
    for i in range(n):
        limit = mu[i] * f[owner[i]]
        if owner[i] < 0:
            cls[i] = CLAMP if f[i] > 0.0 else SEPARATE
        else:
            cls[i] = HIGH if f[i] >= limit else LOW if f[i] <= -limit else STICK
    return relative(A, b, owner, mu, f), work


def _check(A: np.ndarray, b: np.ndarray, owner: np.ndarray, mu: np.ndarray) -> None:
    n = b.size
    if A.shape != (n, n) or owner.shape != (n,) or mu.shape != (n,):
        raise EngineError(
            f"an LCP of {n} rows needs A ({n}, {n}) and owner and mu ({n},), got {A.shape}, {owner.shape}, "
            f"{mu.shape}"
        )
    if not (np.isfinite(A).all() and np.isfinite(b).all() and np.isfinite(mu).all() and (mu >= 0.0).all()):
        raise EngineError("an LCP needs finite A, b and mu, and mu not negative")
    if (owner >= np.arange(n)).any() or (owner[owner[owner >= 0]] >= 0).any():
        raise EngineError("a friction row must name a normal row before it")


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
        mu: (n,) friction coefficients of friction rows.
        method: one of :data:`METHODS`.
        warm: (n,) classes to try first (Lemke).
        tolerance: residual that counts as solved, relative to 1 + |f|.

    Raises:
        EngineError: an unknown method, sizes that do not match, numbers that are not finite.
    """
    A, b, mu = (np.ascontiguousarray(x, float) for x in (A, b, mu))
    owner = np.ascontiguousarray(owner, np.int64)
    if method not in METHODS:
        raise EngineError(f"unknown LCP solver '{method}'; known: {', '.join(METHODS)}")
    _check(A, b, owner, mu)
    f, cls, way = np.zeros(b.size), np.where(owner >= 0, HIGH, SEPARATE).astype(np.int64), Way.FIRST
    if method == "lemke":
        if warm is not None:
            cls[:] = warm
        found, error, work = _lemke(A, b, owner, mu, cls, f, warm is not None, tolerance)
        way = Way.RETRY if found == FAILED else Way(found)
    elif method == "dantzig":
        searched, error, work = _dantzig(A, b, owner, mu, cls, f, tolerance)
        way = Way.SEARCH if searched else Way.FIRST
    else:
        error, work = _pgs(A, b, owner, mu, cls, f, tolerance)
    status = Status.SOLVED if error <= tolerance else Status.UNSOLVED
    return Solution(f, status, float(error), cls, way, int(work))
