"""Vectors whose components come first, (3, …), with derivatives that XLA turns into few kernels."""

from __future__ import annotations

import functools
import operator
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def kept(x: Any) -> Any:
    """Return the arrays behind a barrier, so that XLA computes them once and not in every kernel
    that reads them."""
    return jax.lax.optimization_barrier(x)


@jax.custom_jvp
def cross(a: Array, b: Array) -> Array:
    """Return a × b (3, …)."""
    return jnp.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def _cross_rule(primals: tuple[Array, Array], tangents: tuple[Any, Any]) -> tuple[Array, Any]:
    """Tangents, here and below, are sums that a backward pass turns into one loop each instead of
    one for every component."""
    (a, b), (da, db) = primals, tangents
    by_a = None if _nothing(da) else -jnp.sum(skew(b) * da[None], axis=1)
    return cross(a, b), _sum_of(by_a, None if _nothing(db) else jnp.sum(skew(a) * db[None], axis=1), like=a)


cross.defjvp(_cross_rule, symbolic_zeros=True)


def turn(R: Array, x: Array, shift: Array | None = None) -> Array:
    """Return R x + shift (3, …) of R (3, 3), x (3, …), shift (3,)."""
    x = jnp.asarray(x)
    return _turn(R, x) if shift is None else _turn(R, x) + _wide(shift, x)


@jax.custom_jvp
def _turn(R: Array, x: Array) -> Array:
    return jnp.stack([dot(row, x) for row in R])


def _turn_rule(primals: tuple[Array, Array], tangents: tuple[Any, Any]) -> tuple[Array, Any]:
    (R, x), (dR, dx) = primals, tangents
    return _turn(R, x), _sum_of(_row_sums(dR, x), _row_sums(R, dx), like=x)


_turn.defjvp(_turn_rule, symbolic_zeros=True)


def _row_sums(R: Any, x: Any) -> Array | None:
    """Return R x, (3, 3) and (3, …), as a sum; None if one of the two is a symbolic zero."""
    if _nothing(R) or _nothing(x):
        return None
    return jnp.sum(_wide(R, x[None]) * x[None], axis=1)


def _sum_of(*parts: Array | None, like: Any) -> Any:
    there = [x for x in parts if x is not None]
    return functools.reduce(operator.add, there) if there else jnp.zeros_like(like)


def _nothing(x: Any) -> bool:
    return isinstance(x, jax.custom_derivatives.SymbolicZero)


def _wide(a: Array, x: Array) -> Array:
    """Return ``a`` with trailing axes up to the number of x."""
    return a.reshape(a.shape + (1,) * (x.ndim - a.ndim))


@jax.custom_jvp
def dot(a: Array, b: Array) -> Array:
    """Return a · b (…) over the first axis."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _dot_rule(primals: tuple[Array, Array], tangents: tuple[Any, Any]) -> tuple[Array, Any]:
    (a, b), (da, db) = primals, tangents
    parts = [jnp.sum(x * y, axis=0) for x, y in ((da, b), (a, db)) if not (_nothing(x) or _nothing(y))]
    value = dot(a, b)
    return value, _sum_of(*parts, like=value)


dot.defjvp(_dot_rule, symbolic_zeros=True)


def outer(a: Array, b: Array) -> Array:
    """Return aᵀb (I, B, N) of a (3, B, N), b (3, I, B, 1 or N)."""
    return dot(a[:, None], b)


@jax.custom_jvp
def about(twist: Array, p: Array) -> Array:
    """Return the velocity (3, …) at the points p (3, …) of a body with the twist (6,) about the
    origin."""
    x, y, z, u, v, w = twist
    return jnp.stack([x + v * p[2] - w * p[1], y + w * p[0] - u * p[2], z + u * p[1] - v * p[0]])


def _about_rule(primals: tuple[Array, Array], tangents: tuple[Any, Any]) -> tuple[Array, Any]:
    (twist, p), (d_twist, dp) = primals, tangents
    by_twist = (
        None
        if _nothing(d_twist)
        else _wide(d_twist[:3], p) - jnp.sum(skew(p) * _wide(d_twist[3:], p)[None], axis=1)
    )
    return about(twist, p), _sum_of(by_twist, _row_sums(skew(twist[3:]), dp), like=p)


about.defjvp(_about_rule, symbolic_zeros=True)


def skew(a: Array) -> Array:
    """Return [a]× (3, 3, …) of vectors (3, …)."""
    x, y, z = a
    o = jnp.zeros_like(x)
    return jnp.stack([o, -z, y, z, o, -x, -y, x, o]).reshape(3, 3, *x.shape)


def wrench_transform(R: Array, p: Array) -> Array:
    """Return the matrix (6, 6) that takes a wrench in a frame of the pose (R (3, 3), p (3,)), about
    its origin, to the outer frame, about that one's."""
    return jnp.block([[R, jnp.zeros_like(R)], [cross(jnp.broadcast_to(p[:, None], R.shape), R), R]])


def twist_in(twist: Array, R: Array, p: Array) -> Array:
    """Return the twist (6,) about the origin and in the axes of a frame of the pose (R, p), of one
    about the outer origin."""
    return jnp.concatenate([turn(R.T, about(twist, p)), turn(R.T, twist[3:])])
