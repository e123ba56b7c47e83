"""Soft contact (SSDF and SCM): oriented point clouds, smooth distances, forces without a solver; all in JAX, twice differentiable."""
