"""Soft-minimum contact (SCM): the force between two oriented point clouds as one weighted mean of point-plane forces.

    φ = nᵀ(p − p_i);  c = k ε3 log(1 + exp(−φ/ε3));  r = v_n/v_d;  λ_n = c d(r);  λ_t = −μ λ_n v_t/√(v_s² + ‖v_t‖²)       [14–20]
    force on a point p of one body by the other:  Σ_i softmax_ε1(−d(p))_i λ_i                                             [22]
    body on body:  Σ_f w_f (force of point f),   w = softmax_ε2(−Φ)                                                        [23]

Every force acts *at p* on both bodies, so that linear and angular momentum are conserved to rounding; the relative velocity is that of the
two bodies at p. This also makes the geometry matrix products. :func:`wrenches_as_printed` keeps the paper's form, with J_i at p_i.
The signs are those of a force on the moving point: the paper's [21] prints the opposite, under which bodies attract.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dexstack.engines.soft.ssdf import dot3


class ContactParams(NamedTuple):
    """Numbers of the contact law; scalars, or one per pair with matching trailing axes."""

    stiffness: float | Array = 1e4
    """k [N/m]"""
    friction: float | Array = 0.5
    """μ"""
    eps1: float | Array = 1e-6
    """Smoothing among the planes of a body [m²]; √ε1 about half the spacing of its points keeps the surface."""
    eps2: float | Array = 5e-4
    """Smoothing among the points that touch [m]."""
    eps3: float | Array = 2e-4
    """Smoothing of the onset of force [m]."""
    v_d: float | Array = 0.2
    """Separation speed scale of dissipation [m/s]."""
    v_s: float | Array = 0.01
    """Speed below which friction is viscous [m/s]."""


Dissipation = Callable[[Array], Array]


def paper_dissipation(r: Array) -> Array:
    """d(r) of [16–17]: once continuously differentiable; d″ jumps from 0 to ½ at r = 0 and back at r = 2."""
    return jnp.where(r <= 0.0, 1.0 - r, jnp.where(r <= 2.0, 0.25 * (r - 2.0) ** 2, 0.0))


def smooth_dissipation(r: Array) -> Array:
    """(1 − r/2)³(1 + r/2) on [0, 2]: the same value, slope and, unlike the paper's, zero curvature at both ends."""
    s = 0.5 * jnp.clip(r, 0.0, 2.0)
    return jnp.where(r <= 0.0, 1.0 - r, (1.0 - s) ** 3 * (1.0 + s))


@jax.custom_jvp
def softplus(x: Array) -> Array:
    """log(1 + exp(x)) to rounding, relative also where it is tiny; several times as fast on a CPU as with a library's log1p."""
    e = jnp.exp(-jnp.abs(x))
    u = e / (2.0 + e)  # log(1 + e) = 2 atanh u, u ≤ 1/3
    series = jnp.zeros_like(x)
    for k in range(31 if x.dtype == jnp.float64 else 13, 0, -2):
        series = series * (u * u) + 1.0 / k
    return jnp.maximum(x, 0.0) + 2.0 * u * series


@softplus.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return softplus(primals[0]), jax.nn.sigmoid(primals[0]) * tangents[0]


class Response(NamedTuple):
    """What every query point feels; leading axes as given."""

    field: Array
    """(Q,) φ̂ [m]"""
    force: Array
    """(Q, 3) on the point [N]"""
    load: Array
    """(Q,) λ_n [N], mean over the planes."""
    normal: Array
    """(Q, 3) mean of the planes' normals."""
    stiffness: Array
    """(Q,) −∂λ_n/∂φ [N/m]"""
    damping: Array
    """(Q,) −∂λ_n/∂v_n [N s/m]"""
    drag: Array
    """(Q,) μ λ_n/√(v_s² + ‖v_t‖²) [N s/m]"""


