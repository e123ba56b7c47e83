"""Soft-minimum contact (SCM): the force between two oriented point clouds as one weighted mean of
point-plane forces.

    φ = nᵀ(p − p_i),  r = v_n/v_d,  λ_n = k ε3 log(1 + e^(−φ/ε3)) d(r),
    λ_t = −μ λ_n v_t/√(v_s² + ‖v_t‖²)                                            [14–20]
    force on a point p of one body by the other:  Σ_i softmax_ε1(−d(p))_i λ_i     [22]
    body on body:  Σ_f w_f (force of point f),   w = softmax_ε2(−Φ)               [23]

Every force acts *at p* on both bodies, with their relative velocity there, so that linear and
angular momentum are conserved to rounding; the paper's form, with J_i at p_i, leaks angular
momentum. The signs are those of a force on the moving point; the paper's [21] prints the opposite,
under which bodies attract.
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

from dexengines.soft.vectors import cross, dot, kept, outer, skew


class ContactParams(NamedTuple):
    """Parameters of the contact law; scalars, or one per pair with matching trailing axes."""

    stiffness: float | Array = 1e4
    """k [N/m]"""
    friction: float | Array = 0.5
    """μ"""
    eps1: float | Array = 1e-6
    """Smoothing among the planes of a body [m²]."""
    eps2: float | Array = 5e-4
    """Smoothing among the points that touch [m]."""
    eps3: float | Array = 2e-4
    """Smoothing of the onset of force [m]."""
    v_d: float | Array = 0.2
    """Separation speed scale of dissipation [m/s]."""
    v_s: float | Array = 0.01
    """Speed below which friction is viscous [m/s]."""
    normal_weight: float | Array = 1.0
    """β of the weights d = ‖p − p_i‖² + (β − 1) φ² of planes [10]; 1: isotropic. Others in the
    dense formulation only."""


ABSENT_PLANE = 1e3
"""Added to the squared distance of a plane that is padding [m²]."""
ABSENT_POINT = 1e3
"""Added to the distance of a point that is padding [m]."""

FEW = 1024
"""Pairs of point and plane up to which one reduction is as fast as several kernels."""

Dissipation = Callable[[Array], Array]


class Window(NamedTuple):
    """Range in which shares e^(−u) fade out."""

    start: float
    """u up to which shares are unchanged."""
    end: float
    """u from which shares are zero."""


class Cuts(NamedTuple):
    """Windows of shares, in the law's lengths."""

    points: Window
    """In ε2 above the least distance."""
    planes: Window
    """In ε1 above the least squared distance."""
    onset: Window
    """In ε3 away from a plane."""


def shares(logits: Array, total: Array, within: Window) -> Array:
    """Return exp(logits), where logits are −u up to a constant, faded out twice differentiably
    where u, relative to their soft minimum, is large.

    A share that appears or disappears beyond the end is zero and changes ``total`` by rounding at
    most.

    Args:
        logits: any shape, none much above zero.
        total: of their exponentials, broadcasts.
    """
    return jnp.exp(logits) * left(jnp.log(total) - logits, within)


def left(u: Array, within: Window) -> Array:
    """Return the factor of a share e^(−u): 1 up to the window's start, 0 from its end on, in
    between 1 − 10 s³ + 15 s⁴ − 6 s⁵.

    Twice differentiable, its curvature at most 5.8 over the squared width, which bounds the error
    of second derivatives.
    """
    s = jnp.clip((u - within.start) / (within.end - within.start), 0.0, 1.0)
    return (1.0 - s) ** 3 * (1.0 + s * (3.0 + 6.0 * s))


def paper_dissipation(r: Array) -> Array:
    """Return d(r) of [16–17]: once continuously differentiable; d″ jumps from 0 to ½ at r = 0 and
    back at r = 2."""
    return jnp.where(r <= 0.0, 1.0 - r, jnp.where(r <= 2.0, 0.25 * (r - 2.0) ** 2, 0.0))


def smooth_dissipation(r: Array) -> Array:
    """Return (1 − r/2)³(1 + r/2) on [0, 2]: the same value and slope at both ends as the paper's,
    and zero curvature."""
    s = 0.5 * jnp.clip(r, 0.0, 2.0)
    return jnp.where(r <= 0.0, 1.0 - r, (1.0 - s) ** 3 * (1.0 + s))


