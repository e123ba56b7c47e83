"""Box-constrained single shooting on a contact set by a fixed number of projected Gauss–Newton
iterations; with the model ``dsdf`` and frozen contacts the paper's problem [22]."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dexstack.config import numbers
from dexstack.contact.contact import Contacts, empty_contacts
from dexstack.contact.detector import DetectorParams
from dexstack.control.base import (
    Cost,
    LocalPlanner,
    Observation,
    Plan,
    PlannedState,
    Problem,
    Pull,
    SolveStatus,
)
from dexstack.control.contact_rule import ContactRule, PropagatedContacts
from dexstack.control.horizon import Horizon, Present, Trajectory
from dexstack.control.models.base import StepModel
from dexstack.control.packing import Packing
from dexstack.control.params import MpcParams
from dexstack.control.problem import OBJECT_DOF, ModelParams, integrate_quaternion
from dexstack.process.compilation import KeptFunction, jit, run_concurrently


class _Inputs(NamedTuple):
    """Inputs that change with every plan."""

    pose_WO: Any
    q: Any
    goal_WO: Any
    plan: Any
    pull: Pull
    contacts: Contacts


class _Tunable(NamedTuple):
    """Numeric inputs of the compiled solver that seldom change."""

    theta: ModelParams
    gravity: Any
    weights: dict[str, Any]
    u_max: Any
    damping: Any
    lower: Any
    upper: Any


DAMPINGS = (1.0, 30.0, 300.0, 3000.0)
"""Levenberg dampings tried in parallel, as multiples of the parameter; near the box and at kinks a
shorter Newton step is no substitute. The largest give a short step along nearly the steepest descent,
without which a plan can get stuck where it is no minimum."""


class Mpc(LocalPlanner):
    """Gauss–Newton planner on a time-stepping model, with the contact set of the current state.

    The contact rule determines that set along the rollout. Joint limits are imposed on the target and
    on the prediction of every step. All arrays have fixed shapes: the solver is compiled once per
    instance and shared by its forks.
    """

    def __init__(
        self,
        problem: Problem,
        model: StepModel,
        *,
        params: MpcParams = MpcParams(),
        rule: ContactRule | None = None,
        capacity: int = DetectorParams.capacity,
    ) -> None:
        """
        Args:
            rule: contacts along the plan; None: propagated distances.
            capacity: number of slots of a contact set.
        """
        robot, _, cost, weights, theta = problem
        self.robot, self._cost, self._model = robot, cost, model
        self._tree, self._rule = robot.kinematics(), rule or PropagatedContacts()
        self._n, self._T = len(robot.joint_names), params.horizon
        self._shape = params.horizon, params.step, params.iterations
        n = np.zeros(self._n, np.float32)
        pose = np.zeros(7, np.float32)
        self._capacity = capacity
        self._inputs = Packing(
            _Inputs(pose, n, pose, np.zeros((self._T, self._n)), Pull(n, 0.0), empty_contacts(capacity))
        )
        self._params, self._theta, self._weights = params, theta, weights
        self._gravity = tuple(robot.gravity)
        self._tunables: Packing[_Tunable] = Packing(self._tunable())
        shapes = capacity, sorted(numbers(weights))
        depends_on = (
            robot,
            model,
            getattr(cost, "depends_on", cost),
            self._rule,
            self._shape,
            shapes,
            DAMPINGS,
        )
        self._compiled = KeptFunction(self._solve_packed, *depends_on)
        self._compiled_cost = KeptFunction(self._goal_cost, *depends_on)
        self._pack_tunable()
        self.reset()

    @property
    def theta(self) -> ModelParams:
        return self._theta

    @theta.setter
    def theta(self, theta: ModelParams) -> None:
        if theta is not self._theta:
            self._theta = theta
            self._pack_tunable()

    @property
    def gravity(self) -> tuple[float, ...]:
        return self._gravity

    @gravity.setter
    def gravity(self, gravity: tuple[float, ...]) -> None:
        if gravity != self._gravity:
            self._gravity = gravity
            self._pack_tunable()

    @property
    def weights(self) -> Any:
        return self._weights

    @weights.setter
    def weights(self, weights: Any) -> None:
        if weights is not self._weights:
            self._weights = weights
            self._pack_tunable()

    @property
    def params(self) -> MpcParams:
        """Horizon, step and iterations are compiled in and do not change."""
        return self._params

    @params.setter
    def params(self, params: MpcParams) -> None:
        if params is not self._params:
            self._params = params
            self._pack_tunable()

    def reset(self) -> None:
        """See :meth:`~dexstack.control.base.LocalPlanner.reset`."""
        self._plan = np.zeros((self._T, self._n), np.float32)
        self._q_des: np.ndarray | None = None

    def fork(self) -> Mpc:
        """See :meth:`~dexstack.control.base.LocalPlanner.fork`."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.reset()
        return other

    def warm_up(self) -> float:
        """Compile; return the seconds it took."""
        start = time.perf_counter()
        pose = np.array([0, 0, 0.1, 1, 0, 0, 0], np.float32)
        run_concurrently(
            lambda: self.fork().plan(
                Observation(0.0, pose, self.robot.home, empty_contacts(self._capacity)), pose
            ),
            lambda: self.goal_cost(pose, self.robot.home, pose),
        )
        return time.perf_counter() - start

    def plan(self, observation: Observation, goal_WO: np.ndarray, pull: Pull | None = None) -> Plan:
        """See :meth:`~dexstack.control.base.LocalPlanner.plan`."""
        wall, cpu = time.perf_counter(), time.process_time()
        inputs = self._pack(observation, goal_WO, self._plan, pull)
        status, cost = SolveStatus.BAD_INPUT, np.nan
        prediction = np.full((self._T + 1, 7 + self._n), np.nan)
        if inputs is not None:
            out = np.asarray(self._compiled(inputs, self._tunable_vector))
            status = SolveStatus.DIVERGED
            if np.all(np.isfinite(out)):
                plan, q_des, prediction, cost, improved = self._split(out)
                status = SolveStatus.OK if improved else SolveStatus.NO_DESCENT
                self._plan, self._q_des = plan, q_des
        held = self._q_des if self._q_des is not None else self.robot.home
        return Plan(
            status,
            np.array(held, float),
            self._plan,
            prediction,
            float(cost),
            time.process_time() - cpu,
            time.perf_counter() - wall,
        )

    def plan_batch(self, observations: Observation, goals_WO: np.ndarray) -> Plan:
        """Plan from B states at once, each from a cold start, without changing this planner.

        Args:
            observations: every array with a leading axis (B, …).
            goals_WO: (B, 7)

        Returns:
            One plan whose arrays have a leading axis (B, …); a state with unusable input has BAD_INPUT,
            NaN predictions and the robot's home as command.
        """
        wall, cpu = time.perf_counter(), time.process_time()
        B = len(goals_WO)
        rows = [
            self._pack(
                jax.tree.map(lambda a, k=k: np.asarray(a)[k], observations), goals_WO[k], self._cold, None
            )
            for k in range(B)
        ]
        usable = np.array([row is not None for row in rows])
        blank = next((row for row in rows if row is not None), None)
        plan, q_des = np.zeros((B, self._T, self._n)), np.tile(self.robot.home, (B, 1))
        prediction, cost = np.full((B, self._T + 1, 7 + self._n), np.nan), np.full(B, np.nan)
        status = np.where(usable, SolveStatus.DIVERGED, SolveStatus.BAD_INPUT)
        if blank is not None:
            out = np.asarray(
                self._compiled_batch(
                    np.stack([blank if row is None else row for row in rows]), self._tunable_vector
                )
            )
            for k in np.flatnonzero(usable & np.isfinite(out).all(axis=1)):
                plan[k], q_des[k], prediction[k], cost[k], improved = self._split(out[k])
                status[k] = SolveStatus.OK if improved else SolveStatus.NO_DESCENT
        return Plan(
            status, q_des, plan, prediction, cost, time.process_time() - cpu, time.perf_counter() - wall
        )

    def goal_cost(self, pose_WO: np.ndarray, q: np.ndarray, goal_WO: np.ndarray) -> float:
        """See :meth:`~dexstack.control.base.LocalPlanner.goal_cost`."""
        state = np.concatenate([pose_WO, q, goal_WO]).astype(np.float32)
        return float(self._compiled_cost(state, self._tunable_vector))

    @functools.cached_property
    def _compiled_batch(self) -> Callable[[np.ndarray, Array], Array]:
        return jit(jax.vmap(self._solve_packed, in_axes=(0, None)))

    @property
    def _cold(self) -> np.ndarray:
        return np.zeros((self._T, self._n), np.float32)

    def _pack(
        self, observation: Observation, goal_WO: np.ndarray, plan: np.ndarray, pull: Pull | None
    ) -> np.ndarray | None:
        """Return all inputs as one vector, or None if one is unusable."""
        _, pose_WO, q, contacts = observation
        pull = pull or Pull(np.zeros(self._n), self._params.effort_weight)
        packed = self._inputs.pack(_Inputs(pose_WO, q, goal_WO, plan, pull, contacts))
        if packed is None or not np.isfinite(packed).all() or np.dot(pose_WO[3:], pose_WO[3:]) <= 1e-6:
            return None
        return packed

    def _split(self, out: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, bool]:
        plan, q_des, predicted, (cost, improved) = np.split(
            out, np.cumsum([self._T * self._n, self._n, (self._T + 1) * (7 + self._n)])
        )
        return (
            plan.reshape(self._T, self._n),
            q_des,
            predicted.reshape(self._T + 1, -1),
            float(cost),
            bool(improved),
        )

    def _tunable(self) -> _Tunable:
        p = self._params
        lower, upper = self.robot.lower + p.limit_margin, self.robot.upper - p.limit_margin
        gravity = np.asarray(self._gravity, np.float32)
        return _Tunable(self._theta, gravity, numbers(self._weights), p.u_max, p.damping, lower, upper)

    def _pack_tunable(self) -> None:
        vector = self._tunables.pack(self._tunable())
        if vector is None:
            raise ValueError("θ or weights differ in structure from those at construction")
        self._tunable_vector = jax.device_put(vector)  # compiles nothing, unlike jnp.asarray

    # --- traced -----------------------------------------------------------------------------------

    def _goal_cost(self, state: Array, tunable: Array) -> Array:
        pose_WO, q, goal_WO = jnp.split(state, [7, 7 + self._n])
        numbers = self._tunables.unpack(tunable)
        planned = PlannedState(pose_WO[:3], pose_WO[3:], q, self._tree.fingertips(self._tree.poses(q)))
        return jnp.sum(self._cost.terminal(planned, goal_WO, SimpleNamespace(**numbers.weights)) ** 2)

    def _solve_packed(self, inputs: Array, tunable: Array) -> Array:
        out = self._solve(self._inputs.unpack(inputs), self._tunables.unpack(tunable))
        return jnp.concatenate([part.reshape(-1).astype(inputs.dtype) for part in out])

    def _solve(self, inputs: _Inputs, tunable: _Tunable) -> tuple[Array, ...]:
        pose_WO, q, goal_WO, plan, pull, contacts = inputs
        steps, h, iterations = self._shape
        pose_WO = jnp.concatenate(
            [pose_WO[:3], pose_WO[3:] * jax.lax.rsqrt(jnp.maximum(jnp.sum(pose_WO[3:] ** 2), 1e-12))]
        )
        poses = self._tree.poses(q)
        p_WTip = self._tree.fingertips(poses)
        J_tip = self._tree.point_jacobian(poses, p_WTip, jnp.asarray(self._tree.tip_body))
        present, limits = Present(pose_WO, q, contacts), (tunable.lower, tunable.upper)
        models, physics = (self._tree, self._model, self._rule), (tunable.theta, tunable.gravity)
        horizon = Horizon(*models, present, *physics, limits, step=h, steps=steps, poses=poses)

        def state(displacement: Array, quat: Array) -> PlannedState:
            dq = displacement[OBJECT_DOF:]
            return PlannedState(pose_WO[:3] + displacement[:3], quat, q + dq, p_WTip + J_tip @ dq)

        objective = _Objective(self._cost, state, goal_WO, SimpleNamespace(**tunable.weights), pull)

        def iterate(
            _: Any, carry: tuple[Array, Trajectory, Array, Array]
        ) -> tuple[Array, Trajectory, Array, Array]:
            U, trajectory, cost, _improved = carry
            steps = objective.steps(U, trajectory, horizon.linearise(trajectory), tunable)
            candidates = jnp.clip(U[None] + steps, -tunable.u_max, tunable.u_max)
            rollouts = jax.vmap(horizon.rollout, in_axes=(0, None))(candidates, trajectory.dual)
            costs = jax.vmap(objective.total)(candidates, rollouts)
            costs = jnp.where(jnp.isfinite(costs), costs, jnp.inf)
            best = jnp.argmin(costs)
            improved = costs[best] < cost
            chosen = jax.tree.map(
                lambda new, old: jnp.where(improved, new[best], old), (candidates, rollouts), (U, trajectory)
            )
            return chosen[0], chosen[1], jnp.where(improved, costs[best], cost), improved

        U = jnp.clip(plan, -tunable.u_max, tunable.u_max)
        trajectory = horizon.rollout(U, horizon.initial_dual())
        first = (U, trajectory, objective.total(U, trajectory), jnp.asarray(False))
        U, trajectory, cost, improved = jax.lax.fori_loop(0, iterations, iterate, first)
        q_des = jnp.clip(q + U[0], tunable.lower, tunable.upper)
        displacement, quat = trajectory.displacement, trajectory.quat
        prediction = jnp.concatenate(
            [pose_WO[None, :3] + displacement[:, :3], quat, q[None] + displacement[:, OBJECT_DOF:]], axis=1
        )
        return U, q_des, prediction, cost, improved


