"""Soft-minimum contact (SCM): the force between two oriented point clouds as one weighted mean of point-plane forces.

    φ = nᵀ(p − p_i);  c = k ε3 log(1 + exp(−φ/ε3));  r = v_n/v_d;  λ_n = c d(r);  λ_t = −μ λ_n v_t/√(v_s² + ‖v_t‖²)       [14–20]
    force on a point p of one body by the other:  Σ_i softmax_ε1(−d(p))_i λ_i                                             [22]
    body on body:  Σ_f w_f (force of point f),   w = softmax_ε2(−Φ)                                                        [23]

Every force acts *at p* on both bodies, so that linear and angular momentum are conserved to rounding; the relative velocity is that of the
two bodies at p. This also makes the geometry matrix products. The paper's form, with J_i at p_i, leaks angular momentum.
The signs are those of a force on the moving point: the paper's [21] prints the opposite, under which bodies attract.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


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


ABSENT_PLANE = 1e3
"""Added to the squared distance of a plane that only fills up an array [m²]."""

FEW = 1024
"""Up to so many pairs of point and plane reductions are as fast as what takes more kernels."""

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
    if x.dtype == jnp.float64:
        u = e / (2.0 + e)  # log(1 + e) = 2 atanh u, u ≤ 1/3
        series = jnp.zeros_like(x)
        for k in range(31, 0, -2):
            series = series * (u * u) + 1.0 / k
        return jnp.maximum(x, 0.0) + 2.0 * u * series
    # log(1 + e)/e on [0, 1] as a fraction fitted to 2e-8, relative
    above = 1.0 + e * (0.8695149113086478 + e * 0.12463838193978238)
    below = 1.0 + e * (1.369513533338213 + e * (0.4760893349849293 + e * 0.03135225915885498))
    return (jnp.maximum(x, 0.0) * below + e * above) / below


@softplus.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return softplus(primals[0]), jax.nn.sigmoid(primals[0]) * tangents[0]


class Response(NamedTuple):
    """What every query point feels; the axes of vectors come first, so that an array of one component is contiguous."""

    field: Array
    """(Q,) φ̂ [m]"""
    force: Array
    """(3, Q) on the point [N]"""
    load: Array
    """(Q,) λ_n [N], mean over the planes."""
    normal: Array
    """(3, Q) mean of the planes' normals."""
    stiffness: Array
    """(Q,) −∂λ_n/∂φ [N/m]"""
    damping: Array
    """(Q,) −∂λ_n/∂v_n [N s/m]"""
    drag: Array
    """(Q,) μ λ_n/√(v_s² + ‖v_t‖²) [N s/m]"""


class Planes(NamedTuple):
    """Planes that query points meet: the same I for all Q of them, with an axis of length one in the place of Q, or I for each."""

    origin: Array
    """(3, 1 or Q) a place near by, so that squares do not cancel in single precision [m]."""
    points: Array
    """(3, 1 or Q, I) about the origin."""
    normals: Array
    """(3, 1 or Q, I)"""
    square: Array
    """(1 or Q, I) ‖points‖² [m²], and ABSENT_PLANE more for one that is not there."""
    offset: Array
    """(1 or Q, I) points · normals [m]."""

    def of(self, points: slice) -> Planes:
        """Those of some of the query points."""
        if self.square.shape[0] == 1:
            return self
        return Planes(*(x[:, points] for x in self[:3]), *(x[points] for x in self[3:]))


