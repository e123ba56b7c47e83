"""Model-predictive path integral control: perturbed splines of joint targets are rolled out in MuJoCo
on threads and weighted by their cost.

A plan is a cubic spline of joint targets through a few knots over the horizon. Each search perturbs
the knots of the current plan, later ones more, in some of the robot's chains at a time (near the goal
half of the samples finely), and weights all by

    w ∝ exp(−(cost − least)/λ),    λ = ``sampling_temperature`` (median − least),

with the median in λ to make it independent of the task. Only those that are rolled out to the end have
a weight, see :meth:`.rollouts.Rollouts.roll_best`. Cost, bounds and joint targets are those of
the Gauss–Newton planner; the physics is MuJoCo's with the numbers of θ, see
:mod:`dexstack.control.planners.rollouts`. The cost after the horizon may be learned
(``sampling_value``), see :mod:`dexstack.control.value`.

A search takes longer than the time between two plans and may run concurrently. It then starts from
the state to which the current plan will have led when its answer acts, ``sampling_delay`` later; until
then the current plan continues. In real time (``sampling_wait`` off) a search has as many samples as
this machine finishes in that time; where even a few take longer, the expected delay grows
accordingly.
"""

from __future__ import annotations

import collections
import copy
import os
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.interpolate import make_interp_spline

from dexstack.config import numbers
from dexstack.contact.contact import empty_contacts
from dexstack.control.base import LocalPlanner, Observation, Plan, PlannedState, Problem, Pull, SolveStatus
from dexstack.control.params import MpcParams, PlannerParams, SamplingParams
from dexstack.control.planners.rollouts import Rollouts
from dexstack.control.problem import ModelParams
from dexstack.control.value import ERROR, REACHED, features, value_for
from dexstack.errors import ConfigError
from dexstack.geometry.rotations import geodesic_angle
from dexstack.process.compilation import jit

if TYPE_CHECKING:
    from dexstack.control.planners.contact_rollouts import ContactSdfRollouts
    from dexstack.model.objects import ObjectModel
    from dexstack.model.robot import Robot

LONGEST_GAP = 0.2
"""Longest time between observations; a longer gap discards the plan and the velocity [s]."""
TINY = 1e-12
"""Costs that differ by less count as equal."""
MEMORY = 0.2
"""Weight of the last search in the mean time of a search."""
LEAST_PLANS = 8
"""Smallest number of samples on a machine that is too slow for ``sampling_plans``."""
SCARCE = 0.4
"""Share of ``sampling_plans`` below which the plan carries a warning: half as many plans every 20 ms reach
as many goals as all of them every 40 ms."""
IN_TIME = 0.9
"""Share of ``sampling_delay`` planned for a search, since the time varies."""
OBSERVATIONS = 4
"""Number of observations from which a velocity is estimated."""


class _Question(NamedTuple):
    """Input of a search."""

    state: np.ndarray
    knots: np.ndarray
    """(K, N) knots of the current plan, from ``t`` on."""
    observation: Observation
    goal_WO: np.ndarray
    pull: Pull
    weights: dict[str, float]
    t: float
    """Time at which the answer acts [s]."""
    plans: int
    """Number of samples."""


class _Answer(NamedTuple):
    """Result of a search."""

    t: float
    knots: np.ndarray
    cost: float
    """Cost of the best rollout; not finite if all diverged."""
    prediction: np.ndarray
    """(T + 1, 7 + N), the first row observed."""
    improved: bool
    """True if the best is better than the current plan."""


