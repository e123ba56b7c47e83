"""Lemke's method on the classes of a frictional LCP: one scalar λ drives w = A f + b + λ d from
"all separate" at large λ to λ = 0.

Every row i owns the pair (f̃_i, w_i), one of which is basic. For friction f̃ is the distance to the
bound at which it slides, f̃ = f − s μ f_n with s = +1 (H), −1 (L) or 0 (F), so that a force at a
bound that moves with f_n is f̃ = 0; changing s is a shear of one row or column. λ is basic and may
turn back along its path. Random tangential entries of d keep events apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.classes import CLAMP, HIGH, LOW, SEPARATE, STICK
from dexengines.lcp.vectors import fill, put

DONE, RAY, PIVOT_LIMIT = 0, 1, 2
_NONE, _LAMBDA, _NORMAL, _GAP, _UPPER, _LOWER, _RATE, _FLIP = -1, 0, 1, 2, 3, 4, 5, 6


class _Tableau(NamedTuple):
    """Basic variables as functions of nonbasic ones. Id i is f̃_i, n + i is w_i, 2 n is λ.

    Functions that take it are inlined: counting references to its arrays at every call takes as
    long as a small pivot.
    """

    owner: np.ndarray
    mu: np.ndarray
    cls: np.ndarray
    T: np.ndarray
    """(n, n + 2) one row for each basic variable; the last column is its value."""
    row: np.ndarray
    """(n + 2,) of the pivot."""
    basic: np.ndarray
    """(n,) ids."""
    nonbasic: np.ndarray
    """(n + 1,) ids."""
    where: np.ndarray
    """(2 n + 1,) row of a basic variable, −1 − column of a nonbasic one."""
    slide: np.ndarray
    """(n,) s μ of friction rows."""


@inner(forceinline=True)
def _pivot(t, r, c):
    """Exchange the basic variable of row r with the nonbasic one of column c; ``t.row`` is a copy
    of the row's equation."""
    T, row = t.T, t.row
    m = T.shape[1]
    p = 1.0 / row[c]
    for j in range(m):
        row[j] *= -p
    row[c] = p
    for i in range(T.shape[0]):
        if i != r:
            factor = T[i, c]
            if factor != 0.0:
                T[i, c] = 0.0
                for j in range(m):
                    T[i, j] += factor * row[j]
    if r >= 0:
        put(T[r], row)


@inner(forceinline=True)
def _exchange(t, r, c):
    put(t.row, t.T[r])
    _pivot(t, r, c)
    out, into = t.basic[r], t.nonbasic[c]
    t.basic[r], t.nonbasic[c] = into, out
    t.where[into], t.where[out] = r, -1 - c


@inner(forceinline=True)
def _add(t, r, factor, i):
    """Add a multiple of variable i to row r."""
    k = t.where[i]
    if k >= 0:
        for j in range(t.T.shape[1]):
            t.T[r, j] += factor * t.T[k, j]
    else:
        t.T[r, -1 - k] += factor


@inner(forceinline=True)
def _fill_tableau(A, b, d, t):
    """Write the tableau with all contacts separate: every w is basic, friction is measured from its
    upper bound."""
    n = b.size
    for i in range(n):
        put(t.T[i], A[i])
        t.T[i, n], t.T[i, n + 1] = d[i], b[i]
        t.where[i], t.where[n + i] = -1 - i, i
        t.cls[i] = SEPARATE if t.owner[i] < 0 else HIGH
        t.slide[i] = 0.0 if t.owner[i] < 0 else t.mu[i]
    t.nonbasic[n] = 2 * n
    t.where[2 * n] = -1 - n
    for i in range(n):
        if t.owner[i] >= 0:
            for k in range(n):
                t.T[k, t.owner[i]] += t.mu[i] * A[k, i]


