"""Rollouts of a time-stepping model from one state and its contact set, and their derivatives."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from dexstack.contact.contact import Contacts
from dexstack.control.contact_rule import Ahead, ContactRule, Rows
from dexstack.control.models.base import StepModel
from dexstack.control.problem import (
    OBJECT_DOF,
    ModelParams,
    StepProblem,
    force,
    integrate_quaternion,
    step_problem,
)
from dexstack.model.kinematics import BodyPoses, Kinematics


class Present(NamedTuple):
    """State at the start of the horizon."""

    pose_WO: Float[Array, "7"]
    """Object pose with a unit quaternion."""
    q: Float[Array, " N"]
    contacts: Contacts


class Trajectory(NamedTuple):
    """Result of T steps."""

    displacement: Float[Array, "T+1 V"]
    """Relative to the present state."""
    quat: Float[Array, "T+1 4"]
    free: Float[Array, "T N"]
    """1 where the commanded displacement acts, 0 where a joint limit replaces it."""
    held: Float[Array, "T N"]
    """1 where the predicted joint is inside its limits, 0 where it is stopped there."""
    force: Float[Array, "T V"]
    dual: Float[Array, "T D"]


class Horizon:
    """T steps from one state, traced by JAX. Joint limits are imposed on the target and on the
    prediction of every step."""

    def __init__(
        self,
        tree: Kinematics,
        model: StepModel,
        rule: ContactRule,
        present: Present,
        theta: ModelParams,
        gravity: Any,
        limits: tuple[Float[Array, " N"], Float[Array, " N"]],
        *,
        step: float,
        steps: int,
        poses: BodyPoses | None = None,
    ) -> None:
        """
        Args:
            gravity: (3,) in the world [m/s²].
            limits: lower and upper joint limits.
            step: h, length of a step [s].
            steps: T.
            poses: present poses of the robot; None: to be computed.
        """
        self._tree, self._model, self._rule, self._step = tree, model, rule, step
        self._present, self._theta, self._limits, self._steps = present, theta, limits, steps
        self._gravity = gravity
        self._index = jnp.arange(steps)
        self._problem, self._context = self._build(present.pose_WO, present.q, present.contacts, poses)

    def initial_dual(self) -> Float[Array, "T D"]:
        """Return the duals of a first :meth:`rollout`."""
        dual = self._model.initial_dual(self._problem)
        return jnp.broadcast_to(dual, (self._steps, *dual.shape))

    def rollout(self, U: Float[Array, "T N"], dual: Float[Array, "T D"]) -> Trajectory:
        """Roll out commanded displacements, each step's solve warm-started by ``dual``."""
        (pose_WO, q, _), (lower, upper) = self._present, self._limits

        def advance(
            carry: tuple[Array, Array], inputs: tuple[Array, ...]
        ) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
            displacement, quat = carry
            k, u, dual = inputs
            now = q + displacement[OBJECT_DOF:]
            pull = jnp.clip(u, lower - now, upper - now)
            b = force(self._theta, pull, self._gravity)
            context, phi, _ = self._rows(k, displacement, quat)
            dq, dual = self._model.step(context, b, phi, dual)
            joints = now + dq[OBJECT_DOF:]
            stopped = jnp.clip(joints, jnp.minimum(lower, now), jnp.maximum(upper, now))
            displacement = jnp.concatenate([displacement[:OBJECT_DOF] + dq[:OBJECT_DOF], stopped - q])
            quat = integrate_quaternion(quat, dq[3:OBJECT_DOF])
            return (displacement, quat), (displacement, quat, pull == u, stopped == joints, b, dual)

        start = (jnp.zeros(OBJECT_DOF + q.size, q.dtype), pose_WO[3:])
        _, (displacement, quat, free, held, b, dual) = jax.lax.scan(advance, start, (self._index, U, dual))
        return Trajectory(
            jnp.concatenate([start[0][None], displacement]),
            jnp.concatenate([start[1][None], quat]),
            free.astype(q.dtype),
            held.astype(q.dtype),
            b,
            dual,
        )

    def linearise(self, trajectory: Trajectory) -> Float[Array, "T V TN"]:
        """Return ∂(displacement)/∂U at the end of every step."""

        def slopes(k: Array, displacement: Array, quat: Array, force: Array, dual: Array) -> Array:
            """Return ∂dq/∂(force on the joints) and, through the distances, ∂dq/∂(displacement so
            far), concatenated."""
            context, phi, slope = self._rows(k, displacement, quat)
            sensitivity = self._model.sensitivity(context, force, phi, dual)
            return jnp.concatenate([sensitivity.force[:, OBJECT_DOF:], sensitivity.phi @ slope], axis=1)

        by_both = jax.vmap(slopes)(
            self._index, trajectory.displacement[:-1], trajectory.quat[:-1], trajectory.force, trajectory.dual
        )
        N = self._present.q.size
        S, sums = jnp.zeros((OBJECT_DOF + N, self._steps * N), by_both.dtype), []
        for k in range(self._steps):
            joints, own = S[OBJECT_DOF:], slice(k * N, (k + 1) * N)
            # A command moves the target with the joints; where a limit replaces it, the target stays at
            # the limit.
            target = joints.at[:, own].add(jnp.eye(N, dtype=S.dtype)) * trajectory.free[k][:, None]
            on_joints = self._theta.stiffness[:, None] * (target - joints)
            S = S + (by_both[k] @ jnp.concatenate([on_joints, S]) if k else by_both[k, :, :N] @ on_joints)
            S = S.at[OBJECT_DOF:].multiply(trajectory.held[k][:, None])
            sums.append(S)
        return jnp.stack(sums)

    def _build(
        self, pose_WO: Array, q: Array, contacts: Contacts, poses: BodyPoses | None = None
    ) -> tuple[StepProblem, Any]:
        """Return the step problem and the model's context at a predicted state."""
        problem = step_problem(
            self._tree, poses or self._tree.poses(q), pose_WO, contacts, self._theta, self._step
        )
        return problem, self._model.prepare(problem, self._theta)

    def _rows(self, k: Array, displacement: Array, quat: Array) -> Rows:
        pose = jnp.concatenate([self._present.pose_WO[:3] + displacement[:3], quat])
        ahead = Ahead(k, displacement, pose, self._present.q + displacement[OBJECT_DOF:])
        return self._rule.rows(self._present.contacts, self._problem, self._context, ahead, self._build)
