"""ContactSDF-MPC [22]: box-constrained single shooting on a contact set, by a fixed number of projected Gauss–Newton iterations."""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from dexstack.config import param
from dexstack.contact.contact import Contacts
from dexstack.control.contact_rule import Ahead, ContactRule, PropagatedContacts, Rows
from dexstack.control.models.base import StepModel
from dexstack.control.problem import OBJECT_DOF, ModelParams, StepProblem, force, integrate_quaternion, step_problem
from dexstack.model.kinematics import BodyPoses

if TYPE_CHECKING:
    from dexstack.model.robot import Robot


@dataclass(frozen=True)
class MpcParams:
    """Parameters of the MPC; the first block is compiled in, the second may change between solves."""

    horizon: int = param(4, "T, predicted steps", 1, 20)
    step: float = param(0.1, "h, length of a predicted step [s]", 0.005, 0.5)
    iterations: int = param(2, "Gauss–Newton iterations of one solve", 1, 50)

    u_max: float = param(0.15, "largest commanded joint displacement per step [rad, m for sliding joints]", 0.0, 1.0)
    effort_weight: float = param(0.1, "ω_u, weight of the commanded displacement [1/rad², 1/m²]", 0.0, 1e6)
    damping: float = param(0.02, "smallest Levenberg damping tried, relative to the Hessian's mean diagonal", 0.0, 10.0)
    limit_margin: float = param(0.02, "targets and predictions stay this far inside the joint limits [rad, m]", 0.0, 0.3)


class SolveStatus(enum.IntEnum):
    """How a solve ended; the controller never raises."""

    OK = 0
    NO_DESCENT = 1
    """The last iteration found no better point: converged, or stuck."""
    BAD_INPUT = 2
    """A non-finite or wrong-size input; the previous command is repeated."""
    DIVERGED = 3
    """The solver produced a non-finite number; the previous command is repeated."""
    RETREAT = 4
    """Solved, but to let go of the object instead of moving it; see :mod:`dexstack.control.stall`."""


class PlannedState(NamedTuple):
    """What a cost sees of a predicted state."""

    p_WO: Float[Array, "3"]
    quat_WO: Float[Array, "4"]
    q: Float[Array, " N"]
    p_WTip: Float[Array, "F 3"]
    """Fingertips, linear in the joint displacement from the current state."""


class Pull(NamedTuple):
    """Where the commanded displacements are drawn to: ω ‖u_t − reference‖² at every step, in place of ω_u ‖u_t‖²."""

    reference: np.ndarray
    """(N,) displacement per step."""
    weight: float
    """ω [1/rad², 1/m²]"""


class Cost(Protocol):
    """A task's cost as sums of squares: Σ_t ‖stage‖² + ‖terminal‖²; smooth in the state, ``weights`` a pytree of numbers."""

    def stage(self, state: PlannedState, goal_WO: Float[Array, "7"], weights: Any) -> Float[Array, " R"]: ...

    def terminal(self, state: PlannedState, goal_WO: Float[Array, "7"], weights: Any) -> Float[Array, " R"]: ...


@dataclass(frozen=True)
class MpcResult:
    """One solve."""

    status: SolveStatus
    q_des: np.ndarray
    """(N,) joint target for the coming step [rad, m]."""
    plan: np.ndarray
    """(T, N) commanded displacements [rad, m]."""
    prediction: np.ndarray
    """(T + 1, 7 + N) predicted object poses and joint positions, the first the measured ones."""
    cost: float
    cpu_s: float
    wall_s: float


class _Tunable(NamedTuple):
    u_max: Array
    damping: Array
    lower: Array
    upper: Array


class _Trajectory(NamedTuple):
    displacement: Float[Array, "T+1 V"]
    """Accumulated displacement from the current state."""
    quat: Float[Array, "T+1 4"]
    free: Array
    """(T, N) 1 where the commanded displacement acts, 0 where a joint limit replaced it."""
    held: Array
    """(T, N) 1 where the predicted joint is inside its limits, 0 where it was stopped there."""
    force: Float[Array, "T V"]
    dual: Float[Array, "T D"]


DAMPINGS = (1.0, 30.0, 300.0, 3000.0)
"""Levenberg dampings tried in parallel, as multiples of the parameter: near the box and at kinks a shorter Newton step is no substitute.
The largest make a step that is short and nearly downhill: without them a plan can be stuck where it is no minimum."""