def respond(
    p: Array, v: Array, planes: Array, normals: Array, bias: Array, c: ContactParams, dissipation: Dissipation = paper_dissipation
) -> Response:
    """Point-SSDF contact [22] of query points against planes.

    Args:
        p: (Q, 3) query points [m].
        v: (Q, 3) their velocity relative to the planes' body, taken at the points themselves [m/s].
        planes, normals: (I, 3).
        bias: (I,) added to the logits of the planes: 0, or very negative for one that is not there.
    """
    o = planes[0]  # near by, so that the squares below do not cancel in single precision
    x, p_o = planes - o, p - o
    offset = dot3(x, normals)
    # ‖p‖² is the same for all planes, and so is the largest logit: both cancel in the softmax
    logits = (p_o * (2.0 / c.eps1)) @ x.T + (bias - dot3(x, x) / c.eps1)
    weight = jnp.exp(logits - jax.lax.stop_gradient(jnp.max(logits, axis=1, keepdims=True)))
    phi = p_o @ normals.T - offset
    v_n = v @ normals.T
    depth = phi * (-1.0 / c.eps3)
    r = v_n * (1.0 / c.v_d)
    load = weight * softplus(depth) * dissipation(r)
    slip2 = dot3(v, v)[:, None] - v_n * v_n
    drag = load * jax.lax.rsqrt(c.v_s**2 + jnp.maximum(slip2, 0.0))
    # Weights are normalised per query, after the sums over the planes, which are matrix products.
    ones = jnp.ones_like(offset)
    sums = weight @ jnp.concatenate([normals, offset[:, None], ones[:, None]], axis=1)
    share = 1.0 / sums[:, 4]
    normal = sums[:, :3] * share[:, None]
    scale = share * (c.stiffness * c.eps3)
    total_drag = c.friction * scale * (drag @ ones)
    force = scale[:, None] * ((load + c.friction * drag * v_n) @ normals) - total_drag[:, None] * v
    slope = weight * softplus(depth) * jnp.where(r <= 0.0, 1.0, jnp.clip(1.0 - 0.5 * r, 0.0, 1.0))
    return Response(
        field=dot3(normal, p_o) - sums[:, 3] * share,
        force=force,
        load=scale * (load @ ones),
        normal=normal,
        stiffness=share * c.stiffness * ((weight * jax.nn.sigmoid(depth) * dissipation(r)) @ ones),
        damping=scale / c.v_d * (slope @ ones),
        drag=total_drag,
    )


class PairWrench(NamedTuple):
    """Contact of a body B with a body A, in A's axes about A's origin; linear part first."""

    wrench: Array
    """(6,) on B; A feels the opposite."""
    stiffness: Array
    """(6, 6) K: symmetric, positive semidefinite part of −∂wrench/∂pose of B."""
    damping: Array
    """(6, 6) D: the same of −∂wrench/∂twist of B."""
    distance: Array
    """() wᵀΦ [m]"""


def combine(p: Array, side: Array, bias: Array, response: Response, eps2: float | Array) -> PairWrench:
    """Body-body contact [23].

    Args:
        p: (F, 3) the query points of both bodies in A's frame.
        side: (F,) +1 for points of B, −1 for points of A.
        bias: (F,) added to Φ: 0, or very large for a point that is not there.
        response: of all query points.
    """
    field = response.field + bias
    logits = -field / eps2
    w = jnp.exp(logits - jax.lax.stop_gradient(jnp.max(logits)))
    w = w / jnp.sum(w)
    force = (w * side)[:, None] * response.force
    wrench = jnp.concatenate([jnp.sum(force, axis=0), jnp.sum(jnp.cross(p, force), axis=0)])
    n = side[:, None] * response.normal
    g = jnp.concatenate([n, jnp.cross(p, n)], axis=1)
    # A tilt moves the weight to other points: a torque that is as stiff as the load over ε2 and belongs into an implicit step.
    shift = (w @ response.load) / eps2
    mean = w @ g
    stiffness = (g * (w * (response.stiffness + shift))[:, None]).T @ g - shift * jnp.outer(mean, mean)
    beta = w * response.drag
    damping = (g * (w * response.damping - beta)[:, None]).T @ g + _point_damping(p, beta)
    return PairWrench(wrench, stiffness, damping, w @ response.field)


def _point_damping(p: Array, beta: Array) -> Array:
    """(6, 6) of −β v at each of the points p (F, 3), β (F,)."""
    total, first = jnp.sum(beta), beta @ p
    second = (p * beta[:, None]).T @ p
    x, y, z = first
    o = jnp.zeros_like(x)
    skew = jnp.stack([o, -z, y, z, o, -x, -y, x, o]).reshape(3, 3)
    eye = jnp.eye(3, dtype=p.dtype)
    return jnp.block([[total * eye, -skew], [skew, jnp.trace(second) * eye - second]])


