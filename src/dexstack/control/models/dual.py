"""Accelerated dual: k steps of projected gradient on the dual of the step problem.

With λ ≥ 0 the forces of the rows (unit-free after scaling each row by its compliance) the
regularised dual of [5] is

    min_λ ½ λᵀ (J Q⁻¹ Jᵀ + ρ D) λ + λᵀ (J Q⁻¹ b + φ),      D = diag(J Q⁻¹ Jᵀ),      dq = Q⁻¹ (b + Jᵀ
    λ)

ρ makes every row slightly compliant, so that the solution is unique and its active set has an
invertible Jacobian: with W the rows in contact, H = Q + Jᵀ W (ρD)⁻¹ J and ∂dq/∂b = H⁻¹, ∂dq/∂φ =
−H⁻¹ Jᵀ W (ρD)⁻¹.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from dexstack.control.models.base import Sensitivity, StepModel
from dexstack.control.problem import FRICTION_DIRECTIONS, ModelParams, StepProblem


class _Context(NamedTuple):
    problem: StepProblem
    rows: Float[Array, "M V"]
    """J scaled so that J Q⁻¹ Jᵀ has a unit diagonal."""
    scale: Float[Array, " M"]
    hessian: Float[Array, "M M"]
    step_size: Float[Array, ""]


class DualModel(StepModel):
    """Accelerated projected gradient on the dual, a fixed number of steps, warm-started."""

    def __init__(self, steps: int = 10, compliance: float = 0.01) -> None:
        """``steps`` ≥ 1 gradient steps; ``compliance`` is ρ, relative to each row's own
        compliance."""
        self.steps = steps
        self.compliance = compliance
        t = [1.0]
        for _ in range(steps):
            t.append((1 + np.sqrt(1 + 4 * t[-1] ** 2)) / 2)
        self._momentum = [float((t[k] - 1) / t[k + 1]) for k in range(steps)]  # Nesterov's sequence

    def prepare(self, problem: StepProblem, theta: ModelParams) -> _Context:
        diagonal = jnp.sum(problem.J**2 / problem.Q[None], axis=1)
        scale = jnp.where(diagonal > 1e-12, jax.lax.rsqrt(jnp.maximum(diagonal, 1e-12)), 0.0)
        rows = problem.J * scale[:, None]
        gram = (rows / problem.Q[None]) @ rows.T
        hessian = gram + self.compliance * jnp.eye(gram.shape[0], dtype=gram.dtype)
        v = jnp.sum(
            hessian, axis=1
        )  # power iteration for the largest eigenvalue; the margin covers its shortfall
        for _ in range(20):
            v = hessian @ (v * jax.lax.rsqrt(jnp.maximum(jnp.sum(v * v), 1e-12)))
        largest = jnp.sqrt(jnp.maximum(jnp.sum(v * v), 1e-12))
        return _Context(problem, rows, scale, hessian, 1.0 / (1.1 * largest + 1e-6))

    def initial_dual(self, problem: StepProblem) -> Array:
        return jnp.zeros(problem.J.shape[0], problem.J.dtype)

    def _linear(self, c: _Context, b: Array, phi: Array) -> Array:
        return c.rows @ (b / c.problem.Q) + c.scale * jnp.repeat(phi, FRICTION_DIRECTIONS)

    def step(self, context: _Context, b: Array, phi: Array, dual: Array) -> tuple[Array, Array]:
        c = context
        linear = c.step_size * self._linear(c, b, phi)
        contract = jnp.eye(dual.shape[0], dtype=dual.dtype) - c.step_size * c.hessian
        lam = y = dual
        for beta in self._momentum:
            new = jnp.maximum(contract @ y - linear, 0.0)
            y = new + beta * (new - lam)
            lam = new
        lam = jnp.where(c.scale > 0, lam, 0.0)
        return (b + lam @ c.rows) / c.problem.Q, lam

    def sensitivity(self, context: _Context, b: Array, phi: Array, dual: Array) -> Sensitivity:
        c = context
        touching = jnp.where(dual > 0, 1.0 / self.compliance, 0.0)
        weighted = c.rows * touching[:, None]
        H = jnp.diag(c.problem.Q) + c.rows.T @ weighted
        # Scaling to a unit diagonal keeps the float32 factorisation accurate across metres and
        # radians.
        d = jax.lax.rsqrt(jnp.diagonal(H))
        factor = jnp.linalg.cholesky(H * d[:, None] * d[None, :])
        inverse_factor = (
            jax.scipy.linalg.solve_triangular(factor, jnp.eye(H.shape[0], dtype=H.dtype), lower=True)
            * d[None, :]
        )
        inverse = inverse_factor.T @ inverse_factor
        by_row = -inverse @ (weighted * c.scale[:, None]).T
        return Sensitivity(force=inverse, phi=by_row.reshape(H.shape[0], -1, FRICTION_DIRECTIONS).sum(axis=2))

    def solved(self, context: _Context, b: Array, phi: Array, dual: Array) -> Array:
        """On the rows in contact the optimality conditions are linear: H dq = b − Jᵀ W (ρD)⁻¹ φ."""
        c = context
        touching = jnp.where(dual > 0, 1.0 / self.compliance, 0.0)
        weighted = c.rows * touching[:, None]
        H = jnp.diag(c.problem.Q) + c.rows.T @ weighted
        right = b - (c.scale * jnp.repeat(phi, FRICTION_DIRECTIONS)) @ weighted
        d = jax.lax.rsqrt(jnp.diagonal(H))
        exact = d * jnp.linalg.solve(H * d[:, None] * d[None, :], d * right)
        value = (b + dual @ c.rows) / c.problem.Q
        return jax.lax.stop_gradient(value - exact) + exact  # the value is the model's own, converged or not
