"""Dantzig's method row by row, as Baraff extended it to friction, with the paper's two corrections.

The step length takes into account that a bound moves with its normal force, s = (μ f_n − f)/(Δf − μ
Δf_n); where the pivots cycle, the classes are searched in order of how many rows change.
"""

from __future__ import annotations

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.classes import (
    CLAMP,
    HIGH,
    LOW,
    SEPARATE,
    STICK,
    active_rows,
    class_matrix,
    factor,
    forces_of_classes,
    residual,
    solve_factored,
)
from dexengines.lcp.vectors import fill, put

DONE, STUCK = 0, 1


@inner
def _direction(A, owner, mu, cls, driver, m, sign, df, dw):
    """Write the changes df and dw of rows 0 … m−1 by a unit change of the driver's force at
    constant classes. The driver is not an active row."""
    index = np.empty(m, np.int64)
    count = active_rows(cls[:m], owner, index)
    G = np.empty((count, count))
    class_matrix(A, owner, mu, cls[:m], index, count, G)
    column = np.zeros(m)
    column[driver] = sign
    for i in range(m):  # friction that slides under the driver's own normal force follows it
        if owner[i] == driver and i != driver:
            column[i] = mu[i] * sign if cls[i] == HIGH else -mu[i] * sign if cls[i] == LOW else 0.0
    x = np.empty(count)
    for r in range(count):
        x[r] = 0.0
        for j in range(m):
            x[r] -= A[index[r], j] * column[j]
    top = 0.0
    for i in range(m):
        top = max(top, A[i, i])
    order = np.empty(count, np.int64)
    factor(G, order, 1e-12 * top)
    solve_factored(G, order, x)
    put(df[:m], column)
    for c in range(count):
        df[index[c]] += x[c]
    for i in range(m):
        if owner[i] >= 0 and owner[i] != driver and cls[owner[i]] == CLAMP:
            if cls[i] == HIGH:
                df[i] = mu[i] * df[owner[i]]
            elif cls[i] == LOW:
                df[i] = -mu[i] * df[owner[i]]
    for i in range(m):
        dw[i] = 0.0
        for j in range(m):
            dw[i] += A[i, j] * df[j]


@inner
def _done(owner, mu, cls, f, w, driver):
    """Return the sign in which the driver's force must change, 0 if its condition holds; write its
    class."""
    if owner[driver] < 0:
        cls[driver] = CLAMP if w[driver] >= -1e-13 and f[driver] > 0.0 else SEPARATE
        return 0.0 if w[driver] >= -1e-13 else 1.0
    if abs(w[driver]) <= 1e-13:
        cls[driver] = STICK
        return 0.0
    sign = -1.0 if w[driver] > 0.0 else 1.0
    if sign * f[driver] >= mu[driver] * f[owner[driver]] - 1e-14:
        cls[driver] = HIGH if sign > 0.0 else LOW
        return 0.0
    cls[driver] = SEPARATE
    return sign


@inner
def _own_step(owner, mu, f, w, df, dw, driver, sign):
    """Return the step to the driver's own condition or bound, the driver (−1 if there is none), and
    its class there."""
    best, who, into, k = np.inf, -1, -1, owner[driver]
    if -dw[driver] * (1.0 if w[driver] > 0.0 else -1.0) > 1e-14:
        best, who, into = abs(w[driver] / dw[driver]), driver, CLAMP if k < 0 else STICK
    if k >= 0:
        rate = sign * df[driver] - mu[driver] * df[k]
        if rate > 1e-14:
            s = (mu[driver] * f[k] - sign * f[driver]) / rate
            if s < best:
                best, who, into = s, driver, HIGH if sign > 0.0 else LOW
    return best, who, into


@inner
def _step_to_change(owner, mu, cls, f, w, df, dw, i):
    """Return the step at which row i changes its class, infinite if it does not, and the new
    class."""
    s, to, k = np.inf, -1, owner[i]
    if k < 0:
        if cls[i] == CLAMP and df[i] < -1e-14:
            s, to = f[i] / -df[i], SEPARATE
        elif cls[i] == SEPARATE and dw[i] < -1e-14:
            s, to = max(w[i], 0.0) / -dw[i], CLAMP
    elif cls[k] == CLAMP:
        if cls[i] == STICK:
            for turn in (1.0, -1.0):
                rate = turn * df[i] - mu[i] * df[k]
                if rate > 1e-14:
                    t = max(mu[i] * f[k] - turn * f[i], 0.0) / rate
                    if t < s:
                        s, to = t, HIGH if turn > 0.0 else LOW
        elif cls[i] == HIGH and dw[i] > 1e-14:
            s, to = max(-w[i], 0.0) / dw[i], STICK
        elif cls[i] == LOW and dw[i] < -1e-14:
            s, to = max(w[i], 0.0) / -dw[i], STICK
    return s, to