class Mpc:
    """Finds u_0..u_{T−1} in a box that minimise a task's cost over a rollout predicted from the contact set of the current state.

    What becomes of that set along the rollout is its rule's. Joint limits are imposed on the target and on the prediction of every step.
    All arrays have fixed shapes: the solver is compiled once per instance.
    """

    def __init__(
        self, robot: Robot, model: StepModel, cost: Cost, params: MpcParams = MpcParams(), rule: ContactRule | None = None
    ) -> None:
        self.robot = robot
        self.params = params
        self._tree = robot.kinematics()
        self._model = model
        self._rule = rule or PropagatedContacts()
        self._cost = cost
        self._n = len(robot.joint_names)
        self._T = params.horizon
        self._compiled = jax.jit(self._packed_solve)
        self._tunable_key: tuple[Any, ...] | None = None
        self.reset()

    def reset(self) -> None:
        """Forget the warm start and the command held."""
        self._plan = np.zeros((self._T, self._n), np.float32)
        self._q_des: np.ndarray | None = None

    def warm_up(self, contacts: Contacts, theta: ModelParams, weights: Any) -> float:
        """Compile for these shapes; returns the seconds it took."""
        start = time.perf_counter()
        pose = np.array([0, 0, 0.1, 1, 0, 0, 0], np.float32)
        self.solve(pose, self.robot.home, contacts, pose, theta, weights)
        self.reset()
        return time.perf_counter() - start

    def solve(
        self,
        pose_WO: np.ndarray,
        q: np.ndarray,
        contacts: Contacts,
        goal_WO: np.ndarray,
        theta: ModelParams,
        weights: Any,
        pull: Pull | None = None,
    ) -> MpcResult:
        """Plan from object pose (7,), joints (N,) and contact set towards goal pose (7,); see :class:`MpcResult`.

        ``pull`` draws the commands to a reference; without it they are drawn to zero with the weight of the parameters.
        """
        wall, cpu = time.perf_counter(), time.process_time()
        inputs = self._pack(pose_WO, q, contacts, goal_WO, pull or Pull(np.zeros(self._n), self.params.effort_weight))
        status, cost = SolveStatus.BAD_INPUT, np.nan
        prediction = np.full((self._T + 1, 7 + self._n), np.nan)
        if inputs is not None:
            out = np.asarray(self._compiled(inputs, self._pack_tunable(theta, weights)))
            plan, q_des, predicted, (cost, improved) = np.split(out, np.cumsum([self._T * self._n, self._n, (self._T + 1) * (7 + self._n)]))
            status = SolveStatus.DIVERGED
            if np.all(np.isfinite(out)):
                status = SolveStatus.OK if improved else SolveStatus.NO_DESCENT
                self._plan, self._q_des = plan.reshape(self._T, self._n), q_des
                prediction = predicted.reshape(self._T + 1, -1)
        held = self._q_des if self._q_des is not None else self.robot.home
        return MpcResult(
            status, np.array(held, float), self._plan, prediction, float(cost), time.process_time() - cpu, time.perf_counter() - wall
        )

    def _pack(self, pose_WO: np.ndarray, q: np.ndarray, contacts: Contacts, goal_WO: np.ndarray, pull: Pull) -> np.ndarray | None:
        """One float32 vector of all inputs, because every separate array costs a dispatch; None if one is unusable."""
        parts = [pose_WO, q, goal_WO, self._plan, pull.reference, [pull.weight], *contacts]
        try:
            parts = [np.asarray(part, np.float32) for part in parts]
        except (TypeError, ValueError):
            return None
        C = parts[8].size
        sizes = ((7,), (self._n,), (7,), (self._T, self._n), (self._n,), (1,), (C, 3), (C, 3), (C,), (C,), (C,))
        if any(part.shape != size for part, size in zip(parts, sizes, strict=True)):
            return None
        packed = np.concatenate([part.ravel() for part in parts])
        return packed if np.all(np.isfinite(packed)) and np.dot(pose_WO[3:], pose_WO[3:]) > 1e-6 else None

    def _pack_tunable(self, theta: ModelParams, weights: Any) -> Array:
        """θ, weights and tunables as one device vector, made anew only when one of them is replaced."""
        key = (theta, weights, self.params)
        if self._tunable_key is None or any(a is not b for a, b in zip(key, self._tunable_key, strict=True)):
            p = self.params
            lower, upper = self.robot.lower + p.limit_margin, self.robot.upper - p.limit_margin
            tree = (theta, weights, _Tunable(p.u_max, p.damping, lower, upper))
            vector, self._unravel = jax.flatten_util.ravel_pytree(jax.tree.map(lambda a: np.asarray(a, np.float32), tree))
            self._tunable_key, self._tunable_vector = key, vector
        return self._tunable_vector

    # --- traced -------------------------------------------------------------------------------------------------------------------

    def _packed_solve(self, inputs: Array, tunable: Array) -> Array:
        T, n = self._T, self._n
        C = (inputs.size - 15 - (T + 2) * n) // 9
        sizes = [7, n, 7, T * n, n, 1, 3 * C, 3 * C, C, C]
        pose_WO, q, goal_WO, plan, reference, weight, p_W, nhat_W, phi, link, active = jnp.split(inputs, np.cumsum(sizes))
        contacts = Contacts(p_W.reshape(C, 3), nhat_W.reshape(C, 3), phi, link.astype(jnp.int32), active > 0.5)
        out = self._solve(pose_WO, q, contacts, goal_WO, plan.reshape(T, n), Pull(reference, weight[0]), *self._unravel(tunable))
        return jnp.concatenate([part.reshape(-1).astype(inputs.dtype) for part in out])

    def _solve(
        self,
        pose_WO: Array,
        q: Array,
        contacts: Contacts,
        goal_WO: Array,
        plan: Array,
        pull: Pull,
        theta: ModelParams,
        weights: Any,
        tunable: _Tunable,
    ) -> tuple[Array, ...]:
        pose_WO = jnp.concatenate([pose_WO[:3], pose_WO[3:] * jax.lax.rsqrt(jnp.maximum(jnp.sum(pose_WO[3:] ** 2), 1e-12))])
        poses = self._tree.poses(q)
        p_WTip = self._tree.fingertips(poses)
        J_tip = self._tree.point_jacobian(poses, p_WTip, jnp.asarray(self._tree.tip_body))

        def build(pose_WO: Array, q: Array, contacts: Contacts, poses: BodyPoses | None = None) -> tuple[StepProblem, Any]:
            problem = step_problem(self._tree, poses or self._tree.poses(q), pose_WO, contacts, theta, self.params.step)
            return problem, self._model.prepare(problem, theta)

        problem, context = build(pose_WO, q, contacts, poses)

        def rows(t: Array, displacement: Array, quat: Array) -> Rows:
            pose = jnp.concatenate([pose_WO[:3] + displacement[:3], quat])
            return self._rule.rows(contacts, problem, context, Ahead(t, displacement, pose, q + displacement[OBJECT_DOF:]), build)

        steps = jnp.arange(self._T)

        def state(displacement: Array, quat: Array) -> PlannedState:
            dq = displacement[OBJECT_DOF:]
            return PlannedState(pose_WO[:3] + displacement[:3], quat, q + dq, p_WTip + J_tip @ dq)

        def residuals(trajectory: _Trajectory) -> tuple[Array, Array]:
            stage = jax.vmap(lambda d, r: self._cost.stage(state(d, r), goal_WO, weights))
            last = state(trajectory.displacement[-1], trajectory.quat[-1])
            return stage(trajectory.displacement[1:], trajectory.quat[1:]), self._cost.terminal(last, goal_WO, weights)

        def total(U: Array, trajectory: _Trajectory) -> Array:
            stage, terminal = residuals(trajectory)
            return jnp.sum(stage**2) + jnp.sum(terminal**2) + pull.weight * jnp.sum((U - pull.reference) ** 2)

        def rollout(U: Array, dual: Array) -> _Trajectory:
            def advance(carry: tuple[Array, Array], inputs: tuple[Array, ...]) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
                displacement, quat = carry
                t, u, dual = inputs
                now = q + displacement[OBJECT_DOF:]
                allowed = jnp.clip(u, tunable.lower - now, tunable.upper - now)
                b = force(theta, allowed)
                context, phi, _ = rows(t, displacement, quat)
                dq, dual = self._model.step(context, b, phi, dual)
                joints = now + dq[OBJECT_DOF:]
                stopped = jnp.clip(joints, jnp.minimum(tunable.lower, now), jnp.maximum(tunable.upper, now))
                displacement = jnp.concatenate([displacement[:OBJECT_DOF] + dq[:OBJECT_DOF], stopped - q])
                quat = integrate_quaternion(quat, dq[3:OBJECT_DOF])
                return (displacement, quat), (displacement, quat, allowed == u, stopped == joints, b, dual)

            start = (jnp.zeros(OBJECT_DOF + self._n, q.dtype), pose_WO[3:])
            _, (displacement, quat, free, held, b, dual) = jax.lax.scan(advance, start, (steps, U, dual))
            prepend = lambda first, rest: jnp.concatenate([first[None], rest])  # noqa: E731
            return _Trajectory(
                prepend(start[0], displacement), prepend(start[1], quat), free.astype(q.dtype), held.astype(q.dtype), b, dual
            )

        def linearise(trajectory: _Trajectory) -> Array:
            """∂(displacement)/∂U, (T, V, T·N)."""

            def slopes(t: Array, displacement: Array, quat: Array, force: Array, dual: Array) -> tuple[Array, Array]:
                context, phi, slope = rows(t, displacement, quat)
                sensitivity = self._model.sensitivity(context, force, phi, dual)
                return sensitivity.force[:, OBJECT_DOF:] * theta.stiffness, sensitivity.phi @ slope

            # ∂dq/∂(own command) and ∂dq/∂(displacement so far); a command replaced by a joint limit follows the joint instead.
            by_command, by_state = jax.vmap(slopes)(
                steps, trajectory.displacement[:-1], trajectory.quat[:-1], trajectory.force, trajectory.dual
            )
            by_state = by_state.at[:, :, OBJECT_DOF:].add(-by_command * (1 - trajectory.free)[:, None, :])
            by_command = by_command * trajectory.free[:, None, :]
            V, sums, S = OBJECT_DOF + self._n, [], None
            for t in range(self._T):
                own = jnp.zeros((V, self._T, self._n), q.dtype).at[:, t].set(by_command[t]).reshape(V, -1)
                S = own if S is None else S + by_state[t] @ S + own
                S = S.at[OBJECT_DOF:].multiply(trajectory.held[t][:, None])
                sums.append(S)
            return jnp.stack(sums)

        def gauss_newton(U: Array, trajectory: _Trajectory) -> Array:
            S = linearise(trajectory)

            def local(residual: Any, displacement: Array, quat: Array) -> tuple[Array, Array]:
                def moved(delta: Array) -> Array:
                    return residual(state(displacement + delta, integrate_quaternion(quat, delta[3:OBJECT_DOF])), goal_WO, weights)

                zero = jnp.zeros_like(displacement)
                return moved(zero), jax.jacfwd(moved)(zero)

            r, Jr = jax.vmap(lambda d, r: local(self._cost.stage, d, r))(trajectory.displacement[1:], trajectory.quat[1:])
            r_T, Jr_T = local(self._cost.terminal, trajectory.displacement[-1], trajectory.quat[-1])
            A = jnp.concatenate([(Jr @ S).reshape(-1, S.shape[2]), Jr_T @ S[-1]])
            residual = jnp.concatenate([r.reshape(-1), r_T])
            u = U.reshape(-1)
            g = A.T @ residual + pull.weight * (U - pull.reference).reshape(-1)
            H = A.T @ A
            blocked = ((u <= -tunable.u_max) & (g > 0)) | ((u >= tunable.u_max) & (g < 0))
            inside = 1.0 - blocked.astype(u.dtype)
            H = H * inside[:, None] * inside[None, :]
            mean = jnp.mean(jnp.diagonal(H))

            def solve(damping: Array) -> Array:
                diagonal = (pull.weight + damping * mean + 1e-9) * inside + (1 - inside)
                factor = jax.scipy.linalg.cho_factor(H + jnp.diag(diagonal), lower=True)
                return jax.scipy.linalg.cho_solve(factor, -g * inside).reshape(U.shape)

            return jax.vmap(solve)(tunable.damping * jnp.asarray(DAMPINGS, u.dtype))

        def iterate(_: int, carry: tuple[Array, _Trajectory, Array, Array]) -> tuple[Array, _Trajectory, Array, Array]:
            U, trajectory, cost, _improved = carry
            candidates = jnp.clip(U + gauss_newton(U, trajectory), -tunable.u_max, tunable.u_max)
            rollouts = jax.vmap(rollout, in_axes=(0, None))(candidates, trajectory.dual)
            costs = jax.vmap(total)(candidates, rollouts)
            costs = jnp.where(jnp.isfinite(costs), costs, jnp.inf)
            best = jnp.argmin(costs)
            improved = costs[best] < cost
            chosen = jax.tree.map(lambda new, old: jnp.where(improved, new[best], old), (candidates, rollouts), (U, trajectory))
            return chosen[0], chosen[1], jnp.where(improved, costs[best], cost), improved

        U = jnp.clip(plan, -tunable.u_max, tunable.u_max)
        trajectory = rollout(U, jnp.broadcast_to(self._model.initial_dual(problem), (self._T, *self._model.initial_dual(problem).shape)))
        first = (U, trajectory, total(U, trajectory), jnp.asarray(False))
        U, trajectory, cost, improved = jax.lax.fori_loop(0, self.params.iterations, iterate, first)
        q_des = jnp.clip(q + U[0], tunable.lower, tunable.upper)
        joints = q + trajectory.displacement[:, OBJECT_DOF:]
        prediction = jnp.concatenate([pose_WO[:3] + trajectory.displacement[:, :3], trajectory.quat, joints], axis=1)
        return U, q_des, prediction, cost, improved