class Law(NamedTuple):
    """Structure of the contact law."""

    dissipation: Dissipation = paper_dissipation
    cuts: Cuts | None = None
    """None: all points and planes."""


PAPER = Law()


@jax.custom_jvp
def softplus(x: Array) -> Array:
    """Return log(1 + exp(x)) to relative rounding; several times as fast on a CPU as log1p."""
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
    """Response of B blocks of N query points; vector axes come first, so that arrays of one
    component are contiguous."""

    field: Array
    """(B, N) φ̂ [m]"""
    force: Array
    """(3, B, N) on the point [N]"""
    load: Array
    """(B, N) λ_n [N], mean over the planes."""
    normal: Array
    """(3, B, N) mean of the planes' normals."""
    stiffness: Array
    """(B, N) −∂λ_n/∂φ [N/m]"""
    damping: Array
    """(B, N) −∂λ_n/∂v_n [N s/m]"""
    drag: Array
    """(B, N) μ λ_n/√(v_s² + ‖v_t‖²) [N s/m]"""


class Planes(NamedTuple):
    """Planes that query points meet: I for each point, or the same I for all N of a block, with an
    axis of length one in place of N."""

    origin: Array
    """(3, B, 1 or N) a nearby place, so that squares do not cancel in single precision [m]."""
    points: Array
    """(3, I, B, 1 or N) about the origin."""
    normals: Array
    """(3, I, B, 1 or N)"""
    square: Array
    """(I, B, 1 or N) ‖points‖² [m²], plus ABSENT_PLANE for padding."""
    offset: Array
    """(I, B, 1 or N) points · normals [m]."""


def respond(p: Array, v: Array, planes: Planes, c: ContactParams, law: Law = PAPER) -> Response:
    """Return the point-SSDF contact [22] of query points against planes.

    Sums over three components are written out and sums over planes run down columns, which a CPU
    vectorises in a few passes; as matrix products these small shapes cost more.

    Args:
        p: (3, B, N) query points [m].
        v: (3, B, N) their velocity relative to the planes' body, taken at the points themselves
            [m/s].
        planes: that they meet.
        c: scalars, or (B, 1).
    """
    blocks, count = p.shape[1:]
    if blocks > 1 and planes.square.shape[2] > 1:  # one long axis for longer vectors
        long = lambda x: x.reshape(*x.shape[:-2], 1, blocks * count)  # noqa: E731
        each = ContactParams(*(long(jnp.broadcast_to(x, (blocks, count))) if jnp.ndim(x) else x for x in c))
        felt = respond(
            long(p),
            long(v),
            Planes(long(jnp.broadcast_to(planes.origin, p.shape)), *map(long, planes[1:])),
            each,
            law,
        )
        return Response(*(x.reshape(*x.shape[:-2], blocks, count) for x in felt))
    v, each = (
        kept(v),
        ContactParams(*(x[None] if jnp.ndim(x) else x for x in c)),
    )  # of points, and of points and planes
    weight, phi = _weights(p, planes, each, law.cuts)
    v_n = outer(v, planes.normals)
    depth = phi * (-1.0 / each.eps3)
    r = v_n * (1.0 / each.v_d)
    onset, brake = softplus(depth), law.dissipation(r)
    onset = kept(onset if law.cuts is None else onset * left(-depth, law.cuts.onset))
    load = weight * onset * brake
    drag = load * jax.lax.rsqrt(jnp.maximum(dot(v, v)[None] - v_n * v_n, 0.0) + each.v_s**2)
    push = load + each.friction * drag * v_n
    slope = weight * onset * jnp.where(r <= 0.0, 1.0, jnp.clip(1.0 - 0.5 * r, 0.0, 1.0))
    spring = weight * jax.nn.sigmoid(depth) * brake
    total, field, loads, drags, slopes, springs = (
        jnp.sum(x, axis=0) for x in (weight, weight * phi, load, drag, slope, spring)
    )
    # weights are normalised per query, after the sums over the planes
    share = 1.0 / total
    scale = share * (c.stiffness * c.eps3)
    pushes = [jnp.sum(push * n, axis=0) for n in planes.normals]
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


