"""What a plan leads to: rollouts of a time-stepping model from one state and its contact set, and their derivatives."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from dexstack.contact.contact import Contacts
from dexstack.contact.pairs import PairContacts
from dexstack.control.contact_rule import Ahead, ContactRule, Rows
from dexstack.control.models.base import StepModel
from dexstack.control.parts import Substep
from dexstack.control.problem import OBJECT_DOF, ModelParams, StepProblem, force, integrate_quaternion
from dexstack.model.kinematics import BodyPoses, Kinematics


class Present(NamedTuple):
    """The state that is planned from."""

    pose_WO: Float[Array, "7"]
    """Of the object; the quaternion has length one."""
    q: Float[Array, " N"]
    qd: Float[Array, " N"]
    """Unused by a step without velocities."""
    contacts: Contacts
    fingers: PairContacts
    """Contacts between fingers, in no slots for a step without them."""


class Trajectory(NamedTuple):
    """K = T n substeps of T steps."""

    displacement: Float[Array, "K+1 V"]
    """Since the present."""
    quat: Float[Array, "K+1 4"]
    free: Float[Array, "K N"]
    """1 where the commanded displacement acts, 0 where a joint limit replaced it."""
    held: Float[Array, "K N"]
    """1 where the predicted joint is inside its limits, 0 where it was stopped there."""
    force: Float[Array, "K V"]
    dual: Float[Array, "K D"]


class Horizon:
    """T steps, of as many substeps as the model has, from one state; made and used where JAX traces.

    Joint limits are imposed on the target and on the prediction of every step.
    """

    def __init__(
        self,
        tree: Kinematics,
        model: StepModel,
        rule: ContactRule,
        substep: Substep,
        steps: int,
        present: Present,
        theta: ModelParams,
        limits: tuple[Float[Array, " N"], Float[Array, " N"]],
        poses: BodyPoses | None = None,
    ) -> None:
        """
        Args:
            steps: T.
            theta: of a whole step.
            limits: lower and upper joint limits.
            poses: of the robot at present, if they are known.
        """
        self._tree, self._model, self._rule, self._substep = tree, model, rule, substep
        self._present, self._theta, self._limits, self._steps = present, substep.theta(theta), limits, steps
        self._index = jnp.arange(steps * substep.count)
        self._problem, self._context = self._build(present.pose_WO, present.q, present.contacts, poses)

    def initial_dual(self) -> Float[Array, "K D"]:
        """What :meth:`rollout` starts from when no trajectory is known."""
        dual = self._model.initial_dual(self._problem)
        return jnp.broadcast_to(dual, (self._index.size, *dual.shape))

    def ends(self, trajectory: Trajectory) -> tuple[Float[Array, "ends V"], Float[Array, "ends 4"]]:
        """Displacements and the object's quaternions at present and at the end of every step."""
        n = self._substep.count
        return trajectory.displacement[::n], trajectory.quat[::n]

    def rollout(self, U: Float[Array, "T N"], dual: Float[Array, "K D"]) -> Trajectory:
        """Where the commanded displacements lead, each step's solve started from ``dual``."""
        n, (pose_WO, q, qd, _, _), (lower, upper) = self._substep.count, self._present, self._limits
        inertia = self._inertia(q)

        def advance(carry: tuple[Array, ...], inputs: tuple[Array, ...]) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
            displacement, quat, target, free, last = carry
            k, u, dual = inputs
            now = q + displacement[OBJECT_DOF:]
            pull = jnp.clip(u, lower - now, upper - now)
            acts = pull == u
            if n > 1:  # in the other substeps of a step the target stays where it is
                begins = k % n == 0
                acts = jnp.where(begins, acts, free)
                pull = jnp.where(begins, pull, target - displacement[OBJECT_DOF:])
            b = force(self._theta, pull)
            if inertia is not None:
                b = b.at[OBJECT_DOF:].add(inertia * last)
            context, phi, _ = self._rows(k, displacement, quat)
            dq, dual = self._model.step(context, b, phi, dual)
            joints = now + dq[OBJECT_DOF:]
            stopped = jnp.clip(joints, jnp.minimum(lower, now), jnp.maximum(upper, now))
            target = displacement[OBJECT_DOF:] + pull
            displacement = jnp.concatenate([displacement[:OBJECT_DOF] + dq[:OBJECT_DOF], stopped - q])
            quat = integrate_quaternion(quat, dq[3:OBJECT_DOF])
            return (displacement, quat, target, acts, stopped - now), (displacement, quat, acts, stopped == joints, b, dual)

        still = jnp.zeros(OBJECT_DOF + q.size, q.dtype)
        start = (still, pose_WO[3:], jnp.zeros_like(q), jnp.ones(q.size, bool), self._substep.length * qd)
        _, (displacement, quat, free, held, b, dual) = jax.lax.scan(advance, start, (self._index, jnp.repeat(U, n, axis=0), dual))
        prepend = lambda first, rest: jnp.concatenate([first[None], rest])  # noqa: E731
        return Trajectory(prepend(start[0], displacement), prepend(start[1], quat), free.astype(q.dtype), held.astype(q.dtype), b, dual)

    def linearise(self, trajectory: Trajectory) -> Float[Array, "T V TN"]:
        """∂(displacement)/∂U at the end of every step."""

        def slopes(k: Array, displacement: Array, quat: Array, force: Array, dual: Array) -> Array:
            """∂dq/∂(force on the joints) and, through the distances, ∂dq/∂(displacement so far), side by side."""
            context, phi, slope = self._rows(k, displacement, quat)
            sensitivity = self._model.sensitivity(context, force, phi, dual)
            return jnp.concatenate([sensitivity.force[:, OBJECT_DOF:], sensitivity.phi @ slope], axis=1)

        by_both = jax.vmap(slopes)(self._index, trajectory.displacement[:-1], trajectory.quat[:-1], trajectory.force, trajectory.dual)
        n, N, inertia = self._substep.count, self._present.q.size, self._inertia(self._present.q)
        S, sums = jnp.zeros((OBJECT_DOF + N, self._steps * N), by_both.dtype), []
        before = target = S[OBJECT_DOF:]
        for k in range(self._index.size):
            joints = S[OBJECT_DOF:]
            if k % n == 0:  # a command that a joint limit replaced leaves the target there
                own = slice(k // n * N, (k // n + 1) * N)
                target = joints.at[:, own].add(jnp.eye(N, dtype=S.dtype)) * trajectory.free[k][:, None]
            on_joints = self._theta.stiffness[:, None] * (target - joints)
            if inertia is not None:
                on_joints = on_joints + inertia[:, None] * (joints - before)
            before = joints
            S = S + (by_both[k] @ jnp.concatenate([on_joints, S]) if k else by_both[k, :, :N] @ on_joints)
            S = S.at[OBJECT_DOF:].multiply(trajectory.held[k][:, None])
            if k % n == n - 1:
                sums.append(S)
        return jnp.stack(sums)

    def _inertia(self, like: Array) -> Array | None:
        return None if self._substep.inertia is None else jnp.asarray(self._substep.inertia, like.dtype)

    def _build(self, pose_WO: Array, q: Array, contacts: Contacts, poses: BodyPoses | None = None) -> tuple[StepProblem, Any]:
        """The step problem and the model's context at a predicted state with its contacts with the object."""
        fingers = self._present.fingers
        problem = self._substep.problem(self._tree, poses or self._tree.poses(q), pose_WO, contacts, fingers, self._theta)
        if fingers.phi.size:  # their distances are those of the present
            moved = problem.Jn[contacts.phi.size :, OBJECT_DOF:] @ (q - self._present.q)
            problem = problem._replace(phi=problem.phi.at[contacts.phi.size :].add(moved))
        return problem, self._model.prepare(problem, self._theta)

    def _rows(self, k: Array, displacement: Array, quat: Array) -> Rows:
        pose = jnp.concatenate([self._present.pose_WO[:3] + displacement[:3], quat])
        ahead = Ahead(k, displacement, pose, self._present.q + displacement[OBJECT_DOF:])
        return self._rule.rows(self._present.contacts, self._problem, self._context, ahead, self._build)