def respond(p: Array, v: Array, planes: Planes, c: ContactParams, dissipation: Dissipation = paper_dissipation) -> Response:
    """Point-SSDF contact [22] of query points against planes.

    Sums over three components are written out and sums over planes run along the last axis: a CPU then makes a handful of passes over
    (Q, I) numbers, each vectorised along the planes; as matrix products these small shapes cost more to set up than to compute.

    Args:
        p: (3, Q) query points [m].
        v: (3, Q) their velocity relative to the planes' body, taken at the points themselves [m/s].
        planes: that they meet.
    """
    v = kept(v)
    weight, phi = _weights(p, planes, c)
    v_n = _outer(v, planes.normals)
    depth = phi * (-1.0 / c.eps3)
    r = v_n * (1.0 / c.v_d)
    onset, brake = kept(softplus(depth)), dissipation(r)
    load = weight * onset * brake
    drag = load * jax.lax.rsqrt(jnp.maximum(_dot(v, v)[:, None] - v_n * v_n, 0.0) + c.v_s**2)
    push = load + c.friction * drag * v_n
    slope = weight * onset * jnp.where(r <= 0.0, 1.0, jnp.clip(1.0 - 0.5 * r, 0.0, 1.0))
    spring = weight * jax.nn.sigmoid(depth) * brake
    over_planes = _summing(weight)
    total, field, loads, drags, slopes, springs = map(over_planes, (weight, weight * phi, load, drag, slope, spring))
    # weights are normalised per query, after the sums over the planes
    share = 1.0 / total
    scale = share * (c.stiffness * c.eps3)
    pushes = [over_planes(push * n) for n in planes.normals]
    total_drag = c.friction * scale * drags
    force = kept(scale[None] * jnp.stack(pushes) - total_drag[None] * v)
    return Response(
        field=share * field,
        force=force,
        load=scale * loads,
        normal=share[None] * mean_normal(planes, weight),
        stiffness=share * c.stiffness * springs,
        damping=scale / c.v_d * slopes,
        drag=total_drag,
    )


def field(p: Array, planes: Planes, c: ContactParams) -> Array:
    """(Q,) φ̂ [m] of points p (3, Q) alone."""
    weight, phi = _weights(p, planes, c)
    over_planes = _summing(weight)
    return over_planes(weight * phi) / over_planes(weight)


def _weights(p: Array, planes: Planes, c: ContactParams) -> tuple[Array, Array]:
    """(Q, I) weights of the planes but for a factor of each point, and φ."""
    # ‖p‖² is the same for all planes, and so is the largest logit: both cancel in the softmax
    p_o = kept(p - planes.origin)
    logits = _outer(p_o * (2.0 / c.eps1), planes.points) - planes.square * (1.0 / c.eps1)
    many = logits.size > FEW
    logits = kept(logits) if many else logits
    weight = jnp.exp(logits - _largest(jax.lax.stop_gradient(logits)))
    return kept(weight) if many else weight, _outer(p_o, planes.normals) - planes.offset


def _summing(like: Array) -> Callable[[Array], Array]:
    """Sum over the last axis of (Q, I) numbers: of many as a matrix product, which a CPU does in whole vectors, unlike a reduction."""
    if like.size <= FEW:
        return lambda x: jnp.sum(x, axis=1)
    ones = jnp.ones(like.shape[1], like.dtype)
    return lambda x: kept(x) @ ones


def _largest(x: Array) -> Array:
    """(Q, 1) of each row of x (Q, I); of many by halves: a CPU compares whole vectors at once, unlike in a reduction."""
    if x.size <= FEW:
        return jnp.max(x, axis=1, keepdims=True)
    while x.shape[1] > 1:
        half, odd = divmod(x.shape[1], 2)
        most = jnp.maximum(x[:, :half], x[:, half + odd :])
        x = kept(jnp.concatenate([x[:, half : half + 1], most], axis=1) if odd else most)
    return x


def mean_normal(planes: Planes, weight: Array) -> Array:
    """(3, Q) sum of the planes' normals under weights (Q, I)."""
    if planes.normals.shape[1] == 1:
        return planes.normals[:, 0] @ weight.T
    return jnp.sum(planes.normals * weight[None], axis=2)


