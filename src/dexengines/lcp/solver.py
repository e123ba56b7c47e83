"""The solver of frictional LCPs: warm start, then Lemke's method; every answer is verified."""

from __future__ import annotations

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.classes import (
    REFINEMENTS,
    REGULARISATION,
    classes_of_forces,
    clip_classes,
    clip_forces,
    forces_of_classes,
    relative,
    residual,
)
from dexengines.lcp.lemke import DONE, lemke
from dexengines.lcp.vectors import fill, put

TOLERANCE = 1e-9
"""Largest residual of a solution, relative to 1 + |f|."""
ENOUGH = 1e-12
"""Relative residual below which a solution is not polished."""
WARM_ROUNDS = 6
"""Most assignments of classes tried from a warm start."""
EXACT = 1e-11
"""Relative residual at which the last classes and the first covering vectors are accepted."""
TRIES = 13
"""Most covering vectors tried, the first with regularised forces."""
FAILED, WARM_START, FIRST, RETRY = -1, 0, 1, 2
"""Origin of a solution: none is valid; the classes given; Lemke's first try, regularised; a later
one."""


@inner
def accept(A, b, owner, mu, cls, f):
    """Polish forces by their classes and verify them; return the relative residual. ``f`` is
    overwritten only by a better solution."""
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
def _regularised(A, b, owner, mu, cls, f):
    """Write the regularised forces of classes to f; return their relative residual, infinite where
    there is no such solution.

    Contradictory classes would get forces so large that any error is small relative to them: the
    error is compared with b.
    """
    forces_of_classes(A, b, owner, mu, cls, f, REFINEMENTS, REGULARISATION)
    clip_classes(owner, mu, f, cls)
    clip_forces(owner, mu, f)
    top = 0.0
    for i in range(b.size):
        top = max(top, abs(b[i]))
    if residual(A, b, owner, mu, f) > EXACT * (1.0 + top):
        return np.inf
    return relative(A, b, owner, mu, f)


@inner
def solve_from_classes(A, b, owner, mu, cls, f):
    """Solve a frictional LCP by Newton's method on the classes from those given; return the
    relative residual, above ``EXACT`` where it finds no solution. Forces are regularised."""
    error = np.inf
    for _ in range(WARM_ROUNDS):
        error = _regularised(A, b, owner, mu, cls, f)
        if error <= EXACT:
            break
        classes_of_forces(A, b, owner, mu, f, cls)
    return error


@inner
def _solve_one(A, b, owner, mu, cls, f, tolerance):
    """Solve the LCP of one row, the most frequent one."""
    f[0] = max(-b[0] / A[0, 0], 0.0) if A[0, 0] > 0.0 else 0.0
    cls[0] = 1 if f[0] > 0.0 else 0
    error = relative(A, b, owner, mu, f)
    return (FIRST if error <= tolerance else FAILED), error, 1


@inner
def _covering_vector(A, owner, seed, d):
    """Write a random covering vector, positive on normal rows; return the next seed."""
    for i in range(d.size):
        seed ^= seed << np.uint64(13)
        seed ^= seed >> np.uint64(7)
        seed ^= seed << np.uint64(17)
        u = float(seed >> np.uint64(11)) / 9007199254740992.0
        scale = np.sqrt(max(A[i, i], 1e-300))
        d[i] = scale * (0.75 + 0.5 * u) if owner[i] < 0 else scale * (u - 0.5)
    return seed


@inner
def solve_lcp(A, b, owner, mu, cls, f, warm, tolerance):
    """Solve a frictional LCP, see :mod:`.classes`: from a warm start by Newton's method on the
    classes, then by Lemke's method with up to ``TRIES`` covering vectors. Every answer is verified.

    Redundant contacts leave normal forces undetermined, and with them the friction that each may
    bear: with two corners of a face carrying the whole load, a plate turns in a grip that would
    hold it. Warm start and first try therefore regularise (:func:`.classes.forces_of_classes`); the
    tries after that take any solution.

    Args:
        cls: (n,) classes to start from if ``warm``; overwritten by the solution's.
        f: (n,) overwritten by the forces.

    Returns:
        Origin of the solution, ``FAILED`` … ``RETRY``; the relative residual; pivots in all.
    """
    n = b.size
    if n == 0:
        return WARM_START, 0.0, 0
    best, way = np.inf, RETRY
    fill(f, 0.0)
    g, c = np.empty(n), np.empty(n, cls.dtype)
    if warm:
        error = solve_from_classes(A, b, owner, mu, cls, g)
        if error <= EXACT:
            put(f, g)
            return WARM_START, error, 0
    if n == 1:
        return _solve_one(A, b, owner, mu, cls, f, tolerance)
    d = np.empty(n)
    seed = np.uint64(88172645463325252)  # the same problem always gets the same answer
    work = 0
    B = A.copy()
    for i in range(n):
        B[i, i] *= 1.0 + REGULARISATION
    for attempt in range(TRIES):
        seed = _covering_vector(A, owner, seed, d)
        status, pivots = lemke(A if attempt > 0 else B, b, owner, mu, d, c, g, 40 * n + 100)
        work += pivots
        if status != DONE:
            continue
        first = attempt == 0
        error = solve_from_classes(A, b, owner, mu, c, g) if first else accept(A, b, owner, mu, c, g)
        if error < best:
            best, way = error, FIRST if first else RETRY
            put(f, g)
            put(cls, c)
        if best <= (EXACT if attempt < 4 else tolerance):
            break
    return (way if best <= tolerance else FAILED), best, work
