"""Experiments on rigid contact as a linear complementarity problem."""

from __future__ import annotations

from dexengines.kernels import keep_kernels

keep_kernels(__name__, "dexengines.lcp")
