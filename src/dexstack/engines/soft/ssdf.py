"""Soft signed distance (SSDF) of oriented point clouds, and what two of them say about each other; equations of the SCM/SSDF paper.

    φ̂_S(p) = Σ_i softmax(−d(p))_i n_iᵀ(p − p_i)                                              [8–10]
    Φ_12 = [φ̂_S1(p'_j)]_j ⧺ [φ̂_S2(p_i)]_i,   w = softmax_ε2(−Φ_12),   distance ≈ wᵀΦ_12      [11]
    z_v = Σ_f 1[v∈f] w_f,   c_k = Σ_v Γ^K(z)_kv y_v                                            [12–13]

Pure functions of arrays; clouds are in one common frame. ε1 [m²], ε2 [m].
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from dexstack.engines.soft.cloud import Cloud


def dot3(a: Array, b: Array) -> Array:
    """Dot products over a last axis of three, written out: as a reduction XLA's CPU compiler (JAX 0.10.2) fuses it into wrong numbers in
    float32 once there are about a thousand."""
    return a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1] + a[..., 2] * b[..., 2]


def squared_distances(p: Array, cloud: Cloud, precision: Array | None = None) -> Array:
    """(I,) d_i(p) [m²] of a point (3,): ‖p − p_i‖², or with a ``precision`` (I, 3, 3) the form (p − p_i)ᵀ B_i (p − p_i) of [10]."""
    r = p[None] - cloud.points
    return dot3(r, r) if precision is None else jnp.einsum("ij,ijk,ik->i", r, precision, r)


def ssdf(p: Array, cloud: Cloud, eps1: float | Array, precision: Array | None = None) -> Array:
    """φ̂_S(p) [m] of a point (3,); negative inside."""
    weight = jax.nn.softmax(-squared_distances(p, cloud, precision) / eps1)
    return weight @ dot3(jnp.asarray(cloud.normals), p[None] - cloud.points)


def flattened(cloud: Cloud, ratio: float) -> Array:
    """(I, 3, 3) precisions of Gaussians that reach ``ratio`` times as far along the surface as along the normal, of equal trace."""
    outer = cloud.normals[:, :, None] * cloud.normals[:, None, :]
    along, across = ratio**-2, 1.0
    scale = 3.0 / (2.0 * along + across)
    return scale * (across * outer + along * (jnp.eye(3)[None] - outer))


def separation_field(a: Cloud, b: Cloud, eps1: float | Array, precision_a: Array | None = None, precision_b: Array | None = None) -> Array:
    """(I_b + I_a,) Φ [m]: b's points in a's field, then a's points in b's."""
    b_in_a = jax.vmap(lambda p: ssdf(p, a, eps1, precision_a))(b.points)
    a_in_b = jax.vmap(lambda p: ssdf(p, b, eps1, precision_b))(a.points)
    return jnp.concatenate([b_in_a, a_in_b])


def separation_distribution(field: Array, eps2: float | Array) -> Array:
    """w (F,): where contact is."""
    return jax.nn.softmax(-field / eps2)


def soft_distance(field: Array, eps2: float | Array) -> Array:
    """wᵀΦ [m]."""
    return separation_distribution(field, eps2) @ field


def vertex_weights(distribution: Array, faces: Array, vertices: int) -> Array:
    """z (V,): the weight of the faces (F, k) around every one of ``vertices`` vertices."""
    return jnp.zeros(vertices, distribution.dtype).at[faces.ravel()].add(jnp.repeat(distribution, faces.shape[1]))


def soft_top_k(z: Array, k: int, temperature: float = 1e-2, iterations: int = 100) -> Array:
    """Γ^K(z) (k, V), rows sum to one: row j picks, softly, the entry with the j-th largest of the scores ``z`` (V,).

    Optimal transport, regularised by entropy, from the V scores to k ranks of one V-th each and a sink for the rest. Equal scores share
    their ranks equally: the corners of a box that lies flat come out as one point in their middle.
    """
    v = z.shape[0]
    if not 0 < k < v:
        raise ValueError(f"soft_top_k needs 0 < k < {v}, got {k}")
    spread = jnp.maximum(jnp.max(z) - jnp.min(z), 1e-12)
    x = (z - jnp.min(z)) / spread  # in [0, 1], so that the temperature has one meaning
    targets = jnp.concatenate([jnp.linspace(1.0, 0.5, k), jnp.zeros(1)]).astype(z.dtype)
    log_kernel = -((targets[:, None] - x[None, :]) ** 2) / temperature
    log_rows = jnp.log(jnp.concatenate([jnp.ones(k), jnp.array([v - k])]).astype(z.dtype))

    def sweep(_: int, f: Array) -> Array:
        g = -jax.scipy.special.logsumexp(log_kernel + f[:, None], axis=0)
        return log_rows - jax.scipy.special.logsumexp(log_kernel + g[None, :], axis=1)

    f = jax.lax.fori_loop(0, iterations, sweep, jnp.zeros(k + 1, z.dtype))
    g = -jax.scipy.special.logsumexp(log_kernel + f[:, None], axis=0)
    rows = log_kernel[:k] + g[None, :]
    return jax.nn.softmax(rows, axis=1)


def contact_points(z: Array, vertices: Array, k: int, temperature: float = 1e-2) -> Array:
    """c (k, 3): soft top-k of the vertices (V, 3) by their weights z (V,)."""
    return soft_top_k(z, k, temperature) @ vertices
