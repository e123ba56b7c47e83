"""Predictive sampling: perturbed plans are rolled out in MuJoCo on threads, and the mean of the best is kept; the cross-entropy method.

It plans with the same cost, step, bounds and joint targets as the Gauss–Newton planner and knows as much of the world, but takes its
physics from MuJoCo: contact, masses and friction of the scene the controller believes in, a position servo per joint, and velocities
from the last two observations.
"""

from __future__ import annotations

import copy
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import mujoco
import mujoco.rollout
import numpy as np

from dexstack.config import numbers
from dexstack.contact.contact import empty_contacts
from dexstack.control.base import Observation, Plan, PlannedState, Problem, Pull, SolveStatus
from dexstack.control.params import MpcParams, SamplingParams
from dexstack.model.scene import OBJECT_BODY, JointLayout, robot_scene
from dexstack.process.compilation import jit

if TYPE_CHECKING:
    from dexstack.model.objects import ObjectModel


LONGEST_GAP = 0.2
"""Observations farther apart in time than this give no velocity [s]."""


class SamplingPlanner:
    """See the module's docstring; a :class:`~dexstack.control.base.LocalPlanner`."""

    def __init__(self, problem: Problem, mpc: MpcParams, params: SamplingParams, kd: float) -> None:
        """``kd`` is the derivative gain of the joints' servo, whose stiffness is θ's [N·m·s/rad]."""
        self.robot, obj, self._cost, self.weights, self.theta = problem
        self._mpc, self._p = mpc, params
        self._model = self._make_model(obj, kd)
        self._layout = JointLayout(self._model)
        self._threads = [mujoco.MjData(self._model) for _ in range(params.sampling_threads)]
        self._tree, self._n = self.robot.kinematics(), len(self.robot.joint_names)
        self._substeps = max(1, round(mpc.step / params.sampling_timestep))
        self._judge = jit(self._costs)
        self._terminal = jit(lambda *args: jnp.sum(self._terminal_residuals(*args) ** 2))
        self.reset()

    def _make_model(self, obj: ObjectModel, kd: float) -> mujoco.MjModel:
        spec = robot_scene(self.robot, obj)
        spec.option.timestep = self._p.sampling_timestep
        for name, kp in zip(self.robot.joint_names, np.asarray(self.theta.stiffness, float), strict=True):
            servo = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            servo.set_to_position(kp=kp, kv=kd)
        for body in spec.bodies:
            if body.name != OBJECT_BODY:
                body.gravcomp = 1.0  # the servo balances the robot's weight
        return spec.compile()

    @property
    def u_max(self) -> float:
        return self._mpc.u_max

    @property
    def params(self) -> MpcParams:
        return self._mpc

    @params.setter
    def params(self, params: MpcParams) -> None:
        self._mpc = params

    def reset(self) -> None:
        """See :meth:`~dexstack.control.base.LocalPlanner.reset`."""
        self._plan = np.zeros((self._mpc.horizon, self._n))
        self._q_des: np.ndarray | None = None
        self._before: Observation | None = None
        self._rng = np.random.default_rng(self._p.sampling_seed)

    def fork(self) -> SamplingPlanner:
        """See :meth:`~dexstack.control.base.LocalPlanner.fork`."""
        other = copy.copy(self)
        other.reset()
        return other

    def warm_up(self) -> float:
        """Compile the cost; returns the seconds it took."""
        start = time.perf_counter()
        pose = np.array([0, 0, 0.1, 1, 0, 0, 0], float)
        self.fork().plan(Observation(0.0, pose, self.robot.home, empty_contacts(0)), pose)
        self.goal_cost(pose, self.robot.home, pose)
        return time.perf_counter() - start

    def goal_cost(self, pose_WO: np.ndarray, q: np.ndarray, goal_WO: np.ndarray) -> float:
        """See :meth:`~dexstack.control.base.LocalPlanner.goal_cost`."""
        return float(self._terminal(np.asarray(pose_WO, np.float32), np.asarray(q, np.float32), goal_WO, numbers(self.weights)))

    def plan(self, observation: Observation, goal_WO: np.ndarray, pull: Pull | None = None) -> Plan:
        """See :meth:`~dexstack.control.base.LocalPlanner.plan`."""
        wall, cpu = time.perf_counter(), time.process_time()
        pull = pull or Pull(np.zeros(self._n), self._mpc.effort_weight)
        status, cost, prediction = SolveStatus.BAD_INPUT, np.nan, np.full((self._mpc.horizon + 1, 7 + self._n), np.nan)
        if self._usable(observation, goal_WO):
            plan, cost, found, improved = self._search(self._state(observation), observation, goal_WO, pull)
            status = SolveStatus.DIVERGED
            if np.isfinite(cost):
                prediction = found
                status = SolveStatus.OK if improved else SolveStatus.NO_DESCENT
                lower, upper = self.robot.lower + self._mpc.limit_margin, self.robot.upper - self._mpc.limit_margin
                self._plan, self._q_des = plan, np.clip(observation.q + plan[0], lower, upper)
            self._before = observation
        held = self._q_des if self._q_des is not None else self.robot.home
        return Plan(
            status, np.array(held, float), self._plan, prediction, float(cost), time.process_time() - cpu, time.perf_counter() - wall
        )

    def _usable(self, observation: Observation, goal_WO: np.ndarray) -> bool:
        try:
            pose, q, goal = (np.asarray(a, float) for a in (observation.pose_WO, observation.q, goal_WO))
        except (TypeError, ValueError):
            return False
        sizes = pose.shape == (7,) and q.shape == (self._n,) and goal.shape == (7,)
        return bool(sizes and all(np.isfinite(a).all() for a in (pose, q, goal)) and pose[3:] @ pose[3:] > 1e-6)

    def _state(self, now: Observation) -> np.ndarray:
        """MuJoCo's full state of an observation."""
        data, before = self._threads[0], self._before
        mujoco.mj_resetData(self._model, data)
        data.qpos[:] = self._coordinates(now)
        if before is not None and 1e-6 < now.t - before.t < LONGEST_GAP:
            mujoco.mj_differentiatePos(self._model, data.qvel, now.t - before.t, self._coordinates(before), data.qpos)
        state = np.empty(mujoco.mj_stateSize(self._model, mujoco.mjtState.mjSTATE_FULLPHYSICS))
        mujoco.mj_getState(self._model, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        return state

    def _coordinates(self, observation: Observation) -> np.ndarray:
        return np.concatenate([self._layout.coordinates(observation.q), observation.pose_WO])

    def _search(
        self, state: np.ndarray, observation: Observation, goal_WO: np.ndarray, pull: Pull
    ) -> tuple[np.ndarray, float, np.ndarray, bool]:
        """The best plan found, its cost, its prediction, and whether it is better than the one before."""
        p, best = self._p, (self._plan, np.inf, np.empty(0))
        mean, kept = self._plan, np.nan
        for _ in range(p.sampling_rounds):
            noise = self._rng.normal(0.0, p.sampling_spread * self.u_max, (p.sampling_plans, *mean.shape))
            noise[0] = 0.0
            plans = np.clip(mean + noise, -self.u_max, self.u_max)
            costs, predictions = self._roll_out(state, observation, plans, goal_WO, pull)
            kept = costs[0] if np.isnan(kept) else kept
            order = np.argsort(costs)
            if costs[order[0]] < best[1]:
                best = plans[order[0]], float(costs[order[0]]), predictions[order[0]]
            mean = np.mean(plans[order[: p.sampling_elite]], axis=0)
        costs, predictions = self._roll_out(state, observation, mean[None], goal_WO, pull)
        if costs[0] < best[1]:
            best = mean, float(costs[0]), predictions[0]
        return (*best, best[1] < kept)

    def _roll_out(
        self, state: np.ndarray, observation: Observation, plans: np.ndarray, goal_WO: np.ndarray, pull: Pull
    ) -> tuple[np.ndarray, np.ndarray]:
        """Costs (B,) of plans (B, T, N), infinite where MuJoCo diverged, and predictions (B, T + 1, 7 + N)."""
        B, _, n = plans.shape
        targets = np.clip(observation.q + np.cumsum(plans, axis=1), self.robot.lower, self.robot.upper)
        control = np.repeat(targets, self._substeps, axis=1)
        states, _ = mujoco.rollout.rollout(self._model, self._threads, np.tile(state, (B, 1)), control)
        ends = states[:, self._substeps - 1 :: self._substeps, 1 : 1 + self._model.nq]
        q, pose = ends[:, :, self._layout.own], ends[:, :, -7:]
        costs = np.asarray(self._judge(pose, q, plans, np.asarray(goal_WO), pull, numbers(self.weights)), float)
        first = np.broadcast_to(np.concatenate([observation.pose_WO, observation.q]), (B, 1, 7 + n))
        return np.where(np.isfinite(costs), costs, np.inf), np.concatenate([first, np.concatenate([pose, q], axis=2)], axis=1)

    # --- traced -------------------------------------------------------------------------------------------------------------------

    def _planned(self, pose_WO: Any, q: Any) -> PlannedState:
        return PlannedState(pose_WO[:3], pose_WO[3:], q, self._tree.fingertips(self._tree.poses(q)))

    def _terminal_residuals(self, pose_WO: Any, q: Any, goal_WO: Any, weights: Any) -> jax.Array:
        return self._cost.terminal(self._planned(pose_WO, q), goal_WO, SimpleNamespace(**weights))

    def _costs(self, pose_WO: Any, q: Any, plans: Any, goal_WO: Any, pull: Pull, weights: Any) -> jax.Array:
        stage = lambda x, joints: jnp.sum(self._cost.stage(self._planned(x, joints), goal_WO, SimpleNamespace(**weights)) ** 2)  # noqa: E731
        # one batch axis: XLA's simplifier fails on the products of two
        running = jnp.sum(jax.vmap(stage)(pose_WO.reshape(-1, 7), q.reshape(-1, self._n)).reshape(len(plans), -1), axis=1)
        last = jax.vmap(lambda x, joints: jnp.sum(self._terminal_residuals(x, joints, goal_WO, weights) ** 2))(pose_WO[:, -1], q[:, -1])
        return running + last + pull.weight * jnp.sum((plans - jnp.asarray(pull.reference)[None, None]) ** 2, axis=(1, 2))
