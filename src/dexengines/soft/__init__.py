"""Soft contact (SSDF and SCM): oriented point clouds, smooth distances, forces without a solver;
all in JAX, twice differentiable."""

from __future__ import annotations

from dexengines.kernels import keep_kernels

keep_kernels(__name__)
