"""Experiments of pressure field contact."""

from __future__ import annotations

from dexstack.engines.kernels import keep_kernels

keep_kernels(__name__, "dexstack.engines.hydroelastic")
