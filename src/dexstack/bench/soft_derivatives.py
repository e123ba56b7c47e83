"""First and second derivatives of the soft contact wrench in random states, against finite differences in float64."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dexstack.engines.soft import cloud
from dexstack.engines.soft.scm import ContactParams, dense_pair, smooth_dissipation
from dexstack.engines.soft.tree import turned
from dexstack.model.kinematics import quaternion_matrix

BALL, BOX = cloud.sphere(0.03, 0.025), cloud.box((0.03, 0.02, 0.04), 0.021)
LAW = ContactParams(stiffness=1e4, eps1=5e-5, eps2=1e-3, eps3=5e-4, v_d=0.2, v_s=0.02)
SCALES = np.repeat([0.03, 1e-3, 0.02, 0.6], 3)
"""A change of a state that the law feels: turn [rad], place [m], velocity [m/s], angular velocity [rad/s]."""
KINDS = ("touching", "concentric", "deep", "far apart", "fast", "at rest")
BATCH = 500
H = 2e-5
"""Step of the differences, in SCALES; small, as the third derivative of the law jumps where a body is at rest."""


class Outcome(NamedTuple):
    """Of one kind of states."""

    kind: str
    count: int
    not_finite: int
    """States in which a value, an entry of the Jacobian or a second derivative is not finite."""
    first: np.ndarray
    """(count,) error of the derivative along a random direction, over the largest of the wrench and its two derivatives along it."""
    second: np.ndarray
    """(count,) the same of the second derivative."""


def states(kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """(count, 13) pose (quaternion, place) and twist of a box relative to a ball."""
    quat = rng.normal(size=(count, 4))
    u = rng.normal(size=(count, 3))
    low, high = {"concentric": (0.0, 0.0), "deep": (0.0, 0.03), "far apart": (0.2, 20.0)}.get(kind, (0.03, 0.08))
    place = u * (rng.uniform(low, high, count) / np.linalg.norm(u, axis=1))[:, None]
    speed = {"fast": 100.0, "at rest": 0.0}.get(kind, 1.0)
    twist = speed * rng.normal(size=(count, 6)) * np.repeat([0.3, 1.0], 3)
    return np.hstack([quat / np.linalg.norm(quat, axis=1)[:, None], place, twist])


def check(count: int, seed: int) -> list[Outcome]:
    """The six kinds, about ``count`` states in all."""

    def wrench(x: jax.Array, step: jax.Array) -> jax.Array:
        R = quaternion_matrix(turned(x[:4], step[:3]))
        return dense_pair(*BALL, *BOX, R, x[4:7] + step[3:6], x[7:] + step[6:], LAW, smooth_dissipation).wrench

    def one(x: jax.Array, u: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        along = lambda t: wrench(x, t * u)  # noqa: E731
        slope = lambda t: jax.jvp(along, (t,), (1.0,))[1]  # noqa: E731
        f, f1 = jax.jvp(along, (0.0,), (1.0,))
        f2 = jax.jvp(slope, (0.0,), (1.0,))[1]
        t = H * jnp.array([2.0, 1.0, -1.0, -2.0])
        weights = jnp.array([-1.0, 8.0, -8.0, 1.0]) / (12.0 * H)
        d1, d2 = weights @ jax.vmap(along)(t), weights @ jax.vmap(slope)(t)
        largest = jnp.maximum(jnp.max(jnp.abs(jnp.stack([f, f1, f2]))), 1e-200)
        jacobian = jax.jacfwd(lambda s: wrench(x, s))(jnp.zeros(12))
        finite = jnp.isfinite(f2).all() & jnp.isfinite(f).all() & jnp.isfinite(jacobian).all()
        return finite, jnp.max(jnp.abs(d1 - f1)) / largest, jnp.max(jnp.abs(d2 - f2)) / largest

    rng, result = np.random.default_rng(seed), []
    each = -(-count // len(KINDS))
    with jax.enable_x64(True):
        batch = jax.jit(lambda x, u: jax.lax.map(lambda args: one(*args), (x, u), batch_size=20))
        for kind in KINDS:
            parts = []
            for begin in range(0, each, BATCH):
                n = min(BATCH, each - begin)
                x = states(kind, BATCH, rng)  # one size, one compilation
                parts.append([np.asarray(y)[:n] for y in batch(x, SCALES * rng.normal(size=(BATCH, 12)))])
            finite, first, second = (np.concatenate(y) for y in zip(*parts, strict=True))
            result.append(Outcome(kind, each, int((~finite).sum()), first, second))
    return result