class _Objective(NamedTuple):
    """The cost of a trajectory, and Gauss–Newton steps on it; traced."""

    cost: Cost
    state: Callable[[Array, Array], PlannedState]
    """(displacement (V,), quaternion (4,)) → predicted state."""
    goal_WO: Array
    weights: Any
    pull: Pull

    def total(self, U: Array, trajectory: Trajectory) -> Array:
        """Return the cost of commands U (T, N) and their trajectory."""
        displacement, quat = trajectory.displacement, trajectory.quat
        stage = jax.vmap(lambda d, r: self.cost.stage(self.state(d, r), self.goal_WO, self.weights))
        stages = stage(displacement[1:], quat[1:])
        terminal = self.cost.terminal(self.state(displacement[-1], quat[-1]), self.goal_WO, self.weights)
        effort = self.pull.weight * jnp.sum((U - self.pull.reference[None]) ** 2)
        return jnp.sum(stages**2) + jnp.sum(terminal**2) + effort

    def _linear(self, residual: Any, displacement: Array, quat: Array) -> tuple[Array, Array]:
        """Return a residual at a predicted state and its Jacobian with respect to the displacement."""

        def moved(delta: Array) -> Array:
            turned = integrate_quaternion(quat, delta[3:OBJECT_DOF])
            return residual(self.state(displacement + delta, turned), self.goal_WO, self.weights)

        zero = jnp.zeros_like(displacement)
        return moved(zero), jax.jacfwd(moved)(zero)

    def steps(self, U: Array, trajectory: Trajectory, S: Array, tunable: _Tunable) -> Array:
        """Return one projected Gauss–Newton step (T, N) for each of DAMPINGS.

        Args:
            S: ∂(displacement)/∂U at the end of every step.
        """
        ends, pull = (trajectory.displacement, trajectory.quat), self.pull
        r, Jr = jax.vmap(lambda d, r: self._linear(self.cost.stage, d, r))(*(end[1:] for end in ends))
        r_T, Jr_T = self._linear(self.cost.terminal, *(end[-1] for end in ends))
        A = jnp.concatenate([(Jr @ S).reshape(-1, S.shape[2]), Jr_T @ S[-1]])
        residual = jnp.concatenate([r.reshape(-1), r_T])
        u = U.reshape(-1)
        g = A.T @ residual + pull.weight * (U - pull.reference[None]).reshape(-1)
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