def rollouts_of(
    robot: Robot, obj: ObjectModel, mpc: MpcParams, params: SamplingParams, usual: PlannerParams
) -> tuple[Rollouts | ContactSdfRollouts, int]:
    """Return the rollouts of a planner with these parameters, and its targets per planned step.

    Raises:
        ConfigError: numba is not installed, which ``contactsdf`` needs.
    """
    substeps = max(1, round(mpc.step / params.sampling_timestep))
    dt, threads = mpc.step / substeps, params.sampling_threads
    if params.sampling_rollouts == "contactsdf":
        try:
            from dexstack.control.planners.contact_rollouts import ContactSdfRollouts
        except ImportError:
            raise ConfigError(
                "rollouts 'contactsdf' need numba: pip install -c constraints.txt 'dexstack[engines]'"
            ) from None
        return ContactSdfRollouts(robot, obj, usual, mpc.u_max, dt, threads), substeps
    servo = usual.kp * np.ones(len(robot.joint_names)), usual.kd, mpc.u_max
    return Rollouts(robot, obj, servo, dt, threads), substeps


class SamplingPlanner(LocalPlanner):
    """See the module's docstring."""

    def __init__(self, problem: Problem, blocks: Mapping[type, Any]) -> None:
        """
        Args:
            blocks: parameter blocks of MPC, sampling and planner by their class.
        """
        super().__init__(problem, blocks)
        obj, self._cost = problem.obj, problem.cost
        mpc, params, usual = blocks[MpcParams], blocks[SamplingParams], blocks[PlannerParams]
        self._p, self._usual = params, usual
        self._tree, self._n = self.robot.kinematics(), len(self.robot.joint_names)
        self.rollouts, self._substeps = rollouts_of(self.robot, obj, mpc, params, usual)
        dt = mpc.step / self._substeps
        self._value = value_for(params.sampling_value, obj, self.robot)
        self._theta_set: ModelParams | None = None
        self._mass, self._farthest = obj.mass, float(np.mean(self.robot.effort)) / usual.kp
        self._grid = np.arange(mpc.horizon * self._substeps + 1) * dt
        self._knots_at = np.linspace(0.0, self._grid[-1], params.sampling_knots)
        degree = min(3, params.sampling_knots - 1)
        self._basis = make_interp_spline(self._knots_at, np.eye(params.sampling_knots), k=degree)
        self._on_grid = self._basis(self._grid[:-1])
        self._at_steps = self._basis(
            np.minimum(params.sampling_lead + mpc.step * np.arange(mpc.horizon), self._grid[-1])
        )
        self._chain_of = np.repeat(np.arange(len(self.robot.chains)), self.robot.chains)
        self._pool: ThreadPoolExecutor | None = None
        self._running: tuple[float, Future[_Answer]] | None = None
        self.pace = 0.0
        """Mean time of past searches per sample [s]."""
        self._plans = params.sampling_plans  # samples per search
        self.costs = jit(self._costs)
        """(object poses (B, T, 7), joints (B, T, N), displacements (B, T, N), goal, pull, weights) → costs
        (B,)."""
        self._terminal = jit(lambda *args: jnp.sum(self._terminal_residuals(*args) ** 2))
        self.reset()

    def reset(self) -> None:
        """See :meth:`~dexstack.control.base.LocalPlanner.reset`."""
        self._forget()
        self._plan = np.zeros((self.params.horizon, self._n))
        self._q_des: np.ndarray | None = None
        self._rng = np.random.default_rng(self._p.sampling_seed)

    def _forget(self) -> None:
        """Discard plan and observations."""
        if self._running is not None:
            self._running[1].result()  # it shares memory
        self._observations: collections.deque[Observation] = collections.deque(maxlen=OBSERVATIONS)
        self._found: _Answer | None = None
        self._running = None

    def fork(self) -> SamplingPlanner:
        """See :meth:`~dexstack.control.base.LocalPlanner.fork`."""
        other = copy.copy(self)
        other.rollouts, other._pool, other._running = self.rollouts.fork(), None, None
        other.reset()
        return other

    @property
    def acts_since(self) -> float:
        """Time at which the current plan began to act [s]; NaN without one."""
        return np.nan if self._found is None else self._found.t

    def finish_search(self) -> float:
        """Wait for the concurrent search; return the time at which its answer acts [s], NaN without
        one."""
        if self._running is None:
            return np.nan
        self._running[1].result()
        return self._running[0]

    @property
    def u_max(self) -> float:
        """Largest commanded joint displacement per step [rad, m], with which the servo's force grows: with
        an object heavier than ``sampling_mass`` in proportion to its mass m, as does its friction μ m g,
        but no farther than to the mean displacement at which joints reach their effort limits."""
        usual = self.params.u_max
        return max(usual, min(usual * self._mass / self._p.sampling_mass, self._farthest))

    def warm_up(self) -> float:
        """Compile the cost; return the seconds it took."""
        start = time.perf_counter()
        pose = np.array([0, 0, 0.1, 1, 0, 0, 0], float)
        self.fork().plan(Observation(0.0, pose, self.robot.home, empty_contacts(0)), pose)
        self.goal_cost(pose, self.robot.home, pose)
        return time.perf_counter() - start

    def goal_cost(self, pose_WO: np.ndarray, q: np.ndarray, goal_WO: np.ndarray) -> float:
        """See :meth:`~dexstack.control.base.LocalPlanner.goal_cost`."""
        return float(
            self._terminal(
                np.asarray(pose_WO, np.float32), np.asarray(q, np.float32), goal_WO, numbers(self.weights)
            )
        )

    def plan(self, observation: Observation, goal_WO: np.ndarray, pull: Pull | None = None) -> Plan:
        """See :meth:`~dexstack.control.base.LocalPlanner.plan`."""
        wall, cpu = time.perf_counter(), time.process_time()
        status, cost, prediction = (
            SolveStatus.BAD_INPUT,
            np.nan,
            np.full((self.params.horizon + 1, 7 + self._n), np.nan),
        )
        if self._usable(observation, goal_WO):
            status = SolveStatus.DIVERGED
            answer = self._newest(
                observation,
                np.array(goal_WO, float),
                pull or Pull(np.zeros(self._n), self.params.effort_weight),
            )
            if np.isfinite(answer.cost):
                cost, prediction, self._found = answer.cost, answer.prediction, answer
                status = SolveStatus.OK if answer.improved else SolveStatus.NO_DESCENT
                self._plan = self._displacements(observation)
                self._q_des = self._command(observation.q)
        held = self._q_des if self._q_des is not None else self.robot.home
        took = time.process_time() - cpu, time.perf_counter() - wall
        return Plan(
            status, np.array(held, float), self._plan, prediction, float(cost), *took, self._warning()
        )

    def _usable(self, observation: Observation, goal_WO: np.ndarray) -> bool:
        try:
            pose, q, goal = (np.asarray(a, float) for a in (observation.pose_WO, observation.q, goal_WO))
        except (TypeError, ValueError):
            return False
        sizes = pose.shape == (7,) and q.shape == (self._n,) and goal.shape == (7,)
        return bool(
            sizes and all(np.isfinite(a).all() for a in (pose, q, goal)) and pose[3:] @ pose[3:] > 1e-6
        )

    @property
    def _limits(self) -> tuple[np.ndarray, np.ndarray]:
        return self.robot.lower + self.params.limit_margin, self.robot.upper - self.params.limit_margin

    def _target(self, t: float) -> np.ndarray:
        """Return the targets (N,) of the current plan at a time, constant after its end; without a
        plan the present joint positions [rad, m]."""
        if self._found is None:
            return np.clip(self._observations[-1].q, *self._limits)
        return np.clip(
            self._basis(np.clip(t - self._found.t, 0.0, self._grid[-1])) @ self._found.knots, *self._limits
        )

    def _displacements(self, observation: Observation) -> np.ndarray:
        """Return the displacements (T, N) of the current plan from the observed joint positions."""
        acts = observation.t + self._p.sampling_lead
        targets = [
            observation.q,
            *(self._target(acts + k * self.params.step) for k in range(self.params.horizon)),
        ]
        return np.clip(np.diff(targets, axis=0), -self.u_max, self.u_max)

    def _command(self, q: np.ndarray) -> np.ndarray:
        """Return the targets (N,) of the first step, with limited change from the last ones
        [rad, m]."""
        asked = q + self._plan[0]
        if self._q_des is not None:
            change = self._p.sampling_change * self.u_max
            asked = np.clip(
                np.clip(asked, self._q_des - change, self._q_des + change), q - self.u_max, q + self.u_max
            )
        return np.clip(asked, *self._limits)

    def _newest(self, observation: Observation, goal_WO: np.ndarray, pull: Pull) -> _Answer:
        """Return the newest answer that may act; start a search if none runs."""
        t = observation.t
        if self._observations and not -1e-9 <= t - self._observations[-1].t <= LONGEST_GAP:
            self._forget()
        if self._observations and t <= self._observations[-1].t:
            self._observations.pop()
        self._observations.append(observation)
        answer, delay = self._found, self._p.sampling_delay
        if delay > 0.0 and not self._p.sampling_wait:
            self._plans = self._affordable(IN_TIME * delay)
            delay = max(delay, self._plans * self.pace)
        if self._running is not None and self._due(*self._running):
            answer, self._running = self._running[1].result(), None
        if answer is None or delay == 0.0:
            answer = self._search(self._question(t, goal_WO, pull))
        if delay > 0.0 and self._running is None:
            if np.isfinite(answer.cost):
                self._found = answer
            self._running = (
                t + delay,
                self._worker().submit(self._search, self._question(t + delay, goal_WO, pull)),
            )
        return answer

    def _affordable(self, seconds: float) -> int:
        """Return the number of samples that fit in a time [s], by the mean time of past searches."""
        most = self._p.sampling_plans
        return most if most * self.pace <= seconds else max(min(most, LEAST_PLANS), int(seconds / self.pace))

    def _warning(self) -> str:
        plans, most = self._plans, self._p.sampling_plans
        if plans >= SCARCE * most:
            return ""
        return (
            f"a search has {plans} of {most} plans: this machine is too slow, "
            "and goals take longer to be reached"
        )

    def _due(self, acts: float, search: Future[_Answer]) -> bool:
        """Return whether an answer for a time [s] acts now; in real time, at the observation nearest to
        it, since observations jitter by milliseconds."""
        times = [seen.t for seen in self._observations][-2:]
        if self._p.sampling_wait:
            return times[-1] >= acts - 1e-9
        return search.done() and times[-1] >= acts - (times[-1] - times[0]) / 2

    def _question(self, t: float, goal_WO: np.ndarray, pull: Pull) -> _Question:
        if self.theta is not self._theta_set:
            self._theta_set = self.theta
            self.rollouts.set_theta(self.theta, self.params.step, self._usual.planned_friction)
            self._mass = float(self.theta.mass)
        self.rollouts.limit(self.u_max)  # here, between two searches, which share the model
        self.rollouts.set_gravity(self.gravity)
        state = self.rollouts.state(self._observations, self._target, t)
        knots = np.array([self._target(t + s) for s in self._knots_at])
        return _Question(
            state, knots, self._observations[-1], goal_WO, pull, numbers(self.weights), t, self._plans
        )

    def _search(self, asked: _Question) -> _Answer:
        begin = time.perf_counter()
        error = geodesic_angle(asked.observation.pose_WO[3:], asked.goal_WO[3:])
        knots = self._perturbed(asked.knots, asked.plans, error < self._p.sampling_near)
        targets, starts = (
            np.clip(np.einsum("hk,bkn->bhn", b, knots), *self._limits)
            for b in (self._on_grid, self._at_steps)
        )
        plans = np.diff(starts, axis=1, prepend=np.broadcast_to(asked.observation.q, starts[:, :1].shape))
        rows = np.minimum(np.arange(self._p.sampling_plans), asked.plans - 1)  # compiled for one size

        def cost(q: np.ndarray, pose_WO: np.ndarray) -> np.ndarray:
            fixed = asked.goal_WO, asked.pull, asked.weights
            costs = np.asarray(self.costs(pose_WO[rows], q[rows], plans[rows], *fixed), float)
            return np.nan_to_num(costs[: asked.plans], nan=np.inf, posinf=np.inf)

        q, pose_WO, costs, whole = self.rollouts.roll_best(
            asked.state, targets, self._substeps, cost, self._p.sampling_halvings
        )
        best = int(whole[np.argmin(costs[whole])])
        start = np.concatenate([asked.observation.pose_WO, asked.observation.q])
        prediction = np.concatenate([start[None], np.concatenate([pose_WO[best], q[best]], axis=1)])
        if np.isfinite(costs[best]):
            scale = self._p.sampling_temperature * max(float(np.median(costs)) - costs[best], TINY)
            more = costs[whole] - costs[best]
            w = np.exp(-more / scale) if np.isfinite(scale) else np.where(more == 0.0, 1.0, 0.0)
            knots = np.einsum("b,bkn->kn", w / w.sum(), knots[whole])
        pace = (time.perf_counter() - begin) / asked.plans
        self.pace += (MEMORY if self.pace else 1.0) * (pace - self.pace)
        return _Answer(asked.t, knots, float(costs[best]), prediction, bool(costs[best] < costs[0]))

    def _perturbed(self, knots: np.ndarray, plans: int, near: bool) -> np.ndarray:
        """Return the knots (K, N) and perturbed copies, (B, K, N): knot k by k times the spread, in some
        chains of each; half of them finely if ``near``."""
        p, (K, N), chains = self._p, knots.shape, len(self.robot.chains)
        chosen = self._rng.random((plans, chains)) < p.sampling_share
        chosen[np.arange(plans), self._rng.integers(0, chains, plans)] |= ~chosen.any(axis=1)
        spread = p.sampling_spread * self.u_max * np.arange(1, K + 1)[:, None]
        noise = spread * self._rng.normal(size=(plans, K, N)) * chosen[:, None, self._chain_of]
        if near:
            noise[self._rng.random(plans) < 0.5] *= p.sampling_fine
        noise[0] = 0.0
        return np.clip(knots + noise, *self._limits)

    def _worker(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "sampling", _drop_realtime)
        return self._pool

    # --- traced -----------------------------------------------------------------------------------

    def _planned(self, pose_WO: Any, q: Any) -> PlannedState:
        return PlannedState(pose_WO[:3], pose_WO[3:], q, self._tree.fingertips(self._tree.poses(q)))

    def _terminal_residuals(self, pose_WO: Any, q: Any, goal_WO: Any, weights: Any) -> jax.Array:
        return self._cost.terminal(self._planned(pose_WO, q), goal_WO, SimpleNamespace(**weights))

    def _costs(self, pose_WO: Any, q: Any, plans: Any, goal_WO: Any, pull: Pull, weights: Any) -> jax.Array:
        def stage(x: Any, joints: Any) -> jax.Array:
            residuals = self._cost.stage(self._planned(x, joints), goal_WO, SimpleNamespace(**weights))
            return jnp.sum(residuals**2)

        # one batch axis: XLA's simplifier fails on the products of two
        running = jnp.sum(
            jax.vmap(stage)(pose_WO.reshape(-1, 7), q.reshape(-1, self._n)).reshape(len(plans), -1), axis=1
        )
        last = jax.vmap(
            lambda x, joints: jnp.sum(self._terminal_residuals(x, joints, goal_WO, weights) ** 2)
        )(pose_WO[:, -1], q[:, -1])
        if self._value is not None:
            ahead = jax.vmap(self._value, (0, 0, None))(pose_WO[:, -1], q[:, -1], goal_WO)
            far = features(pose_WO[0, 0], q[0, 0], goal_WO)[ERROR] > REACHED
            last += jnp.where(far, self._p.sampling_value_weight, 0.0) * ahead
        return (
            running
            + last
            + pull.weight * jnp.sum((plans - jnp.asarray(pull.reference)[None, None]) ** 2, axis=(1, 2))
        )


def _drop_realtime() -> None:
    """Give this thread, and those it starts, ordinary priority; the planning thread may have a higher
    one."""
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
