"""The cost of a plan, by one function for the MPC and for IPOPT."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dexstack.config import numbers
from dexstack.contact.contact import Contacts
from dexstack.control.base import Cost, PlannedState
from dexstack.control.models.base import StepModel
from dexstack.control.planners.gauss_newton import MpcParams
from dexstack.control.problem import OBJECT_DOF, ModelParams, force, integrate_quaternion, step_problem
from dexstack.model.mount import DOWN
from dexstack.model.robot import Robot
from dexstack.process.compilation import jit


@dataclass(frozen=True)
class Planning:
    """One planning problem of the closed loop."""

    pose_WO: np.ndarray
    """(7,)"""
    q: np.ndarray
    """(N,)"""
    contacts: Contacts
    goal_WO: np.ndarray
    """(7,)"""


class PlanCost:
    """Σ_t ‖stage‖² + ‖terminal‖² + ω_u Σ_t ‖u_t‖² of plans (T, N) for one problem, with the residuals
    of the task.

    Plans are rolled out under one time-stepping model with the contact rows of the present state and
    distances that follow the plan. Targets and predictions stop at the joint limits, as in the MPC.
    """

    def __init__(
        self, robot: Robot, cost: Cost, weights: Any, params: MpcParams, model: StepModel, theta: ModelParams
    ) -> None:
        self._tree, self._cost, self._params = robot.kinematics(), cost, params
        self._weights = SimpleNamespace(**numbers(weights))
        self._model, self._theta = model, theta
        margin = params.limit_margin
        self._limits = robot.lower + margin, robot.upper - margin
        self._many = jit(jax.vmap(self._one, in_axes=(0, None, None, None, None)))

    def __call__(self, problem: Planning, plans: np.ndarray) -> np.ndarray:
        """Return the costs (K,) of plans (K, T, N)."""
        with jax.enable_x64(True):
            pose = np.asarray(problem.pose_WO, float)
            pose = np.concatenate([pose[:3], pose[3:] / np.linalg.norm(pose[3:])])
            wide = jax.tree.map(
                lambda a: np.asarray(a, float) if np.asarray(a).dtype.kind == "f" else np.asarray(a),
                problem.contacts,
            )
            plans = np.asarray(plans, float)
            return np.asarray(
                self._many(
                    plans, pose, np.asarray(problem.q, float), wide, np.asarray(problem.goal_WO, float)
                )
            )

    def _one(self, plan: Array, pose_WO: Array, q: Array, contacts: Contacts, goal_WO: Array) -> Array:
        poses = self._tree.poses(q)
        p_WTip = self._tree.fingertips(poses)
        J_tip = self._tree.point_jacobian(poses, p_WTip, jnp.asarray(self._tree.tip_body))
        problem = step_problem(self._tree, poses, pose_WO, contacts, self._theta, self._params.step)
        context = self._model.prepare(problem, self._theta)
        lower, upper = (jnp.asarray(limit, q.dtype) for limit in self._limits)

        def residuals(of: Any, d: Array, quat: Array) -> Array:
            state = PlannedState(
                pose_WO[:3] + d[:3], quat, q + d[OBJECT_DOF:], p_WTip + J_tip @ d[OBJECT_DOF:]
            )
            return jnp.sum(of(state, goal_WO, self._weights) ** 2)

        def advance(carry: tuple[Array, ...], u: Array) -> tuple[tuple[Array, ...], Array]:
            d, quat, dual = carry
            now = q + d[OBJECT_DOF:]
            pull = jnp.clip(u, lower - now, upper - now)
            dq, dual = self._model.step(
                context, force(self._theta, pull, DOWN), problem.phi + problem.Jn @ d, dual
            )
            joints = jnp.clip(now + dq[OBJECT_DOF:], jnp.minimum(lower, now), jnp.maximum(upper, now))
            d = jnp.concatenate([d[:OBJECT_DOF] + dq[:OBJECT_DOF], joints - q]).astype(d.dtype)
            quat = integrate_quaternion(quat, dq[3:OBJECT_DOF]).astype(quat.dtype)
            return (d, quat, dual), residuals(self._cost.stage, d, quat)

        still = jnp.zeros(OBJECT_DOF + q.size, q.dtype)
        first = (still, pose_WO[3:], self._model.initial_dual(problem))
        (d, quat, _), stages = jax.lax.scan(advance, first, plan)
        return (
            jnp.sum(stages)
            + residuals(self._cost.terminal, d, quat)
            + self._params.effort_weight * jnp.sum(plan**2)
        )
