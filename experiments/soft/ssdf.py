"""Soft signed distance (SSDF) of an oriented point cloud, as in the SSDF paper:

    φ_i = n_iᵀ(p − p_i),   φ̂_S(p) = Σ_i softmax(−(‖p − p_i‖² + (β − 1) φ_i²)/ε1)_i φ_i
    [8–10]

The engine's force law does not use it. ε1 in m².
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from dexengines.soft.cloud import Cloud


def ssdf(p: Array, cloud: Cloud, eps1: float | Array, normal_weight: float = 1.0) -> Array:
    """Return φ̂_S(p) [m] of a point (3,), negative inside; ``normal_weight``: β."""
    r = p[None] - cloud.points
    phi = _dot3(jnp.asarray(cloud.normals), r)
    return jax.nn.softmax(-(_dot3(r, r) + (normal_weight - 1.0) * phi * phi) / eps1) @ phi


def _dot3(a: Array, b: Array) -> Array:
    """Dot products over a last axis of three, written out: as a reduction XLA's CPU compiler (JAX
    0.10.2) fuses it into wrong numbers in float32 once there are about a thousand."""
    return a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1] + a[..., 2] * b[..., 2]