@inner
def _drive(A, b, owner, mu, cls, f, w, driver, limit):
    """Change the driver's force until its own condition holds, with the rows before it kept valid.
    Return False if the pivots did not end."""
    m = driver + 1
    df, dw = np.zeros(m), np.zeros(m)
    for _ in range(limit):
        sign = _done(owner, mu, cls, f, w, driver)
        if sign == 0.0:
            return True
        _direction(A, owner, mu, cls, driver, m, sign, df, dw)
        best, who, into = _own_step(owner, mu, f, w, df, dw, driver, sign)
        for i in range(driver):
            s, to = _step_to_change(owner, mu, cls, f, w, df, dw, i)
            if s < best:
                best, who, into = s, i, to
        if who < 0:
            return False
        for i in range(m):
            f[i] += best * df[i]
            w[i] += best * dw[i]
        if who == driver:
            cls[driver] = into
            return True
        cls[who] = into
        if into == SEPARATE:
            f[who] = 0.0
            for i in range(who + 1, m):
                if owner[i] == who:
                    f[i] = 0.0
        elif owner[who] < 0 and into == CLAMP:
            for i in range(who + 1, driver):
                if owner[i] == who:
                    cls[i] = LOW if w[i] > 0.0 else HIGH
    return False


@inner
def _valid(A, b, owner, mu, cls, m, f, tolerance):
    missing = forces_of_classes(A[:m, :m], b[:m], owner[:m], mu[:m], cls[:m], f[:m], 0, 0.0)
    largest = 0.0
    for i in range(m):
        largest = max(largest, abs(f[i]))
    return missing >= 0 and residual(A[:m, :m], b[:m], owner[:m], mu[:m], f[:m]) <= tolerance * (
        1.0 + largest
    )


@inner
def _search(A, b, owner, mu, cls, m, f, solves, tolerance):
    """Try assignments in order of how many rows differ from the present one until one is valid.

    Returns:
        The number of assignments tried, negative if none was valid.
    """
    start = cls[:m].copy()
    tried = 0
    change, choice = np.empty(m, np.int64), np.empty(m, np.int64)  # rows that differ, and how
    for depth in range(m + 1):
        for k in range(depth):
            change[k], choice[k] = k, 0
        while True:
            put(cls[:m], start)
            for k in range(depth):
                i = change[k]
                if owner[i] < 0:
                    cls[i] = SEPARATE if start[i] == CLAMP else CLAMP
                else:
                    cls[i] = STICK + (start[i] - STICK + 1 + choice[k]) % 3
            tried += 1
            if _valid(A, b, owner, mu, cls, m, f, tolerance):
                return tried
            if tried >= solves:
                put(cls[:m], start)
                return -tried
            k = depth - 1  # next choice, then next set of rows
            while k >= 0 and (owner[change[k]] < 0 or choice[k] == 1):
                choice[k] = 0
                k -= 1
            if k >= 0:
                choice[k] = 1
                continue
            k = depth - 1
            while k >= 0 and change[k] == m - depth + k:
                k -= 1
            if k < 0:
                break
            change[k] += 1
            for j in range(k + 1, depth):
                change[j] = change[j - 1] + 1
            for j in range(depth):
                choice[j] = 0
    put(cls[:m], start)
    return -tried


@inner
def dantzig(A, b, owner, mu, cls, f, pivots, solves, tolerance):
    """Find the classes of a solution, one row after the other.

    Args:
        cls, f: (n,) written: classes and forces.
        pivots: most pivots per row before its classes are searched.
        solves: most assignments tried in a search.
        tolerance: residual at which a searched assignment is accepted, relative to 1 + |f|.

    Returns:
        ``DONE`` or ``STUCK``; rows where the pivots cycled; assignments searched.
    """
    n = b.size
    w = b.copy()
    fill(f, 0.0)
    loops, searched = 0, 0
    for i in range(n):
        cls[i] = SEPARATE if owner[i] < 0 else STICK
    for i in range(n):
        w[i] = b[i]
        for j in range(i):
            w[i] += A[i, j] * f[j]
        if owner[i] >= 0 and cls[owner[i]] == SEPARATE:
            cls[i] = LOW if w[i] > 0.0 else HIGH
            continue
        if not _drive(A, b, owner, mu, cls, f, w, i, pivots):
            loops += 1
            if owner[i] >= 0 and cls[i] == SEPARATE:
                cls[i] = STICK
            count = _search(A, b, owner, mu, cls, i + 1, f, solves, tolerance)
            searched += abs(count)
            if count < 0:
                return STUCK, loops, searched
        for k in range(i + 1):  # the classes hold these to be zero
            w[k] = b[k]
            for j in range(i + 1):
                w[k] += A[k, j] * f[j]
    return DONE, loops, searched
