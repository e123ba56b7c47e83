"""Exact model: `--set model=examples/models/qp.py`.

The step problem by a primal–dual interior-point method, the reference for the other models. With
z = Q^½ dq, z_q = Q^-½ b and unit rows n_i [15–17] the problem is a projection on half-spaces and its
central path

    z − z_q + Nᵀ λ = 0,     N z + β + s = 0,     s_i λ_i = μ,     s, λ > 0

is followed to a small μ by a fixed number of Newton steps. On the path the solution is smooth in force
and distances: with D = diag(λ/s), ∂z/∂z_q = (I + Nᵀ D N)⁻¹ and ∂z/∂β = −(I + Nᵀ D N)⁻¹ Nᵀ D.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from dexstack.config import param
from dexstack.control.models.base import Sensitivity, StepModel
from dexstack.control.problem import FRICTION_DIRECTIONS, ModelParams, StepProblem

CENTRING = 0.1
"""Target complementarity of a Newton step, as a share of the present one."""
TO_THE_BOUNDARY = 0.95
"""Largest share of the way to s = 0 or λ = 0 that a step takes."""


@dataclass(frozen=True)
class Params:
    """Parameters of the model."""

    qp_steps: int = param(16, "Newton steps", 1, 200)
    qp_barrier: float = param(1e-6, "μ, complementarity of a row at the end [J]", 1e-14, 1e-2)


class _Context(NamedTuple):
    inv_sqrt_Q: Float[Array, " V"]
    normals: Float[Array, "M V"]
    """n_i = −Q^-½ J_iᵀ / ‖Q^-½ J_iᵀ‖; zero rows stay zero."""
    inv_length: Float[Array, " M"]


class QpModel(StepModel):
    """A fixed number of Newton steps along the central path, always from a cold start, since a warm
    start does not help an interior-point method."""

    Params = Params

    def __init__(self, params: Params, chains: tuple[int, ...]) -> None:
        self.steps, self.barrier = params.qp_steps, params.qp_barrier

    def prepare(self, problem: StepProblem, theta: ModelParams) -> _Context:
        inv_sqrt_Q = jax.lax.rsqrt(problem.Q)
        rows = problem.J * inv_sqrt_Q[None]
        square = jnp.sum(rows**2, axis=1)
        inv_length = jnp.where(square > 1e-12, jax.lax.rsqrt(jnp.maximum(square, 1e-12)), 0.0)
        return _Context(inv_sqrt_Q, -rows * inv_length[:, None], inv_length)

    def initial_dual(self, problem: StepProblem) -> Array:
        return jnp.zeros(problem.J.shape[0], problem.J.dtype)

    def _offsets(self, c: _Context, phi: Array) -> Array:
        # the row of an inactive contact has no normal: its plane is never reached
        return jnp.where(c.inv_length > 0, -jnp.repeat(phi, FRICTION_DIRECTIONS) * c.inv_length, -1.0)

    def _factor(self, c: _Context, weight: Array) -> Array:
        # rows too heavy for the number format to resolve the identity would make the factorisation fail
        weight = jnp.minimum(weight, 0.1 / jnp.finfo(weight.dtype).eps)
        H = jnp.eye(c.normals.shape[1], dtype=weight.dtype) + (c.normals.T * weight[None]) @ c.normals
        return jnp.linalg.cholesky(H)

    def _follow(self, c: _Context, b: Array, phi: Array) -> tuple[Array, Array, Array]:
        """Return z, s and λ at the end of the path."""
        z_q, beta, N = c.inv_sqrt_Q * b, self._offsets(c, phi), c.normals
        size = jnp.maximum(
            jnp.max(jnp.where(c.inv_length > 0, N @ z_q + beta, 0.0)), 0.05
        )  # the deepest row's violation
        ones = jnp.ones_like(beta)

        def newton(carry: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], None]:
            z, s, lam = carry
            target = jnp.maximum(CENTRING * jnp.mean(s * lam), self.barrier)
            r_d = z - z_q + lam @ N
            r_p = N @ z + beta + s
            r_c = s * lam - target
            L = self._factor(c, lam / s)
            dz = jax.scipy.linalg.cho_solve((L, True), -r_d - ((lam * r_p - r_c) / s) @ N)
            ds = -r_p - N @ dz
            dlam = -(r_c + lam * ds) / s
            longest = lambda v, dv: jnp.min(jnp.where(dv < 0, -v / jnp.where(dv < 0, dv, -1.0), jnp.inf))  # noqa: E731
            primal = jnp.minimum(1.0, TO_THE_BOUNDARY * longest(s, ds))
            dual = jnp.minimum(1.0, TO_THE_BOUNDARY * longest(lam, dlam))
            alpha = jnp.minimum(primal, dual)
            return (z + alpha * dz, s + alpha * ds, lam + alpha * dlam), None

        start = (z_q, jnp.maximum(-(N @ z_q + beta), size * ones), size * ones)
        return jax.lax.scan(newton, start, None, length=self.steps)[0]

    def step(self, context: _Context, b: Array, phi: Array, dual: Array) -> tuple[Array, Array]:
        """Return the displacement and, as dual, λ/s of every row."""
        z, s, lam = self._follow(context, b, phi)
        return context.inv_sqrt_Q * z, lam / s

    def sensitivity(self, context: _Context, b: Array, phi: Array, dual: Array) -> Sensitivity:
        c = context
        L = self._factor(c, dual)
        inverse = jax.scipy.linalg.cho_solve((L, True), jnp.eye(b.shape[0], dtype=b.dtype))
        by_offset = -inverse @ (c.normals.T * dual[None])
        by_phi = (-by_offset * c.inv_length[None]).reshape(b.shape[0], -1, FRICTION_DIRECTIONS).sum(axis=2)
        return Sensitivity(
            force=c.inv_sqrt_Q[:, None] * inverse * c.inv_sqrt_Q[None], phi=c.inv_sqrt_Q[:, None] * by_phi
        )

    def solved(self, context: _Context, b: Array, phi: Array, dual: Array) -> Array:
        """Take one Newton step of z − z_q + Nᵀ(μ/s) = 0 from its solution, which is held fixed under
        differentiation."""
        c = context
        z, s, lam = jax.lax.stop_gradient(self._follow(c, b, phi))
        slack = -(c.normals @ z + self._offsets(c, phi))
        residual = z - c.inv_sqrt_Q * b + (lam - lam / s * (slack - jax.lax.stop_gradient(slack))) @ c.normals
        L = jax.lax.stop_gradient(self._factor(c, lam / s))
        moved = z - jax.scipy.linalg.cho_solve((L, True), residual)
        return c.inv_sqrt_Q * moved


MODEL = QpModel