def dense_pair(
    points_a: Array, normals_a: Array, points_b: Array, normals_b: Array, R_AB: Array, p_AB: Array, twist: Array, c: ContactParams,
    dissipation: Dissipation = paper_dissipation,
) -> PairWrench:  # fmt: skip
    """Contact of two whole clouds, each in its own frame, B at the pose (R_AB, p_AB) and with the twist (6,) relative to A, in A.

    ``twist`` is the velocity of B's material point at A's origin, then the angular velocity.
    """
    pb, nb = points_b @ R_AB.T + p_AB, normals_b @ R_AB.T
    v, w = twist[:3], twist[3:]
    on_b = respond(pb, v + jnp.cross(w, pb), points_a, normals_a, jnp.zeros(len(points_a)), c, dissipation)
    on_a = respond(points_a, -(v + jnp.cross(w, points_a)), pb, nb, jnp.zeros(len(pb)), c, dissipation)
    p = jnp.concatenate([pb, points_a])
    side = jnp.concatenate([jnp.ones(len(pb), p.dtype), -jnp.ones(len(points_a), p.dtype)])
    both = jax.tree.map(lambda x, y: jnp.concatenate([x, y]), on_b, on_a)
    return combine(p, side, jnp.zeros(len(p), p.dtype), both, c.eps2)


def point_plane_force(p: Array, v: Array, p_i: Array, n_i: Array, c: ContactParams, dissipation: Dissipation = paper_dissipation) -> Array:
    """λ(p, v, p_i, n_i) (3,) of [14–20] on the moving point, written out."""
    phi, v_n = n_i @ (p - p_i), n_i @ v
    v_t = v - v_n * n_i
    load = c.stiffness * c.eps3 * jax.nn.softplus(-phi / c.eps3) * dissipation(v_n / c.v_d)
    return load * n_i - c.friction * load * v_t / jnp.sqrt(c.v_s**2 + v_t @ v_t)


def wrenches_as_printed(
    points_a: Array, normals_a: Array, points_b: Array, normals_b: Array, twist_a: Array, twist_b: Array, c: ContactParams,
    dissipation: Dissipation = paper_dissipation,
) -> tuple[Array, Array]:  # fmt: skip
    """Wrenches (6,) on A and on B about the origin of the common frame, with J_i at p_i as in [21].

    The reaction acts at the plane's own centre: angular momentum leaks by (p − p_i) × λ. Kept to measure that leak; written out point by
    plane, so for small clouds.
    """

    def one_way(p: Array, twist_p: Array, planes: Array, normals: Array, twist_i: Array) -> tuple[Array, Array, Array]:
        velocity = lambda twist, x: twist[:3] + jnp.cross(twist[3:], x)  # noqa: E731

        def point(x: Array) -> tuple[Array, Array, Array]:
            d = jnp.sum((x - planes) ** 2, axis=1)
            weight = jax.nn.softmax(-d / c.eps1)
            v = velocity(twist_p, x) - jax.vmap(lambda y: velocity(twist_i, y))(planes)
            force = jax.vmap(lambda u, y, n: point_plane_force(x, u, y, n, c, dissipation))(v, planes, normals) * weight[:, None]
            action = jnp.concatenate([force.sum(0), jnp.cross(x, force.sum(0))])
            reaction = -jnp.concatenate([force.sum(0), jnp.cross(planes, force).sum(0)])
            return weight @ jnp.sum(normals * (x - planes), axis=1), action, reaction

        return jax.vmap(point)(p)

    phi_b, act_b, react_a = one_way(points_b, twist_b, points_a, normals_a, twist_a)
    phi_a, act_a, react_b = one_way(points_a, twist_a, points_b, normals_b, twist_b)
    w = jax.nn.softmax(-jnp.concatenate([phi_b, phi_a]) / c.eps2)
    return w @ jnp.concatenate([react_a, act_a]), w @ jnp.concatenate([act_b, react_b])


def pair_params(params: ContactParams, friction: np.ndarray) -> ContactParams:
    """The same numbers for every pair but for its own friction (P,)."""
    n = len(friction)
    return ContactParams(*(np.broadcast_to(np.asarray(x, float), (n,)) for x in params._replace(friction=friction)))
