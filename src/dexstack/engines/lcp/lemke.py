"""Lemke's method on the classes of a frictional LCP: one scalar λ drives w = A f + b + λ d from "all separate" at large λ to λ = 0.

Every row i owns the pair (f̃_i, w_i), one of which is basic. For friction f̃ is the distance to the bound it slides at, f̃ = f − s μ f_n with
s = +1 (H), −1 (L) or 0 (F), so that a force at a bound that moves with f_n is simply f̃ = 0; changing s is a shear of one row or column.
λ is basic: where its path turns back, it turns back. Random tangential entries of d keep two events from falling together.
"""

from __future__ import annotations

import numpy as np

from dexstack.engines.kernels import inner
from dexstack.engines.lcp.classes import CLAMP, HIGH, LOW, SEPARATE, STICK
from dexstack.engines.lcp.vectors import fill, put

DONE, RAY, PIVOT_LIMIT = 0, 1, 2
_NONE, _LAMBDA, _NORMAL, _GAP, _UPPER, _LOWER, _RATE, _FLIP = -1, 0, 1, 2, 3, 4, 5, 6


@inner
def _pivot(T, row, r, c):
    """Exchange the basic variable of row r with the nonbasic one of column c; ``row`` is a copy of the row's equation."""
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


@inner
def _exchange(T, row, basic, nonbasic, where, r, c):
    put(row, T[r])
    _pivot(T, row, r, c)
    out, into = basic[r], nonbasic[c]
    basic[r], nonbasic[c] = into, out
    where[into], where[out] = r, -1 - c


