"""Implicit compliant contact: Newton steps on the step problem with its constraints replaced by
smooth springs.

Each row J_ij of [5] becomes a spring of stiffness k whose force is a smooth ramp over a distance ε
of the row's gap s = J_ij dq + φ_i:

    min_dq ½ dqᵀ Q dq − bᵀ dq + Σ_ij k ε² Ψ(−s_ij/ε),     Ψ′(x) = softplus(x)

The minimum obeys Q dq = b + Jᵀ f with f = k ε softplus(−s/ε) ≥ 0: contact forces at the *end* of
the step, so stiff contacts stay stable. Smoothing gives a contact that is about to close a force
and a gradient, which a planner needs to find it. The problem is strongly convex and smooth:
derivatives follow from the Hessian, ∂dq/∂b = H⁻¹ and ∂dq/∂φ = −H⁻¹ Jᵀ k σ(−s/ε).

H = Q + Jᵀ diag(k σ) J couples fingers only through the object (a row touches one finger). It is
inverted by small blocks: each finger alone, then the Schur complement of the object.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from dexstack.control.models.base import Sensitivity, StepModel
from dexstack.control.params import PlannerParams
from dexstack.control.problem import FRICTION_DIRECTIONS, OBJECT_DOF, ModelParams, StepProblem


def _product(A: Array, B: Array) -> Array:
    """Product A B of small matrices as a fused multiply and sum, faster than a library call."""
    return jnp.sum(A[..., :, :, None] * B[..., None, :, :], axis=-2)


def small_inverse(A: Float[Array, "*B m m"]) -> Float[Array, "*B m m"]:
    """Invert small symmetric positive definite matrices by recursive Schur complements; closed form
    up to 3 × 3."""
    m = A.shape[-1]
    if m == 1:
        return 1.0 / A
    if m == 2:
        adjugate = jnp.stack([A[..., 1, 1], -A[..., 0, 1], -A[..., 1, 0], A[..., 0, 0]], axis=-1).reshape(
            A.shape
        )
        return adjugate / (A[..., 0, 0] * A[..., 1, 1] - A[..., 0, 1] * A[..., 1, 0])[..., None, None]
    if m == 3:
        a, b, c = A[..., 0, :], A[..., 1, :], A[..., 2, :]
        adjugate = jnp.stack([jnp.cross(b, c), jnp.cross(c, a), jnp.cross(a, b)], axis=-1)
        return adjugate / jnp.sum(a * adjugate[..., :, 0], axis=-1)[..., None, None]
    h = m // 2
    P, Q = small_inverse(A[..., :h, :h]), A[..., :h, h:]
    X = _product(P, Q)
    S = small_inverse(A[..., h:, h:] - _product(jnp.swapaxes(Q, -1, -2), X))
    Y = -_product(X, S)
    upper = jnp.concatenate([P - _product(Y, jnp.swapaxes(X, -1, -2)), Y], axis=-1)
    return jnp.concatenate([upper, jnp.concatenate([jnp.swapaxes(Y, -1, -2), S], axis=-1)], axis=-2)


class _Blocks(NamedTuple):
    """Inverse of H in arrow form: object 6×6 (Schur complement's inverse), fingers m×m, and X_f =
    H_of H_ff⁻¹."""

    schur: Float[Array, "6 6"]
    finger: Float[Array, "F m m"]
    X: Float[Array, "F 6 m"]


class _Context(NamedTuple):
    problem: StepProblem
    active: Float[Array, " M"]


class ImplicitModel(StepModel):
    """Newton's method on the smoothed step problem, a fixed number of steps from the last solution.

    One step suffices inside the MPC: every iteration starts from the last one, so that the steps
    converge together with the plan.
    """

    def __init__(self, params: PlannerParams, chains: tuple[int, ...]) -> None:
        """
        Args:
            params: number of Newton steps, row stiffness k [N/m] and smoothing ε [m].
            chains: joints of each chain, in joint order.
        """
        self.chains = chains
        self.steps = params.implicit_steps
        self.stiffness = params.implicit_stiffness
        self.smoothing = params.implicit_smoothing

    def prepare(self, problem: StepProblem, theta: ModelParams) -> _Context:
        return _Context(problem, (jnp.sum(problem.J**2, axis=1) > 1e-12).astype(problem.J.dtype))

    def initial_dual(self, problem: StepProblem) -> Array:
        return jnp.zeros(problem.J.shape[1], problem.J.dtype)

    def _contact(self, c: _Context, dq: Array, phi: Array) -> tuple[Array, Array]:
        """Row forces [N] and their stiffness [N/m]."""
        x = -(c.problem.J @ dq + jnp.repeat(phi, FRICTION_DIRECTIONS)) / self.smoothing
        # softplus and its slope from one exponential, safe for large |x|
        e = jnp.exp(-jnp.abs(x))
        force = self.stiffness * self.smoothing * (jnp.maximum(x, 0.0) + jnp.log1p(e))
        slope = self.stiffness * jnp.where(x >= 0, 1.0, e) / (1.0 + e)
        return c.active * force, c.active * slope

    def _blocks(self, c: _Context, slope: Array) -> _Blocks:
        J = c.problem.J
        H = jnp.diag(c.problem.Q) + J.T @ (slope[:, None] * J)
        o, longest, ends = OBJECT_DOF, max(self.chains), np.cumsum(self.chains)
        own = [H[o + e - n : o + e, o + e - n : o + e] for n, e in zip(self.chains, ends, strict=True)]
        H_ff = jnp.stack(
            [
                jax.scipy.linalg.block_diag(block, jnp.eye(longest - len(block), dtype=H.dtype))
                for block in own
            ]
        )
        H_of = self._by_chain(H[:o, o:])
        finger = small_inverse(H_ff)
        X = H_of @ finger
        return _Blocks(small_inverse(H[:o, :o] - jnp.einsum("fim,fjm->ij", X, H_of)), finger, X)

    def _by_chain(self, joints: Array) -> Array:
        """Split entries (..., N) of joints into (F, ..., m), one row per chain, padded with
        zeros."""
        rows = jnp.split(joints, np.cumsum(self.chains)[:-1].tolist(), axis=-1)
        longest = max(self.chains)
        return jnp.stack(
            [jnp.pad(row, [(0, 0)] * (row.ndim - 1) + [(0, longest - row.shape[-1])]) for row in rows]
        )

    def _apply(self, blocks: _Blocks, g: Array) -> Array:
        """Return H⁻¹ g."""
        g_o, g_f = g[:OBJECT_DOF], self._by_chain(g[OBJECT_DOF:])
        y_o = blocks.schur @ (g_o - jnp.einsum("fim,fm->i", blocks.X, g_f))
        y_f = jnp.einsum("fmn,fn->fm", blocks.finger, g_f) - jnp.einsum("fim,i->fm", blocks.X, y_o)
        return jnp.concatenate([y_o, *(row[:n] for row, n in zip(y_f, self.chains, strict=True))])

    def step(self, context: _Context, b: Array, phi: Array, dual: Array) -> tuple[Array, Array]:
        dq = dual
        for _ in range(self.steps):
            force, slope = self._contact(context, dq, phi)
            gradient = context.problem.Q * dq - b - force @ context.problem.J
            dq = dq - self._apply(self._blocks(context, slope), gradient)
        return dq, dq

    def sensitivity(self, context: _Context, b: Array, phi: Array, dual: Array) -> Sensitivity:
        _, slope = self._contact(context, dual, phi)
        blocks = self._blocks(context, slope)
        inverse = jax.vmap(lambda e: self._apply(blocks, e))(jnp.eye(b.shape[0], dtype=b.dtype))
        by_row = -inverse @ (slope[:, None] * context.problem.J).T
        return Sensitivity(force=inverse, phi=by_row.reshape(b.shape[0], -1, FRICTION_DIRECTIONS).sum(axis=2))