def _weights(p: Array, planes: Planes, c: ContactParams, cuts: Cuts | None) -> tuple[Array, Array]:
    """Return (I, B, N) weights of the planes up to a factor of each point, and φ; c: scalars, or
    (1, B, 1)."""
    # ‖p‖² is the same for all planes, and so is the largest logit: both cancel in the softmax
    p_o = kept(p - planes.origin)
    logits = outer(p_o * (2.0 / c.eps1), planes.points) - planes.square * (1.0 / c.eps1)
    phi = outer(p_o, planes.normals) - planes.offset
    logits = logits - phi * phi * ((c.normal_weight - 1.0) / c.eps1)
    many = logits.size > FEW
    logits = kept(logits) if many else logits
    logits = logits - jnp.max(jax.lax.stop_gradient(logits), axis=0, keepdims=True)
    weight = jnp.exp(logits)
    if cuts is not None:
        weight = shares(logits, jnp.sum(weight, axis=0, keepdims=True), cuts.planes)
    return kept(weight) if many else weight, phi


def mean_normal(planes: Planes, weight: Array) -> Array:
    """Return the sum (3, B, N) of the planes' normals under weights (I, B, N)."""
    if planes.normals.shape[3] == 1:
        return jnp.einsum("xib,ibn->xbn", planes.normals[..., 0], weight)
    return jnp.sum(planes.normals * weight[None], axis=1)


def respond_to_ground(
    p: Array, v: Array, c: ContactParams, dissipation: Dissipation = paper_dissipation
) -> Response:
    """Return the contact of points p with velocities v (3, B, N) against the half-space z < 0."""
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
    """Contact of S pairs, on the second body of each; linear part first."""

    wrench: Array
    """(S, 6); on the first body the opposite."""
    stiffness: Array
    """(S, 6, 6) K: symmetric, positive semidefinite part of −∂wrench/∂pose of the second body."""
    damping: Array
    """(S, 6, 6) D: the same of −∂wrench/∂twist of the second body."""
    distance: Array
    """(S,) wᵀΦ [m]"""


class Side(NamedTuple):
    """C chunks of B blocks of query points and their response, each in the axes and about the
    origin of its pair."""

    sign: Array
    """(C, B) +1 for points of the pair's second body, −1 for points of the first."""
    member: Array
    """(S, C, B) one if a block belongs to a pair, else zero."""
    points: Array
    """(C, 3, B, N)"""
    bias: Array
    """(C, B, N) added to Φ: 0, or ABSENT_POINT for padding; a chunk is empty if its first point is
    padding."""
    response: Response
    """With an axis C first."""


def each(f: Callable[[Any], Any], bias: Array, chunks: Any) -> Any:
    """Return ``f`` of each chunk of a tree with a leading axis (C, …), stacked; zeros for empty
    chunks, which are skipped."""
    if len(bias) == 1:
        return jax.tree.map(lambda x: x[None], f(jax.tree.map(lambda x: x[0], chunks)))
    shapes = jax.eval_shape(f, jax.tree.map(lambda x: x[0], chunks))
    nothing = lambda _: jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)  # noqa: E731
    return jax.lax.map(lambda x: jax.lax.cond(x[0] == 0.0, f, nothing, x[1]), (bias[:, 0, 0], chunks))


def combine(sides: Sequence[Side], eps2: Array, cuts: Cuts | None = None) -> PairWrench:
    """Return the body-body contact [23] of S pairs from the query points of both bodies (or of one,
    on the ground); ``eps2`` (S,) [m]."""
    members = [s.member.reshape(len(eps2), -1) for s in sides]

    def of_pair(x: Array) -> list[Array]:
        return [(x @ m).reshape(s.sign.shape)[..., None] for m, s in zip(members, sides, strict=True)]

    def total(parts: list[Array]) -> Array:
        """Return (S, …) sums over the blocks (C, …, B) of each pair."""
        flat = [jnp.moveaxis(x, 0, -2).reshape(*x.shape[1:-1], -1) for x in parts]
        return jnp.moveaxis(
            functools.reduce(operator.add, [x @ m.T for x, m in zip(flat, members, strict=True)]), -1, 0
        )

    logits = [-(s.response.field + s.bias) / e for s, e in zip(sides, of_pair(eps2), strict=True)]
    highest = [jnp.max(x, axis=2).reshape(1, -1) for x in jax.lax.stop_gradient(logits)]
    tops = [jnp.max(jnp.where(m > 0.0, x, -jnp.inf), axis=1) for m, x in zip(members, highest, strict=True)]
    top = functools.reduce(jnp.maximum, tops)
    top = jnp.where(jnp.isfinite(top), top, 0.0)  # a pair without points
    logits = [x - t for x, t in zip(logits, of_pair(top), strict=True)]
    weights = [jnp.exp(x) for x in logits]
    whole = total([jnp.sum(w, axis=2) for w in weights])
    if cuts is not None:
        weights = [shares(x, t, cuts.points) for x, t in zip(logits, of_pair(whole), strict=True)]
        whole = total([jnp.sum(w, axis=2) for w in weights])
    share = 1.0 / jnp.where(whole > 0.0, whole, 1.0)
    weights = [w * t for w, t in zip(weights, of_pair(share), strict=True)]
    # a tilt moves the weight to other points: a torque as stiff as the load over ε2
    shift = total([jnp.sum(w * s.response.load, axis=2) for w, s in zip(weights, sides, strict=True)]) / eps2
    parts = zip(weights, of_pair(shift), sides, strict=True)
    sums = [each(_sums, s.bias, (s.sign, s.points, s.response, w, t)) for w, t, s in parts]
    wrench, mean, stiffness, damping = (total([x[k] for x in sums]) for k in range(4))
    distance = total([jnp.sum(w * s.response.field, axis=2) for w, s in zip(weights, sides, strict=True)])
    return PairWrench(
        wrench, stiffness - shift[:, None, None] * mean[:, :, None] * mean[:, None, :], damping, distance
    )