def respond_to_ground(p: Array, v: Array, c: ContactParams, dissipation: Dissipation = paper_dissipation) -> Response:
    """The same against the half-space z < 0: one plane, so nothing to weigh. p, v (3, Q)."""
    depth, r = p[2] * (-1.0 / c.eps3), v[2] * (1.0 / c.v_d)
    onset, brake, scale = softplus(depth), dissipation(r), c.stiffness * c.eps3
    load = scale * onset * brake
    drag = c.friction * load * jax.lax.rsqrt(c.v_s**2 + v[0] * v[0] + v[1] * v[1])
    force = kept(jnp.stack([-drag * v[0], -drag * v[1], load]))
    zero = jnp.zeros_like(load)
    return Response(
        field=p[2],
        force=force,
        load=load,
        normal=jnp.stack([zero, zero, zero + 1.0]),
        stiffness=c.stiffness * jax.nn.sigmoid(depth) * brake,
        damping=scale / c.v_d * onset * jnp.where(r <= 0.0, 1.0, jnp.clip(1.0 - 0.5 * r, 0.0, 1.0)),
        drag=drag,
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


class Side(NamedTuple):
    """The query points of one body and what they feel, both in A's frame."""

    sign: float
    """+1 for points of B, −1 for points of A."""
    points: Array
    """(3, Q)"""
    bias: Array | float
    """(Q,) added to Φ: 0, or very large for a point that is not there."""
    response: Response
    rest: Array | None = None
    """(R,) Φ of the body's other points, which are too far away to feel a force."""


def combine(sides: Sequence[Side], eps2: float | Array) -> PairWrench:
    """Body-body contact [23] from the query points of both bodies (or of one, on the ground)."""
    logits = [-(s.response.field + s.bias) / eps2 for s in sides]
    others = [s.rest for s in sides if s.rest is not None]
    top = jax.lax.stop_gradient(functools.reduce(jnp.maximum, [jnp.max(x) for x in [*logits, *(-x / eps2 for x in others)]]))
    weights = [jnp.exp(x - top) for x in logits]
    far = [jnp.exp(-x / eps2 - top) for x in others]
    share = 1.0 / sum(jnp.sum(w) for w in weights + far)
    total = lambda parts: share * functools.reduce(operator.add, parts)  # noqa: E731
    w_sides = list(zip(weights, sides, strict=True))
    wrench = total([s.sign * _moments(s.points, s.response.force, w) for w, s in w_sides])
    # A tilt moves the weight to other points: a torque that is as stiff as the load over ε2 and belongs into an implicit step.
    shift = total([w @ s.response.load for w, s in w_sides]) / eps2
    g = [jnp.concatenate([s.response.normal, cross(s.points, s.response.normal)]) for s in sides]
    mean = total([s.sign * (x @ w) for x, (w, s) in zip(g, w_sides, strict=True)])
    stiffness = total([(x * (w * (s.response.stiffness + shift))[None]) @ x.T for x, (w, s) in zip(g, w_sides, strict=True)])
    drags = [w * s.response.drag for w, s in w_sides]
    damping = total(
        [
            (x * (w * s.response.damping - b)[None]) @ x.T + _point_damping(s.points, b)
            for x, b, (w, s) in zip(g, drags, w_sides, strict=True)
        ]
    )
    distance = total([w @ s.response.field for w, s in w_sides] + [w @ x for w, x in zip(far, others, strict=True)])
    return PairWrench(wrench, stiffness - shift * jnp.outer(mean, mean), damping, distance)


def moved_wrench(R: Array, p: Array, wrench: Array) -> Array:
    """(6,) of a wrench in a frame of the pose (R (3, 3), p (3,)), about that frame's origin, in the outer frame about its own."""
    force = turn(R, wrench[:3])
    return jnp.concatenate([force, turn(R, wrench[3:]) + cross(p, force)])


def wrench_transform(R: Array, p: Array) -> Array:
    """(6, 6) :func:`moved_wrench` as a matrix."""
    return jnp.block([[R, jnp.zeros_like(R)], [cross(jnp.broadcast_to(p[:, None], R.shape), R), R]])


def _moments(p: Array, f: Array, weight: Array) -> Array:
    """(6,) weighted sum of forces f (3, Q) at p (3, Q) and of their moments about the origin."""
    return jnp.sum(jnp.concatenate([f, cross(p, f)]) * weight[None], axis=1)


def _point_damping(p: Array, beta: Array) -> Array:
    """(6, 6) of −β v at each of the points p (3, Q), β (Q,)."""
    total, first = jnp.sum(beta), p @ beta
    second = (p * beta[None]) @ p.T
    turned = skew(first)
    eye = jnp.eye(3, dtype=p.dtype)
    return jnp.block([[total * eye, -turned], [turned, jnp.trace(second) * eye - second]])


def kept(x: Any) -> Any:
    """The same arrays, which XLA then computes once; else it would repeat what makes them in every kernel that reads them."""
    return jax.lax.optimization_barrier(x)


@jax.custom_jvp
def cross(a: Array, b: Array) -> Array:
    """(3, …) of vectors whose components come first."""
    return jnp.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def _cross_rule(primals: tuple[Array, Array], tangents: tuple[Any, Any]) -> tuple[Array, Any]:
    """Here and below: tangents as sums that a backward pass turns into one loop each, instead of one for every component."""
    (a, b), (da, db) = primals, tangents
    by_a = None if _nothing(da) else -jnp.sum(skew(b) * da[None], axis=1)
    return cross(a, b), _sum_of(by_a, None if _nothing(db) else jnp.sum(skew(a) * db[None], axis=1), like=a)


cross.defjvp(_cross_rule, symbolic_zeros=True)


def turn(R: Array, x: Array, shift: Array | None = None) -> Array:
    """(3, …) R x + shift of R (3, 3), x (3, …), shift (3,), written out."""
    x = jnp.asarray(x)
    return _turn(R, x) if shift is None else _turn(R, x) + _wide(shift, x)


@jax.custom_jvp
def _turn(R: Array, x: Array) -> Array:
    return jnp.stack([_dot(row, x) for row in R])


def _turn_rule(primals: tuple[Array, Array], tangents: tuple[Any, Any]) -> tuple[Array, Any]:
    (R, x), (dR, dx) = primals, tangents
    return _turn(R, x), _sum_of(_row_sums(dR, x), _row_sums(R, dx), like=x)


_turn.defjvp(_turn_rule, symbolic_zeros=True)


def _row_sums(R: Any, x: Any) -> Array | None:
    """R x again, (3, 3) and (3, …); None where one of the two is a zero by construction."""
    if _nothing(R) or _nothing(x):
        return None
    return jnp.sum(_wide(R, x) * x[None], axis=1)


def _sum_of(*parts: Array | None, like: Any) -> Any:
    there = [x for x in parts if x is not None]
    return functools.reduce(operator.add, there) if there else jnp.zeros_like(like)


def _nothing(x: Any) -> bool:
    return isinstance(x, jax.custom_derivatives.SymbolicZero)


def _wide(a: Array, x: Array) -> Array:
    """``a`` (3,) or (3, 3) with as many axes at its end as x (3, …) has beyond its first."""
    return a.reshape(a.shape + (1,) * (x.ndim - 1))


@jax.custom_jvp
def _dot(a: Array, b: Array) -> Array:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _dot_rule(primals: tuple[Array, Array], tangents: tuple[Any, Any]) -> tuple[Array, Any]:
    (a, b), (da, db) = primals, tangents
    parts = [jnp.sum(x * y, axis=0) for x, y in ((da, b), (a, db)) if not (_nothing(x) or _nothing(y))]
    value = _dot(a, b)
    return value, _sum_of(*parts, like=value)


_dot.defjvp(_dot_rule, symbolic_zeros=True)


def _outer(a: Array, b: Array) -> Array:
    """(Q, I) aᵀb of a (3, Q), b (3, 1 or Q, I)."""
    return _dot(a[:, :, None], b)


@jax.custom_jvp
def about(twist: Array, p: Array) -> Array:
    """(3, …) velocity at the points p (3, …) of a body with the twist (6,) about the origin."""
    x, y, z, u, v, w = twist
    return jnp.stack([x + v * p[2] - w * p[1], y + w * p[0] - u * p[2], z + u * p[1] - v * p[0]])


def _about_rule(primals: tuple[Array, Array], tangents: tuple[Any, Any]) -> tuple[Array, Any]:
    (twist, p), (d_twist, dp) = primals, tangents
    by_twist = None if _nothing(d_twist) else _wide(d_twist[:3], p) - jnp.sum(skew(p) * _wide(d_twist[3:], p)[None], axis=1)
    return about(twist, p), _sum_of(by_twist, _row_sums(skew(twist[3:]), dp), like=p)


about.defjvp(_about_rule, symbolic_zeros=True)


def skew(a: Array) -> Array:
    """(3, 3, …) [a]× of vectors (3, …)."""
    x, y, z = a
    o = jnp.zeros_like(x)
    return jnp.stack([o, -z, y, z, o, -x, -y, x, o]).reshape(3, 3, *x.shape)


class Body(NamedTuple):
    """Oriented points that meet others, in their body's frame."""

    points: Array
    """(3, I)"""
    normals: Array
    """(3, I)"""
    plane_bias: Array | float = 0.0
    """(I,) added to the squared distances of the planes [m²]."""
    point_bias: Array | float = 0.0
    """(I,) added to the distances of the points [m]."""
    near: Callable[[Array], Planes] | None = None
    """The planes that points (3, Q) in this frame meet; None: all of these."""
    core: int | None = None
    """How many points, the first ones, can feel a force; the others only count in the distribution. None: all."""

    def planes(self, p: Array) -> Planes:
        """Those that points p (3, Q) in this frame meet."""
        if self.near is not None:
            return self.near(p)
        o = self.points[:, :1]
        x = self.points - o
        # one array: XLA would repeat what makes several ones, a lookup, for every query point
        rows = jnp.stack([*x, *self.normals, _dot(x, x) + self.plane_bias, _dot(x, self.normals)])
        o, rows = kept((o, rows[:, None]))
        return Planes(o, rows[:3], rows[3:6], rows[6], rows[7])


def meet(
    a: Body, b: Body, R_AB: Array, p_AB: Array, twist: Array, c: ContactParams, dissipation: Dissipation = paper_dissipation
) -> PairWrench:
    """Contact of two bodies, B at the pose (R_AB, p_AB) and with the twist (6,) relative to A, in A.

    ``twist`` is the velocity of B's material point at A's origin, then the angular velocity. Each body's points are seen from the other's
    frame, where the planes stand still: neither they nor their derivatives have to be computed.
    """
    R_BA = R_AB.T
    on_b = kept(turn(R_AB, b.points, p_AB))
    on_a = kept(turn(R_BA, a.points, -turn(R_BA, p_AB)))
    back = -jnp.concatenate([turn(R_BA, about(twist, p_AB)), turn(R_BA, twist[3:])])  # of A relative to B, at B's origin, in B
    met_b, met_a, core_b, core_a = a.planes(on_b), b.planes(on_a), slice(b.core), slice(a.core)
    felt_b = respond(on_b[:, core_b], about(twist, on_b[:, core_b]), met_b.of(core_b), c, dissipation)
    felt_a = respond(on_a[:, core_a], about(back, on_a[:, core_a]), met_a.of(core_a), c, dissipation)
    felt_a = felt_a._replace(force=turn(R_AB, felt_a.force), normal=turn(R_AB, felt_a.normal))
    return combine([side(1.0, on_b, b, felt_b, on_b, met_b, c), side(-1.0, a.points, a, felt_a, on_a, met_a, c)], c.eps2)


def side(sign: float, points: Array, of: Body, felt: Response, seen: Array, met: Planes, c: ContactParams) -> Side:
    """A body's points (3, Q) in A's frame and, ``seen`` from the other body, with the planes they meet.

    Its core feels, the rest is as near as it is.
    """
    bias = jnp.broadcast_to(jnp.asarray(of.point_bias, points.dtype), points.shape[1:])
    rest = None
    if of.core is not None:
        far = slice(of.core, None)
        rest = field(seen[:, far], met.of(far), c) + bias[far]
    return Side(sign, points[:, : of.core], bias[: of.core], felt, rest)


def pair_params(params: ContactParams, friction: np.ndarray) -> ContactParams:
    """The same numbers for every pair but for its own friction (P,)."""
    n = len(friction)
    return ContactParams(*(np.broadcast_to(np.asarray(x, float), (n,)) for x in params._replace(friction=friction)))
