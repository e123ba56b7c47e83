"""Experiments of pressure field contact."""

from __future__ import annotations

from dexengines.kernels import keep_kernels

keep_kernels(__name__, "dexengines.hydroelastic")