def _sums(chunk: tuple[Array, Array, Response, Array, Array]) -> tuple[Array, Array, Array, Array]:
    """Return for every block of a chunk: wrench (6, B), mean of the normals' wrenches (6, B),
    stiffness and damping (6, 6, B)."""
    sign, points, felt, weight, shift = chunk
    g = jnp.concatenate([felt.normal, cross(points, felt.normal)])
    wrench, mean = (
        sign[None] * _moments(points, felt.force, weight),
        sign[None] * jnp.sum(g * weight[None], axis=2),
    )
    damping = _outers(g, weight * (felt.damping - felt.drag)) + _point_damping(points, weight * felt.drag)
    return wrench, mean, _outers(g, weight * (felt.stiffness + shift)), damping


def _moments(p: Array, f: Array, weight: Array) -> Array:
    """Return (6, B) weighted sums of forces f (3, B, N) at p (3, B, N) and of their moments about
    the origin."""
    return jnp.sum(jnp.concatenate([f, cross(p, f)]) * weight[None], axis=2)


def _outers(x: Array, weight: Array) -> Array:
    """Return (n, n, B) weighted sums of x xᵀ, x (n, B, N), written out."""
    n, y = len(x), x * weight[None]
    half = [[jnp.sum(y[i] * x[j], axis=1) for j in range(i + 1)] for i in range(n)]
    return jnp.stack([jnp.stack([half[max(i, j)][min(i, j)] for j in range(n)]) for i in range(n)])


def _point_damping(p: Array, beta: Array) -> Array:
    """Return the damping (6, 6, B) of −β v at the points p (3, B, N), β (B, N)."""
    total, first = jnp.sum(beta, axis=1), jnp.sum(p * beta[None], axis=2)
    second = _outers(p, beta)
    turned, eye = skew(first), jnp.eye(3, dtype=p.dtype)[:, :, None]
    top = jnp.concatenate([total[None, None] * eye, -turned], axis=1)
    return jnp.concatenate(
        [top, jnp.concatenate([turned, jnp.trace(second)[None, None] * eye - second], axis=1)]
    )


def all_planes(rows: Array) -> Planes:
    """Return the planes of whole clouds, rows (I, 8, B) of point, normal, plane bias, point
    bias."""
    rows = jnp.moveaxis(rows, 1, 0)
    o = rows[:3, :1]
    x = rows[:3] - o
    # one array: XLA would recompute several ones for every query point
    packed = jnp.stack([*x, *rows[3:6], dot(x, x) + rows[6], dot(x, rows[3:6])])
    o, packed = kept((o[:, 0, :, None], packed[..., None]))
    return Planes(o, packed[:3], packed[3:6], packed[6], packed[7])


def pair_params(params: ContactParams, friction: np.ndarray) -> ContactParams:
    """Return the parameters of every pair, equal but for their friction (P,)."""
    n = len(friction)
    return ContactParams(
        *(np.broadcast_to(np.asarray(x, float), (n,)) for x in params._replace(friction=friction))
    )
