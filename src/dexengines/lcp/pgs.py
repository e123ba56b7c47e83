"""Projected Gauss–Seidel."""

from __future__ import annotations

from dexengines.kernels import inner
from dexengines.lcp.classes import relative


@inner
def pgs(A, b, owner, mu, f, sweeps, tolerance):
    """Sweep over the rows, each solved for its own force and projected onto its bounds.

    Args:
        f: (n,) first guess, overwritten.
        tolerance: relative residual to stop at.

    Returns:
        Sweeps used; whether the tolerance was reached.
    """
    n = b.size
    for sweep in range(sweeps):
        for i in range(n):
            w = b[i]
            for j in range(n):
                w += A[i, j] * f[j]
            g = f[i] - w / A[i, i] if A[i, i] > 0.0 else f[i]
            if owner[i] < 0:
                f[i] = max(g, 0.0)
            else:
                limit = mu[i] * f[owner[i]]
                f[i] = min(max(g, -limit), limit)
        if sweep % 10 == 9 and relative(A, b, owner, mu, f) <= tolerance:
            return sweep + 1, True
    return sweeps, relative(A, b, owner, mu, f) <= tolerance