@inner(forceinline=True)
def _clamp(t, contact):
    """Clamp a contact whose normal force begins to grow; friction starts at the bounds that oppose
    the slip."""
    n, last = t.slide.size, t.T.shape[1] - 1
    t.cls[contact] = CLAMP
    column = -1 - t.where[contact]
    for i in range(contact + 1, n):
        if t.owner[i] == contact and t.where[i] < 0:
            slip = t.T[t.where[n + i], last] if t.where[n + i] >= 0 else 0.0
            s = -t.mu[i] if slip > 0.0 else t.mu[i]
            if s != t.slide[i]:
                for k in range(n):
                    t.T[k, column] += (s - t.slide[i]) * t.T[k, -1 - t.where[i]]
                t.slide[i] = s
            t.cls[i] = LOW if slip > 0.0 else HIGH


@inner(forceinline=True)
def _partner(t, event, i):
    """Return the id of the entering variable, the partner of the one of row i that has left, and
    the direction in which it changes."""
    n = t.slide.size
    if event == _GAP:  # N → C
        _clamp(t, i)
        return i, 1.0
    if event == _NORMAL:  # C → N
        t.cls[i] = SEPARATE
        return n + i, 1.0
    if event == _UPPER:
        t.cls[i] = HIGH
        return n + i, -1.0
    if event == _LOWER:
        t.cls[i] = LOW
        return n + i, 1.0
    sign = -1.0 if t.cls[i] == HIGH else 1.0  # _RATE, H or L → F
    t.cls[i] = STICK
    return i, sign


@inner(forceinline=True)
def _flip_bound(t, entering, sign, c):
    """Return the kind of event, value and rate of the entering force's distance from its other
    bound along column c."""
    if entering < t.slide.size and t.owner[entering] >= 0 and t.slide[entering] != 0.0:
        k = t.where[t.owner[entering]]
        if k >= 0:
            span = 2.0 * abs(t.slide[entering])
            return _FLIP, span * t.T[k, t.T.shape[1] - 1], span * sign * t.T[k, c] - 1.0
    return _NONE, 0.0, 0.0


@inner(forceinline=True)
def _bound(t, i, side, entering, sign, c):
    """Return the kind of event, value and rate of the distance of row i's basic variable from its
    bound, for friction the one of ``side``, along column c."""
    n, last = t.slide.size, t.T.shape[1] - 1
    value, rate = t.T[i, last], sign * t.T[i, c]
    who = t.basic[i]
    if who < n and t.owner[who] >= 0:
        k = t.owner[who]
        normal, normal_rate = 0.0, 0.0
        if t.where[k] >= 0:
            normal, normal_rate = t.T[t.where[k], last], sign * t.T[t.where[k], c]
        elif k == entering:
            normal_rate = sign
        s = -1.0 if side == 0 else 1.0
        return (
            _UPPER if side == 0 else _LOWER,
            t.mu[who] * normal + s * value,
            t.mu[who] * normal_rate + s * rate,
        )
    if who == 2 * n:
        return _LAMBDA, value, rate
    if who < n:
        return _NORMAL, value, rate
    if t.owner[who - n] < 0:
        return _GAP, value, rate
    if t.cls[t.owner[who - n]] == CLAMP:
        s = -1.0 if t.cls[who - n] == HIGH else 1.0
        return _RATE, s * value, s * rate
    return _NONE, 0.0, 0.0


@inner(forceinline=True)
def _ratio_test(t, entering, sign):
    """Find the variable that reaches its bound first: kind of event, row, and row of the tableau,
    −1 for the entering variable itself."""
    n, c = t.slide.size, -1 - t.where[entering]
    largest = 0.0
    for i in range(n):
        largest = max(largest, abs(t.T[i, c]))
    tiny = 1e-11 * largest
    best, leaving, best_rate = np.inf, -1, 0.0
    event, value, rate = _flip_bound(t, entering, sign, c)
    if event != _NONE and rate < -tiny:
        best, best_rate = max(value, 0.0) / -rate, -rate
    else:
        event = _NONE
    for i in range(n):
        who = t.basic[i]
        for side in range(2 if who < n and t.owner[who] >= 0 else 1):
            kind, value, rate = _bound(t, i, side, entering, sign, c)
            if kind == _NONE or rate >= -tiny:
                continue
            time = max(value, 0.0) / -rate
            tie = 1e-13 * (1.0 + best) if best < np.inf else 0.0
            better = time < best - tie
            if not better and time <= best + tie and event != _LAMBDA:
                better = (
                    kind == _LAMBDA
                    or (event == _NORMAL and kind >= _UPPER and kind != _RATE)
                    or -rate > best_rate
                )
            if better:
                best, event, leaving, best_rate = min(time, best), kind, i, -rate
    who = entering if leaving < 0 else t.basic[leaving]
    return event, who - n if who >= n else who, leaving


