"""Vectors of three numbers, real or complex, and copies.

Sums and products of arrays are function calls: numba compiles a separate loop for every array
expression.
"""

from __future__ import annotations

import numpy as np

from dexengines.kernels import inner


@inner
def put(out, x):
    """Copy x (n,) into ``out`` (n,)."""
    for i in range(x.size):
        out[i] = x[i]


@inner
def fill(out, value):
    """Set every entry of ``out`` (n,)."""
    for i in range(out.size):
        out[i] = value


@inner
def dot(a, b):
    """Return a · b of vectors of three."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inner
def cross(a, b, out):
    """Write a × b to ``out``, which is neither."""
    out[0] = a[1] * b[2] - a[2] * b[1]
    out[1] = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]


@inner
def less(a, b, out):
    """Write a − b of vectors of three to ``out``."""
    for i in range(3):
        out[i] = a[i] - b[i]


@inner
def divide(x, s):
    """x ← x / s of a vector of three."""
    for i in range(3):
        x[i] /= s


@inner
def rotate(R, x, out):
    """Write R x to ``out``, which is not x."""
    for i in range(3):
        out[i] = R[i, 0] * x[0] + R[i, 1] * x[1] + R[i, 2] * x[2]


@inner
def place(R, p, x, out):
    """Write p + R x to ``out``, which is neither."""
    for i in range(3):
        out[i] = p[i] + R[i, 0] * x[0] + R[i, 1] * x[1] + R[i, 2] * x[2]


@inner
def crossed(a, b):
    """Return a × b (3,) of real vectors."""
    out = np.empty(3)
    cross(a, b, out)
    return out


@inner
def rotated(R, x):
    """Return R x (3,), real."""
    out = np.empty(3)
    rotate(R, x, out)
    return out


@inner
def unrotated(R, x):
    """Return Rᵀ x (3,), real."""
    out = np.empty(3)
    for i in range(3):
        out[i] = R[0, i] * x[0] + R[1, i] * x[1] + R[2, i] * x[2]
    return out


@inner
def plus(a, b):
    """Return a + b (3,) of real vectors."""
    out = np.empty(3)
    for i in range(3):
        out[i] = a[i] + b[i]
    return out


@inner
def minus(a, b):
    """Return a − b (3,) of real vectors."""
    out = np.empty(3)
    for i in range(3):
        out[i] = a[i] - b[i]
    return out


@inner
def times(s, x):
    """Return s x (3,) of a real vector."""
    out = np.empty(3)
    for i in range(3):
        out[i] = s * x[i]
    return out


@inner
def across(x, a):
    """Return the part (3,) of x across a unit vector, real."""
    along = dot(x, a)
    out = np.empty(3)
    for i in range(3):
        out[i] = x[i] - along * a[i]
    return out