@inner
def lemke(A, b, owner, mu, d, cls, f, limit):
    """Find the classes of a solution.

    Long: one loop of pivots on a tableau, which its parts would hand to each other with all its marks.

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
    last = n + 1
    T = np.empty((n, n + 2))
    for i in range(n):
        put(T[i], A[i])
        T[i, n], T[i, last] = d[i], b[i]
    row = np.empty(n + 2)
    basic = np.arange(n, 2 * n)  # id i: f̃_i, n + i: w_i, 2 n: λ
    nonbasic = np.arange(0, n + 1)
    nonbasic[n] = 2 * n
    where = np.empty(2 * n + 1, np.int64)
    slide = np.zeros(n)  # s μ of every friction row
    for i in range(n):
        where[i] = -1 - i
        where[n + i] = i
        cls[i] = SEPARATE if owner[i] < 0 else HIGH
        slide[i] = 0.0 if owner[i] < 0 else mu[i]
    where[2 * n] = -1 - n
    for i in range(n):
        if owner[i] >= 0:
            for k in range(n):
                T[k, owner[i]] += mu[i] * A[k, i]
    fill(f, 0.0)
    first, worst = -1, 0.0
    for i in range(n):
        if owner[i] < 0 and -b[i] / d[i] > worst:
            first, worst = i, -b[i] / d[i]
    if first < 0:
        return DONE, 0
    _exchange(T, row, basic, nonbasic, where, first, n)
    event, subject = _GAP, first
    pivots = 1
    entering, sign = -1, 1.0
    status = PIVOT_LIMIT
    while True:
        # what enters: the partner of what has just left
        if event == _GAP:  # N → C: the force grows; its friction starts at the bound that opposes the slip
            cls[subject] = CLAMP
            cn = -1 - where[subject]
            for i in range(subject + 1, n):
                if owner[i] == subject and where[i] < 0:
                    slip = T[where[n + i], last] if where[n + i] >= 0 else 0.0
                    s = -mu[i] if slip > 0.0 else mu[i]
                    if s != slide[i]:
                        for k in range(n):
                            T[k, cn] += (s - slide[i]) * T[k, -1 - where[i]]
                        slide[i] = s
                    cls[i] = LOW if slip > 0.0 else HIGH
            entering, sign = subject, 1.0
        elif event == _NORMAL:  # C → N
            cls[subject] = SEPARATE
            entering, sign = n + subject, 1.0
        elif event == _UPPER:
            cls[subject] = HIGH
            entering, sign = n + subject, -1.0
        elif event == _LOWER:
            cls[subject] = LOW
            entering, sign = n + subject, 1.0
        elif event == _RATE:  # H or L → F
            sign = -1.0 if cls[subject] == HIGH else 1.0
            entering = subject
            cls[subject] = STICK
        if pivots >= limit:
            break
        c = -1 - where[entering]
        # ratio test
        largest = 0.0
        for i in range(n):
            largest = max(largest, abs(T[i, c]))
        tiny = 1e-11 * largest
        best, event, subject, leaving, best_rate = np.inf, _NONE, -1, -1, 0.0
        for i in range(-1, n):
            for side in range(2):
                kind, who, value, rate = _NONE, -1, 0.0, 0.0
                if i < 0:  # what enters may itself reach its other bound
                    if side == 0 and entering < n and owner[entering] >= 0 and slide[entering] != 0.0:
                        k = owner[entering]
                        if where[k] >= 0:
                            m2 = 2.0 * abs(slide[entering])
                            kind, who = _FLIP, entering
                            value, rate = m2 * T[where[k], last], m2 * sign * T[where[k], c] - 1.0
                elif basic[i] == 2 * n:
                    if side == 0:
                        kind, value, rate = _LAMBDA, T[i, last], sign * T[i, c]
                elif basic[i] >= n:
                    who = basic[i] - n
                    if side == 0:
                        if owner[who] < 0:
                            kind, value, rate = _GAP, T[i, last], sign * T[i, c]
                        elif cls[owner[who]] == CLAMP:
                            s = -1.0 if cls[who] == HIGH else 1.0
                            kind, value, rate = _RATE, s * T[i, last], s * sign * T[i, c]
                else:
                    who = basic[i]
                    if owner[who] < 0:
                        if side == 0:
                            kind, value, rate = _NORMAL, T[i, last], sign * T[i, c]
                    else:
                        k = owner[who]
                        fn, rn = 0.0, 0.0
                        if where[k] >= 0:
                            fn, rn = T[where[k], last], sign * T[where[k], c]
                        elif k == entering:
                            rn = sign
                        s = -1.0 if side == 0 else 1.0
                        kind = _UPPER if side == 0 else _LOWER
                        value, rate = mu[who] * fn + s * T[i, last], mu[who] * rn + s * sign * T[i, c]
                if kind == _NONE or rate >= -tiny:
                    continue
                t = max(value, 0.0) / -rate
                tie = 1e-13 * (1.0 + best) if best < np.inf else 0.0
                better = t < best - tie
                if not better and t <= best + tie and event != _LAMBDA:
                    better = kind == _LAMBDA or (event == _NORMAL and kind >= _UPPER and kind != _RATE) or -rate > best_rate
                if better:
                    best, event, subject, leaving, best_rate = min(t, best), kind, who, i, -rate
        if event == _NONE:
            status = RAY
            break
        pivots += 1
        if event == _FLIP:  # H ↔ L in one go
            k = where[owner[entering]]
            s2 = 2.0 * slide[entering]
            for j in range(n + 2):
                row[j] = s2 * T[k, j]
            row[c] += 1.0
            _pivot(T, row, -1, c)
            slide[entering] = -slide[entering]
            event = _LOWER if slide[entering] < 0.0 else _UPPER
            subject = entering
            continue
        if event in (_UPPER, _LOWER):
            s = mu[subject] if event == _UPPER else -mu[subject]
            k = owner[subject]
            if where[k] >= 0:
                for j in range(n + 2):
                    T[leaving, j] -= s * T[where[k], j]
            else:
                T[leaving, -1 - where[k]] -= s
            slide[subject] = s
        _exchange(T, row, basic, nonbasic, where, leaving, c)
        if entering < n and owner[entering] >= 0 and slide[entering] != 0.0:  # now basic: count from zero again
            k = owner[entering]
            if where[k] >= 0:
                for j in range(n + 2):
                    T[where[entering], j] += slide[entering] * T[where[k], j]
            else:
                T[where[entering], -1 - where[k]] += slide[entering]
            slide[entering] = 0.0
        if event == _LAMBDA:
            status = DONE
            break
    for i in range(n):
        if owner[i] < 0:
            f[i] = T[where[i], last] if where[i] >= 0 else 0.0
    for i in range(n):
        if owner[i] >= 0:
            f[i] = T[where[i], last] if where[i] >= 0 else slide[i] * f[owner[i]]
    return status, pivots
