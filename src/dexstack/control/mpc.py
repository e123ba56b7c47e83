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
from dexstack.contact.pairs import PairContacts
from dexstack.control.contact_rule import ContactRule, PropagatedContacts
from dexstack.control.horizon import Horizon, Present, Trajectory
from dexstack.control.models.base import StepModel
from dexstack.control.parts import PAPER, FingerContacts, StepParts, substep_of
from dexstack.control.problem import OBJECT_DOF, ModelParams, integrate_quaternion
from dexstack.process.compilation import KeptFunction

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
    """Solved, but to let go of the object instead of moving it; see :mod:`dexstack.control.supervisors.gait`."""


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


DAMPINGS = (1.0, 30.0, 300.0, 3000.0)
"""Levenberg dampings tried in parallel, as multiples of the parameter: near the box and at kinks a shorter Newton step is no substitute.
The largest make a step that is short and nearly downhill: without them a plan can be stuck where it is no minimum."""


class Mpc:
    """Finds u_0..u_{T−1} in a box that minimise a task's cost over a rollout predicted from the contact set of the current state.

    What becomes of that set along the rollout is its rule's. Joint limits are imposed on the target and on the prediction of every step.
    All arrays have fixed shapes: the solver is compiled once per instance.
    """

    def __init__(
        self,
        robot: Robot,
        model: StepModel,
        cost: Cost,
        params: MpcParams = MpcParams(),
        rule: ContactRule | None = None,
        parts: StepParts = PAPER,
    ) -> None:
        self.robot = robot
        self.params = params
        self._tree = robot.kinematics()
        self._model = model
        self._rule = rule or PropagatedContacts()
        self._cost = cost
        self._n = len(robot.joint_names)
        self._T = params.horizon
        self._substep = substep_of(robot, params.step, parts)
        self._fingers = FingerContacts(robot, parts)
        depends_on = robot, model, cost, self._rule, self._substep, self._fingers.capacity, params.horizon, params.iterations, DAMPINGS
        self._compiled = KeptFunction(self._packed_solve, *depends_on)
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
        qd: np.ndarray | None = None,
    ) -> MpcResult:
        """Plan from object pose (7,), joints (N,) and contact set towards goal pose (7,); see :class:`MpcResult`.

        Args:
            pull: draws the commands to a reference; without it they are drawn to zero with the weight of the parameters.
            qd: joint velocities (N,) [rad/s, m/s], for a step that has them; without, joints are at rest.
        """
        wall, cpu = time.perf_counter(), time.process_time()
        pull = pull or Pull(np.zeros(self._n), self.params.effort_weight)
        qd = np.zeros(self._n) if qd is None or self._substep.inertia is None else qd
        inputs = self._pack(pose_WO, q, qd, contacts, goal_WO, pull)
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

    def _pack(
        self, pose_WO: np.ndarray, q: np.ndarray, qd: np.ndarray, contacts: Contacts, goal_WO: np.ndarray, pull: Pull
    ) -> np.ndarray | None:
        """One float32 vector of all inputs, because every separate array costs a dispatch; None if one is unusable."""
        parts = [pose_WO, q, qd, goal_WO, self._plan, pull.reference, [pull.weight], *contacts]
        try:
            parts = [np.asarray(part, np.float32) for part in parts]
        except (TypeError, ValueError):
            return None
        n, C = self._n, parts[9].size
        sizes = ((7,), (n,), (n,), (7,), (self._T, n), (n,), (1,), (C, 3), (C, 3), (C,), (C,), (C,))
        if any(part.shape != size for part, size in zip(parts, sizes, strict=True)) or not np.all(np.isfinite(parts[1])):
            return None
        packed = np.concatenate([np.ravel(part).astype(np.float32, copy=False) for part in (*parts, *self._fingers.detect(parts[1]))])
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
        F = self._fingers.capacity
        C = (inputs.size - 15 - (T + 3) * n) // 9 - F
        sizes = [7, n, n, 7, T * n, n, 1, 3 * C, 3 * C, C, C, C, 3 * F, 3 * F, F, F]
        pose_WO, q, qd, goal_WO, plan, reference, weight, *found = jnp.split(inputs, np.cumsum(sizes))
        p_W, nhat_W, phi, link, active = found[:5]
        contacts = Contacts(p_W.reshape(C, 3), nhat_W.reshape(C, 3), phi, link.astype(jnp.int32), active > 0.5)
        p_W, nhat_W, phi, of, to = found[5:]
        fingers = PairContacts(p_W.reshape(F, 3), nhat_W.reshape(F, 3), phi, of.astype(jnp.int32), to.astype(jnp.int32))
        pull = Pull(reference, weight[0])
        out = self._solve(pose_WO, q, qd, contacts, fingers, goal_WO, plan.reshape(T, n), pull, *self._unravel(tunable))
        return jnp.concatenate([part.reshape(-1).astype(inputs.dtype) for part in out])

    def _solve(
        self,
        pose_WO: Array,
        q: Array,
        qd: Array,
        contacts: Contacts,
        fingers: PairContacts,
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
        present, limits = Present(pose_WO, q, qd, contacts, fingers), (tunable.lower, tunable.upper)
        horizon = Horizon(self._tree, self._model, self._rule, self._substep, self._T, present, theta, limits, poses)

        def state(displacement: Array, quat: Array) -> PlannedState:
            dq = displacement[OBJECT_DOF:]
            return PlannedState(pose_WO[:3] + displacement[:3], quat, q + dq, p_WTip + J_tip @ dq)

        def residuals(trajectory: Trajectory) -> tuple[Array, Array]:
            displacement, quat = horizon.ends(trajectory)
            stage = jax.vmap(lambda d, r: self._cost.stage(state(d, r), goal_WO, weights))
            return stage(displacement[1:], quat[1:]), self._cost.terminal(state(displacement[-1], quat[-1]), goal_WO, weights)

        def total(U: Array, trajectory: Trajectory) -> Array:
            stage, terminal = residuals(trajectory)
            return jnp.sum(stage**2) + jnp.sum(terminal**2) + pull.weight * jnp.sum((U - pull.reference) ** 2)

        def gauss_newton(U: Array, trajectory: Trajectory) -> Array:
            S = horizon.linearise(trajectory)
            ends = horizon.ends(trajectory)

            def local(residual: Any, displacement: Array, quat: Array) -> tuple[Array, Array]:
                def moved(delta: Array) -> Array:
                    return residual(state(displacement + delta, integrate_quaternion(quat, delta[3:OBJECT_DOF])), goal_WO, weights)

                zero = jnp.zeros_like(displacement)
                return moved(zero), jax.jacfwd(moved)(zero)

            r, Jr = jax.vmap(lambda d, r: local(self._cost.stage, d, r))(*(end[1:] for end in ends))
            r_T, Jr_T = local(self._cost.terminal, *(end[-1] for end in ends))
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

        def iterate(_: int, carry: tuple[Array, Trajectory, Array, Array]) -> tuple[Array, Trajectory, Array, Array]:
            U, trajectory, cost, _improved = carry
            candidates = jnp.clip(U + gauss_newton(U, trajectory), -tunable.u_max, tunable.u_max)
            rollouts = jax.vmap(horizon.rollout, in_axes=(0, None))(candidates, trajectory.dual)
            costs = jax.vmap(total)(candidates, rollouts)
            costs = jnp.where(jnp.isfinite(costs), costs, jnp.inf)
            best = jnp.argmin(costs)
            improved = costs[best] < cost
            chosen = jax.tree.map(lambda new, old: jnp.where(improved, new[best], old), (candidates, rollouts), (U, trajectory))
            return chosen[0], chosen[1], jnp.where(improved, costs[best], cost), improved

        U = jnp.clip(plan, -tunable.u_max, tunable.u_max)
        trajectory = horizon.rollout(U, horizon.initial_dual())
        first = (U, trajectory, total(U, trajectory), jnp.asarray(False))
        U, trajectory, cost, improved = jax.lax.fori_loop(0, self.params.iterations, iterate, first)
        q_des = jnp.clip(q + U[0], tunable.lower, tunable.upper)
        displacement, quat = horizon.ends(trajectory)
        prediction = jnp.concatenate([pose_WO[:3] + displacement[:, :3], quat, q + displacement[:, OBJECT_DOF:]], axis=1)
        return U, q_des, prediction, cost, improved
