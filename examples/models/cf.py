"""Complementarity-free contact model: `--set model=examples/models/cf.py`.

One explicit update of the dual, as in the later paper of ContactSDF's group:

    λ_ij = K_ij softplus_ε( −(J_ij Q⁻¹ b + φ_i) ),   dq = Q⁻¹ (b + Jᵀ λ),   K_ij = γ / (J Q⁻¹ Jᵀ)_ij,ij

with softplus_ε(x) = ε log(1 + exp(x/ε)). Every row responds alone to the violation by the *free*
motion: exact for one active row at γ = 1, too strong where rows share a load. γ = 1/n_d = 1/4 is
exact for a frictionless contact, whose n_d rows coincide.
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


@dataclass(frozen=True)
class Params:
    """Parameters of the model."""

    cf_gain: float = param(
        0.25, "γ, gain of a contact row relative to the row's own stiffness [-]", 0.01, 1.0
    )
    cf_smoothing: float = param(0.0005, "ε, distance over which a row's force sets in [m]", 1e-7, 0.1)


class _Context(NamedTuple):
    problem: StepProblem
    gain: Float[Array, " M"]
    """K [N/m]; zero for an inactive row."""


class ComplementarityFreeModel(StepModel):
    """One explicit dual update, without iteration or warm start."""

    Params = Params

    def __init__(self, params: Params, chains: tuple[int, ...]) -> None:
        self.gain, self.smoothing = params.cf_gain, params.cf_smoothing

    def prepare(self, problem: StepProblem, theta: ModelParams) -> _Context:
        compliance = jnp.sum(problem.J**2 / problem.Q[None], axis=1)
        return _Context(
            problem, jnp.where(compliance > 1e-12, self.gain / jnp.maximum(compliance, 1e-12), 0.0)
        )

    def initial_dual(self, problem: StepProblem) -> Array:
        return jnp.zeros(0, problem.J.dtype)

    def _violation(self, c: _Context, b: Array, phi: Array) -> Array:
        return -(c.problem.J @ (b / c.problem.Q) + jnp.repeat(phi, FRICTION_DIRECTIONS)) / self.smoothing

    def step(self, context: _Context, b: Array, phi: Array, dual: Array) -> tuple[Array, Array]:
        force = context.gain * self.smoothing * jax.nn.softplus(self._violation(context, b, phi))
        return (b + force @ context.problem.J) / context.problem.Q, dual

    def sensitivity(self, context: _Context, b: Array, phi: Array, dual: Array) -> Sensitivity:
        Q, J = context.problem.Q, context.problem.J
        slope = context.gain * jax.nn.sigmoid(self._violation(context, b, phi))
        by_row = -(J * slope[:, None]).T / Q[:, None]
        by_phi = by_row.reshape(Q.size, -1, FRICTION_DIRECTIONS).sum(axis=2)
        return Sensitivity(force=jnp.diag(1 / Q) + by_row @ J / Q[None], phi=by_phi)


MODEL = ComplementarityFreeModel
