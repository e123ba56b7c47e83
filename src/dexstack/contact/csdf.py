"""C-SDF: signed distance to a convex object as a smooth maximum over its support planes, contactsdf
[8], [11], [13]."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float


def distance_and_normal(
    x_B: Float[Array, "*Q 3"], nhat_B: Float[Array, "K 3"], offset: Float[Array, " K"], sigma: float
) -> tuple[Float[Array, "*Q"], Float[Array, "*Q 3"]]:
    """Return the smooth signed distance (1/σ) LSE_i σ(n_i·x + b_i) [m], negative inside (the untruncated
    part of [11]), and the unit outward normal.

    The distance exceeds the largest plane distance by at most log(K)/σ. The gradient of the
    log-sum-exp is the softmax-weighted mean of the plane normals; it is normalised, since it is shorter
    than one where several planes tie (edges, corners). At a deep interior point where all planes tie
    the normal is zero, never NaN.

    Args:
        x_B: points in the object frame [m].
        nhat_B: unit normals of the planes.
        offset: b_i [m].
        sigma: σ [1/m].
    """
    s = sigma * (x_B @ nhat_B.T + offset[(None,) * (x_B.ndim - 1)])
    peak = jnp.max(s, axis=-1, keepdims=True)
    w = jnp.exp(s - peak)
    total = jnp.sum(w, axis=-1, keepdims=True)
    gradient = (w @ nhat_B) / total
    length = jnp.linalg.norm(gradient, axis=-1, keepdims=True)
    return (peak[..., 0] + jnp.log(total[..., 0])) / sigma, gradient / jnp.maximum(length, 1e-6)


def union_distance_and_normal(
    x_B: Float[Array, "Q 3"], nhat_B: Float[Array, "P K 3"], offset: Float[Array, "P K"], sigma: float
) -> tuple[Float[Array, " Q"], Float[Array, "Q 3"]]:
    """Return distance and normal to a union of P convex parts, those of each point's nearest part.

    Inside, where parts meet, the distance is no deeper than that of each part alone.
    """
    distance, nhat = jax.vmap(distance_and_normal, in_axes=(None, 0, 0, None))(x_B, nhat_B, offset, sigma)
    nearest = jnp.argmin(distance, axis=0)
    normal = jnp.take_along_axis(nhat, nearest[None, :, None], axis=0)[0]
    return jnp.take_along_axis(distance, nearest[None], axis=0)[0], normal
