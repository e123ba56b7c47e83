"""The frictional LCP by its classes: residual, and the solution of an assignment of classes.

    w = A f + b
    normal rows:               f ≥ 0, w ≥ 0, f w = 0
    friction rows of normal n: |f| ≤ μ f_n, and w ≠ 0 only against a force at its bound

A row of ``owner`` −1 is a normal row (contact, joint stop), any other a friction row of the normal
row it names, which comes before it.
"""

from __future__ import annotations

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.vectors import fill

SEPARATE, CLAMP, STICK, HIGH, LOW = 0, 1, 2, 3, 4
"""Classes: N and C of normal rows; F, H (f = +μ f_n) and L (f = −μ f_n) of friction rows."""
REGULARISATION = 1e-8
"""Compliance of contacts as a share of A's diagonal, which distributes forces over redundant
ones."""
REFINEMENTS = 3
"""Rounds of iterative refinement that remove its effect on velocities."""


@inner
def residual(A, b, owner, mu, f):
    """Return the largest entry of f − proj(f − w) over the rows, zero exactly at solutions;
    infinite for forces that are not finite."""
    n = b.size
    worst = 0.0
    for i in range(n):
        w = b[i]
        for j in range(n):
            w += A[i, j] * f[j]
        g = f[i] - w
        if owner[i] < 0:
            g = max(g, 0.0)
        else:
            limit = mu[i] * max(f[owner[i]], 0.0)
            g = min(max(g, -limit), limit)
        error = abs(f[i] - g)
        if not error <= worst:
            worst = error if np.isfinite(error) else np.inf
    return worst


@inner
def relative(A, b, owner, mu, f):
    """Return :func:`residual` relative to 1 + |f|."""
    largest = 0.0
    for i in range(f.size):
        largest = max(largest, abs(f[i]))
    return residual(A, b, owner, mu, f) / (1.0 + largest)


@inner
def _factor_panel(G, order, floor, first, end):
    """:func:`factor` columns ``first`` … ``end`` − 1; of the others only exchange rows. Return the
    number of missing pivots."""
    n, missing = order.size, 0
    for k in range(first, end):
        p = k
        for i in range(k + 1, n):
            if abs(G[i, k]) > abs(G[p, k]):
                p = i
        order[k] = p
        if abs(G[p, k]) <= floor:
            missing += 1
            for i in range(k, n):
                G[i, k] = 0.0
            continue
        if p != k:
            for j in range(n):
                G[k, j], G[p, j] = G[p, j], G[k, j]
        for i in range(k + 1, n):
            G[i, k] /= G[k, k]
            share = G[i, k]
            if share != 0.0:
                for j in range(k + 1, end):
                    G[i, j] -= share * G[k, j]
    return missing


@inner
def factor(G, order, floor):
    """Replace G by its LU factors, rows exchanged by ``order`` (n,); a column without a pivot above
    ``floor`` gets none. Return the rank.

    Columns are eliminated four at a time, so that the rest of G is read and written a quarter as
    often.
    """
    n = order.size
    rank, first = n, 0
    while first < n:
        end = min(first + 4, n)
        rank -= _factor_panel(G, order, floor, first, end)
        for k in range(first, min(end, n - 1)):
            for i in range(k + 1, end):
                if G[i, k] != 0.0:
                    for j in range(end, n):
                        G[i, j] -= G[i, k] * G[k, j]
        if end < n:
            u0, u1, u2, u3 = G[first, end:], G[first + 1, end:], G[first + 2, end:], G[first + 3, end:]
            for i in range(end, n):
                a, b, c, d = G[i, first], G[i, first + 1], G[i, first + 2], G[i, first + 3]
                if a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0:
                    row = G[i, end:]
                    for j in range(row.size):
                        row[j] = row[j] - a * u0[j] - b * u1[j] - c * u2[j] - d * u3[j]
        first = end
    return rank


@inner
def solve_factored(G, order, x):
    """x ← G⁻¹ x with the factors of :func:`factor`; zero where a column had no pivot."""
    n = order.size
    for k in range(n):
        if order[k] != k:
            x[k], x[order[k]] = x[order[k]], x[k]
    for k in range(n):
        for j in range(k):
            x[k] -= G[k, j] * x[j]
    for k in range(n - 1, -1, -1):
        if G[k, k] == 0.0:
            x[k] = 0.0
            continue
        for j in range(k + 1, n):
            x[k] -= G[k, j] * x[j]
        x[k] /= G[k, k]


