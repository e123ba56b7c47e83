"""Soft signed distance (SSDF) of an oriented point cloud, as the SSDF paper has it:

    φ̂_S(p) = Σ_i softmax(−‖p − p_i‖²/ε1)_i n_iᵀ(p − p_i)                                     [8–10]

The engine's force law is not made of it. Pure functions of arrays; ε1 [m²].
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from dexstack.engines.soft.cloud import Cloud


def ssdf(p: Array, cloud: Cloud, eps1: float | Array) -> Array:
    """φ̂_S(p) [m] of a point (3,); negative inside."""
    r = p[None] - cloud.points
    return jax.nn.softmax(-_dot3(r, r) / eps1) @ _dot3(jnp.asarray(cloud.normals), r)


def _dot3(a: Array, b: Array) -> Array:
    """Dot products over a last axis of three, written out: as a reduction XLA's CPU compiler (JAX 0.10.2) fuses it into wrong numbers in
    float32 once there are about a thousand."""
    return a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1] + a[..., 2] * b[..., 2]
