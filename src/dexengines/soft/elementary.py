"""Elementary functions of arrays without branches or library calls, which numba compiles to vector
instructions."""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dexengines.kernels import inner

LEAST = -200.0
"""Least exponent: e^x of it is negligible, and products of such numbers are not subnormal, which is
slow."""
LOG2E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10
SHIFTER = 6755399441055744.0
"""1.5 · 2⁵²: adding it rounds a number to an integer in the lowest bits."""
FAST = {"reassoc", "contract", "nsz", "nnan"}
"""Floating-point transformations allowed in sums."""


@intrinsic
def _power_of_two(typing_context, shifted):
    """Return 2ⁿ of n + SHIFTER."""

    def generate(context, builder, signature, arguments):
        bits = builder.bitcast(arguments[0], ir.IntType(64))
        bits = builder.shl(
            builder.add(bits, ir.Constant(ir.IntType(64), 1023)), ir.Constant(ir.IntType(64), 52)
        )
        return builder.bitcast(bits, ir.DoubleType())

    return types.float64(types.float64), generate


@inner
def _exp(x):
    """Return exp(x) for x ≤ 0."""
    x = x if x > LEAST else LEAST
    shifted = x * LOG2E + SHIFTER
    n = shifted - SHIFTER
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    s = 1.0 / 479001600.0
    s = s * r + 1.0 / 39916800.0
    s = s * r + 1.0 / 3628800.0
    s = s * r + 1.0 / 362880.0
    s = s * r + 1.0 / 40320.0
    s = s * r + 1.0 / 5040.0
    s = s * r + 1.0 / 720.0
    s = s * r + 1.0 / 120.0
    s = s * r + 1.0 / 24.0
    s = s * r + 1.0 / 6.0
    s = s * r + 0.5
    s = s * r + 1.0
    s = s * r + 1.0
    return s * _power_of_two(shifted)


@inner
def exps(x, y):
    """Write exp(x), x ≤ 0, to y."""
    for k in range(len(x)):
        y[k] = _exp(x[k])


@inner
def onsets(depth, e, onset):
    """Write log(1 + exp(depth)) to ``onset``, and exp(−|depth|) to ``e``."""
    for k in range(len(depth)):
        d = depth[k]
        e[k] = _exp(-abs(d))
    for k in range(len(depth)):
        u = e[k] / (2.0 + e[k])  # log(1 + e) = 2 atanh u, u ≤ 1/3
        q = u * u
        s = 1.0 / 31.0
        s = s * q + 1.0 / 29.0
        s = s * q + 1.0 / 27.0
        s = s * q + 1.0 / 25.0
        s = s * q + 1.0 / 23.0
        s = s * q + 1.0 / 21.0
        s = s * q + 1.0 / 19.0
        s = s * q + 1.0 / 17.0
        s = s * q + 1.0 / 15.0
        s = s * q + 1.0 / 13.0
        s = s * q + 1.0 / 11.0
        s = s * q + 1.0 / 9.0
        s = s * q + 1.0 / 7.0
        s = s * q + 1.0 / 5.0
        s = s * q + 1.0 / 3.0
        s = s * q + 1.0
        onset[k] = 2.0 * u * s
    for k in range(len(depth)):
        d = depth[k]
        onset[k] += d if d > 0.0 else 0.0


@inner
def left(u, window):
    """Return the factor of a share e^(−u), see :func:`.scm.left`."""
    s = min((u - window[0]) / (window[1] - window[0]), 1.0)
    t = 1.0 - s
    return t * t * t * (1.0 + s * (3.0 + 6.0 * s)) if s > 0.0 else 1.0


@inner(fastmath=FAST)
def _total(x, first, last):
    total = 0.0
    for k in range(first, last):
        total += x[k]
    return total


@inner(fastmath=FAST)
def dot(x, y, first, last):
    """Return the dot product of a span of two arrays."""
    total = 0.0
    for k in range(first, last):
        total += x[k] * y[k]
    return total


@inner
def faded(logits, shares, first, last, window):
    """Fade out the shares, exponentials of logits ≤ 0, beyond the start of ``window``; return their
    sum."""
    total = _total(shares, first, last)
    if window[0] == np.inf:
        return total
    start, total = math.log(total), 0.0
    for k in range(first, last):
        if start - logits[k] > window[0]:
            shares[k] *= left(start - logits[k], window)
        total += shares[k]
    return total