@inner
def active_rows(cls, owner, index):
    """Write to ``index`` the rows whose force is unknown and whose w is zero (C, and F of a clamped
    contact); return their number."""
    count = 0
    for i in range(cls.size):
        if cls[i] == CLAMP or (cls[i] == STICK and cls[owner[i]] == CLAMP):
            index[count] = i
            count += 1
    return count


@inner
def class_matrix(A, owner, mu, cls, index, count, G):
    """Write the matrix of the classes' equations [15], w of the active rows as a function of their
    forces; sliding friction follows its normal force."""
    for r in range(count):
        for c in range(count):
            G[r, c] = A[index[r], index[c]]
    for k in range(cls.size):
        if (cls[k] == HIGH or cls[k] == LOW) and cls[owner[k]] == CLAMP:
            sign = mu[k] if cls[k] == HIGH else -mu[k]
            c = np.searchsorted(index[:count], owner[k])
            for r in range(count):
                G[r, c] += sign * A[index[r], k]


@inner
def _all_forces(owner, mu, cls, index, x, count, f):
    """Write all forces from those of the active rows."""
    fill(f, 0.0)
    for c in range(count):
        f[index[c]] = x[c]
    for k in range(cls.size):
        if cls[k] == HIGH and cls[owner[k]] == CLAMP:
            f[k] = mu[k] * f[owner[k]]
        elif cls[k] == LOW and cls[owner[k]] == CLAMP:
            f[k] = -mu[k] * f[owner[k]]


@inner
def forces_of_classes(A, b, owner, mu, cls, f, rounds, compliance):
    """Write the forces of given classes by elimination and ``rounds`` of iterative refinement;
    return the missing rank.

    Where contacts are redundant the classes leave forces undetermined. With ``compliance`` > 0, a
    share of A's diagonal added for the factors only, they are distributed as between slightly
    compliant bodies; refinement removes the error and keeps the distribution.
    """
    n = b.size
    index = np.empty(n, np.int64)
    count = active_rows(cls, owner, index)
    if count == 0:
        fill(f, 0.0)
        return 0
    G = np.empty((count, count))
    class_matrix(A, owner, mu, cls, index, count, G)
    top = 0.0
    for i in range(count):
        top = max(top, abs(A[index[i], index[i]]))
    x, e = np.empty(count), np.empty(count)
    order = np.empty(count, np.int64)
    H = G.copy()
    for i in range(count):
        x[i] = -b[index[i]]
        H[i, i] += compliance * A[index[i], index[i]]
    rank = factor(H, order, 0.0 if compliance > 0.0 else 1e-13 * top)
    solve_factored(H, order, x)
    for _ in range(rounds):
        for i in range(count):
            e[i] = -b[index[i]]
            for j in range(count):
                e[i] -= G[i, j] * x[j]
        solve_factored(H, order, e)
        x += e
    _all_forces(owner, mu, cls, index, x, count, f)
    return count - rank


@inner
def classes_of_forces(A, b, owner, mu, f, cls):
    """Write the classes into which f − w/A_ii is projected."""
    for i in range(f.size):
        w = b[i]
        for j in range(f.size):
            w += A[i, j] * f[j]
        g, k = f[i] - w / A[i, i] if A[i, i] > 0.0 else f[i], owner[i]
        if k < 0:
            cls[i] = CLAMP if g > 0.0 else SEPARATE
        else:
            limit = mu[i] * f[k]
            cls[i] = HIGH if g > limit else LOW if g < -limit else STICK


@inner
def clip_classes(owner, mu, f, cls):
    """Assign to rows whose force lies beyond a bound that bound's class, as :func:`clip_forces`
    moves them there: derivatives follow the classes."""
    for i in range(f.size):
        k = owner[i]
        if k < 0:
            if f[i] <= 0.0:
                cls[i] = SEPARATE
        elif cls[i] == STICK and (cls[k] == SEPARATE or abs(f[i]) > mu[i] * f[k]):
            cls[i] = HIGH if f[i] > 0.0 else LOW


@inner
def clip_forces(owner, mu, f):
    """Move forces beyond their bounds onto them."""
    for i in range(f.size):
        if owner[i] < 0:
            f[i] = max(f[i], 0.0)
    for i in range(f.size):
        if owner[i] >= 0:
            limit = mu[i] * f[owner[i]]
            f[i] = min(max(f[i], -limit), limit)
