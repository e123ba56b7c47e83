"""Detours: a rollout without progress gets a random goal for a moment.

A sampling planner escapes from most local optima, but not from all: near some goals the object leans
where none of its samples is better. The obstacle depends on how the object got there, so that
another way helps. During a detour the goal is the object's present orientation turned about a random
axis, at the height at which the object just touches its support.
"""

from __future__ import annotations

import math

import numpy as np

from dexstack.control.base import Observation, Plan
from dexstack.control.params import DetourParams
from dexstack.control.supervisors.base import PlanningContext, Supervisor
from dexstack.geometry.rotations import height_turned, quaternion_product


class DetourSupervisor(Supervisor):
    """See the module's docstring."""

    params: DetourParams

    def __init__(self, context: PlanningContext, params: DetourParams) -> None:
        super().__init__(context, params)
        self._corners_O = np.asarray(context.obj.hull_vertices, float)
        self.reset()

    def reset(self) -> None:
        super().reset()
        self._rng = np.random.default_rng(self.params.detour_seed)
        self._goal_WO: np.ndarray | None = None
        self._detour_WO: np.ndarray | None = None
        self._until = self._since = -math.inf
        self._best = math.inf

    def plan(self, observation: Observation, goal_WO: np.ndarray) -> Plan:
        """Return the planner's answer for the goal, or for the detour."""
        t, pose_WO, p = observation.t, observation.pose_WO, self.params
        if self._goal_WO is None or not np.array_equal(goal_WO, self._goal_WO) or t < self._since:
            self._goal_WO, self._detour_WO = np.array(goal_WO, float), None
            self._begin(t)
        if self._detour_WO is not None and t >= self._until:
            self._detour_WO = None
            self._begin(t)
        error = self.context.error(pose_WO, goal_WO)
        if error < self._best - p.detour_progress:
            self._best, self._since = error, t
        elif (
            self._detour_WO is None
            and error > p.detour_tolerance
            and self.speed * (t - self._since) >= p.detour_after
        ):
            self._detour_WO, self._until = self._random_goal(pose_WO, goal_WO), t + p.detour_time
            self.stalls += 1
        return self.planner.plan(
            observation,
            self.context.nearest(pose_WO, goal_WO) if self._detour_WO is None else self._detour_WO,
        )

    def _begin(self, t: float) -> None:
        self._best, self._since = math.inf, t

    def _random_goal(self, pose_WO: np.ndarray, goal_WO: np.ndarray) -> np.ndarray:
        axis, half = self._rng.normal(size=3), self.params.detour_turn / 2.0
        turn = np.concatenate([[math.cos(half)], math.sin(half) * axis / np.linalg.norm(axis)])
        quat = quaternion_product(turn, pose_WO[3:] / np.linalg.norm(pose_WO[3:]))
        return np.concatenate([goal_WO[:2], [height_turned(self._corners_O, goal_WO, quat)], quat])
