"""A trained policy in a planner's place.

The policy proposes joint targets; servo, limits, watch and consent stay between it and the motors.
"""

from __future__ import annotations

import copy
import time
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.control.base import LocalPlanner, Observation, Plan, Problem, Pull, SolveStatus
from dexstack.control.params import NoParams as NoParams, PlannerParams  # NoParams: for the registry
from dexstack.control.policies.features import FeatureStack, Sight
from dexstack.control.policies.mapping import PolicyMapping, read_mapping
from dexstack.errors import ConfigError
from dexstack.geometry.rotations import geodesic_angle


class PolicyPlanner(LocalPlanner):
    """Runs a policy at its rate; between two of its moments the last target stays in force.

    The mapping of ``policy.onnx`` or ``policy.py`` is ``policy.yaml`` next to it, see
    :class:`~dexstack.control.policies.mapping.PolicyMapping`. A policy in Python is a file that sets
    ``PLANNER`` to a subclass with :meth:`act`.
    """

    supervisor, predicted = "none", False
    Params = NoParams

    def __init__(self, problem: Problem, params: Mapping[type, Any]) -> None:
        """
        Raises:
            ConfigError: the mapping is missing or does not fit the robot or the policy.
        """
        super().__init__(problem, params)
        self.path = Path(params[PlannerParams].planner).absolute()
        """File of the policy."""
        if not self.path.is_file():
            raise ConfigError(f"there is no policy file {self.path}")
        self.mapping: PolicyMapping = read_mapping(self.path.with_suffix(".yaml"))
        try:
            self._order = self.mapping.order(self.robot.joint_names)
            self._lower, self._upper = self.mapping.limits(
                self.robot.lower[self._order], self.robot.upper[self._order]
            )
            self._stack = self._new_stack()
            self.load()
            self._check()
        except ConfigError as error:
            raise ConfigError(f"the policy {self.path} does not fit: {error}") from None
        self.reset()

    def _new_stack(self) -> FeatureStack:
        m = self.mapping
        return FeatureStack(m.features, self._lower, self._upper, m.history, m.phase_period)

    def load(self) -> None:
        """Load the policy; by default there is nothing to load.

        Raises:
            ConfigError: the file cannot be used.
        """

    @abstractmethod
    def act(self, observation: np.ndarray) -> np.ndarray:
        """Return the action (N,) for an observation (history · D,), float32."""

    def _check(self) -> None:
        """Ask for one action."""
        zeros, pose = np.zeros(len(self._order)), np.array([0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0])
        observation = self.mapping.scaled(self._stack.add(Sight(0.0, zeros, pose, pose, zeros, zeros)))
        try:
            action = np.asarray(self.act(observation))
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise ConfigError(f"an observation of {len(observation)} numbers gives {reason}") from error
        if action.shape != zeros.shape:
            raise ConfigError(f"it must return {len(zeros)} numbers, one a joint, got {action.shape}")

    def reset(self) -> None:
        """See :meth:`~dexstack.control.base.LocalPlanner.reset`."""
        self._stack.reset()
        self._target: np.ndarray | None = None
        self._action = np.zeros(len(self._order))
        self._due, self._status = -np.inf, SolveStatus.OK

    def fork(self) -> PolicyPlanner:
        """See :meth:`~dexstack.control.base.LocalPlanner.fork`."""
        other = copy.copy(self)
        other._stack = self._new_stack()
        other.reset()
        return other

    def plan(self, observation: Observation, goal_WO: np.ndarray, pull: Pull | None = None) -> Plan:
        """See :meth:`~dexstack.control.base.LocalPlanner.plan`; ``pull`` has no effect.

        An action that is not finite is answered, until a finite one, with the target in force and
        the status ``DIVERGED``: nothing is sent, and the servo holds.
        """
        wall, cpu = time.perf_counter(), time.process_time()
        q = np.asarray(observation.q, float)
        target, status = q if self._target is None else self._target, self._status
        if not (np.all(np.isfinite(q)) and np.all(np.isfinite(observation.pose_WO))):
            status = SolveStatus.BAD_INPUT
        elif observation.t >= self._due - 1e-6:
            period = 1.0 / self.mapping.rate
            # a moment that is less than a period late does not delay the next
            in_time = observation.t < self._due + period
            self._due = (self._due if in_time else observation.t) + period
            found = self._next(observation.t, q, observation.pose_WO, np.asarray(goal_WO), target)
            status = self._status = SolveStatus.OK if np.isfinite(found).all() else SolveStatus.DIVERGED
            if status.usable:
                self._target = target = found
        state = np.concatenate([observation.pose_WO, q])
        return Plan(
            status=status,
            q_des=target.copy(),
            displacements=(target - q)[None],
            prediction=np.stack([state, state]),
            cost=self.goal_cost(observation.pose_WO, q, goal_WO),
            cpu_s=time.process_time() - cpu,
            wall_s=time.perf_counter() - wall,
        )

    def _next(
        self, t: float, q: np.ndarray, pose_WO: np.ndarray, goal_WO: np.ndarray, target: np.ndarray
    ) -> np.ndarray:
        """Return the target (N,) that the policy gives now; not finite if its action is not."""
        order, mapping = self._order, self.mapping
        poses = mapping.pose(pose_WO), mapping.pose(goal_WO)
        mine = Sight(t, q[order], *poses, target[order], self._action)
        action = np.asarray(self.act(mapping.scaled(self._stack.add(mine))), float)
        if not np.all(np.isfinite(action)):
            return np.full_like(target, np.nan)
        self._action = action
        found = np.empty_like(target)
        found[order] = mapping.target(action, mine.target, self._lower, self._upper)
        return np.clip(found, self.robot.lower, self.robot.upper)

    def goal_cost(self, pose_WO: np.ndarray, q: np.ndarray, goal_WO: np.ndarray) -> float:
        """Return the angle to the goal [rad]."""
        return float(geodesic_angle(pose_WO[3:], np.asarray(goal_WO)[3:]))


class OnnxPolicy(PolicyPlanner):
    """An ONNX file with one input (1, D) or (D,) and the action as its first output."""

    def load(self) -> None:
        """
        Raises:
            ConfigError: onnxruntime is not installed, or the file is not an ONNX model of one input.
        """
        try:
            import onnxruntime
        except ImportError:
            raise ConfigError("it needs onnxruntime: pip install 'dexstack[policies]'") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # small nets; other nodes need cores
        try:
            session = onnxruntime.InferenceSession(str(self.path), options, ["CPUExecutionProvider"])
        except Exception as error:
            raise ConfigError(f"it is not a usable ONNX model: {str(error).splitlines()[0]}") from None
        if len(session.get_inputs()) != 1:
            names = ", ".join(i.name for i in session.get_inputs())
            raise ConfigError(f"it must have one input, has {names}")
        self._session, self._input = session, session.get_inputs()[0]

    def act(self, observation: np.ndarray) -> np.ndarray:
        """See :meth:`PolicyPlanner.act`."""
        fed = observation.reshape(1, -1) if len(self._input.shape) == 2 else observation
        return np.asarray(self._session.run(None, {self._input.name: fed})[0]).reshape(-1)
