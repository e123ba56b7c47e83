"""Cholesky factors inside the envelope of a symmetric matrix."""

from __future__ import annotations

import numpy as np

from dexengines.kernels import KERNEL, inner


@inner(**KERNEL)
def factorise(H: np.ndarray, envelope: np.ndarray) -> bool:
    """Overwrite the lower triangle of H with its Cholesky factor, inside the envelope; return False
    if H is not positive definite."""
    for i in range(envelope.size):
        ei = envelope[i]
        for j in range(ei, i):
            s = H[i, j]
            for k in range(max(ei, envelope[j]), j):
                s -= H[i, k] * H[j, k]
            H[i, j] = s / H[j, j]
        s = H[i, i]
        for k in range(ei, i):
            s -= H[i, k] * H[i, k]
        if not s > 0.0:
            return False
        H[i, i] = np.sqrt(s)
    return True


@inner(**KERNEL)
def back_substitute(L: np.ndarray, envelope: np.ndarray, x: np.ndarray) -> None:
    """x ← (L Lᵀ)⁻¹ x."""
    n = envelope.size
    for i in range(n):
        s = x[i]
        for k in range(envelope[i], i):
            s -= L[i, k] * x[k]
        x[i] = s / L[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= L[i, i]
        for k in range(envelope[i], i):
            x[k] -= L[i, k] * x[i]