@inner(forceinline=True)
def _flip(t, entering):
    """Exchange H and L of the entering force; return the resulting event."""
    c, k = -1 - t.where[entering], t.where[t.owner[entering]]
    s = 2.0 * t.slide[entering]
    for j in range(t.row.size):
        t.row[j] = s * t.T[k, j]
    t.row[c] += 1.0
    _pivot(t, -1, c)
    t.slide[entering] = -t.slide[entering]
    return _LOWER if t.slide[entering] < 0.0 else _UPPER


@inner(forceinline=True)
def _leave(t, event, subject, leaving, entering):
    """Exchange the leaving with the entering variable; leaving friction is measured from its bound,
    entering friction from zero."""
    if event in (_UPPER, _LOWER):
        s = t.mu[subject] if event == _UPPER else -t.mu[subject]
        _add(t, leaving, -s, t.owner[subject])
        t.slide[subject] = s
    _exchange(t, leaving, -1 - t.where[entering])
    if entering < t.slide.size and t.owner[entering] >= 0 and t.slide[entering] != 0.0:
        _add(t, t.where[entering], t.slide[entering], t.owner[entering])
        t.slide[entering] = 0.0


@inner(forceinline=True)
def _forces(t, f):
    n, last = f.size, t.T.shape[1] - 1
    for i in range(n):
        if t.owner[i] < 0:
            f[i] = t.T[t.where[i], last] if t.where[i] >= 0 else 0.0
    for i in range(n):
        if t.owner[i] >= 0:
            f[i] = t.T[t.where[i], last] if t.where[i] >= 0 else t.slide[i] * f[t.owner[i]]


@inner
def lemke(A, b, owner, mu, d, cls, f, limit):
    """Find the classes of a solution.

    Args:
        A: (n, n); b: (n,); owner, mu: (n,) as in :mod:`.classes`.
        d: (n,) covering vector, positive on normal rows.
        cls: (n,) written: the classes where it stopped.
        f: (n,) written: the forces there.
        limit: most pivots.

    Returns:
        ``DONE``, ``RAY`` or ``PIVOT_LIMIT``, and the number of pivots.
    """
    n = b.size
    where = np.empty(2 * n + 1, np.int64)
    t = _Tableau(
        owner,
        mu,
        cls,
        np.empty((n, n + 2)),
        np.empty(n + 2),
        np.arange(n, 2 * n),
        np.arange(0, n + 1),
        where,
        np.empty(n),
    )
    _fill_tableau(A, b, d, t)
    fill(f, 0.0)
    first, worst = -1, 0.0
    for i in range(n):
        if owner[i] < 0 and -b[i] / d[i] > worst:
            first, worst = i, -b[i] / d[i]
    if first < 0:
        return DONE, 0
    _exchange(t, first, n)
    event, subject, pivots = _GAP, first, 1
    while event != _LAMBDA:
        entering, sign = _partner(t, event, subject)
        if pivots >= limit:
            _forces(t, f)
            return PIVOT_LIMIT, pivots
        event, subject, leaving = _ratio_test(t, entering, sign)
        if event == _NONE:
            _forces(t, f)
            return RAY, pivots
        pivots += 1
        if event == _FLIP:
            event = _flip(t, entering)
        else:
            _leave(t, event, subject, leaving, entering)
    _forces(t, f)
    return DONE, pivots
