"""D-SDF: the closed-form time step of contactsdf [15]–[20], a gradient step of a smooth distance in
force space.

Repeated k times it alternates between the faces and approaches a feasible point (40 steps suffice
for most grasps), but not the closest one, which would be the exact step.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from dexstack.control.models.base import Sensitivity, StepModel
from dexstack.control.params import PlannerParams
from dexstack.control.problem import FRICTION_DIRECTIONS, ModelParams, StepProblem


class _Context(NamedTuple):
    inv_sqrt_Q: Float[Array, " V"]
    normals: Float[Array, "M V"]
    """n_ij = −Q^-½ J_ijᵀ / ‖Q^-½ J_ijᵀ‖; zero rows stay zero."""
    inv_length: Float[Array, " M"]
    sigma: Float[Array, ""]


def dsdf(
    z: Float[Array, " V"], normals: Float[Array, "M V"], offsets: Float[Array, " M"], sigma: Array
) -> Float[Array, ""]:
    """D-SDF [19]: (1/σ) LSE(0, LSE_ij σ(n_ijᵀ z + b_ij)); 0 deep inside the feasible set."""
    return jax.nn.logsumexp(jnp.concatenate([jnp.zeros(1, z.dtype), sigma * (normals @ z + offsets)])) / sigma


class DsdfModel(StepModel):
    """z⁺ = z_q − D-SDF(z_q) ∇D-SDF(z_q) [20]: exact for one active face, an approximation for
    several at once."""

    def __init__(self, params: PlannerParams, chains: tuple[int, ...]) -> None:
        self.steps = 1

    def prepare(self, problem: StepProblem, theta: ModelParams) -> _Context:
        inv_sqrt_Q = jax.lax.rsqrt(problem.Q)
        rows = problem.J * inv_sqrt_Q[None]
        square = jnp.sum(rows**2, axis=1)  # a row may be zero, where the root has no derivative
        inv_length = jnp.where(square > 1e-12, jax.lax.rsqrt(jnp.maximum(square, 1e-12)), 0.0)
        return _Context(inv_sqrt_Q, -rows * inv_length[:, None], inv_length, theta.sigma)

    def initial_dual(self, problem: StepProblem) -> Array:
        return jnp.zeros(0, problem.J.dtype)

    def _step(self, c: _Context, b: Array, phi: Array) -> Array:
        z = c.inv_sqrt_Q * b
        # The row of an inactive contact has no normal: move its plane far away, or it would count
        # as touching.
        offsets = jnp.where(c.inv_length > 0, -jnp.repeat(phi, FRICTION_DIRECTIONS) * c.inv_length, -1e3)
        for _ in range(self.steps):
            value, gradient = jax.value_and_grad(dsdf)(z, c.normals, offsets, c.sigma)
            z = z - value * gradient
        return c.inv_sqrt_Q * z

    def step(self, context: _Context, b: Array, phi: Array, dual: Array) -> tuple[Array, Array]:
        return self._step(context, b, phi), dual

    def sensitivity(self, context: _Context, b: Array, phi: Array, dual: Array) -> Sensitivity:
        return Sensitivity(*jax.jacfwd(self._step, argnums=(1, 2))(context, b, phi))


class UnrolledDsdfModel(DsdfModel):
    """``dsdf_steps`` repetitions of the step."""

    def __init__(self, params: PlannerParams, chains: tuple[int, ...]) -> None:
        self.steps = params.dsdf_steps
