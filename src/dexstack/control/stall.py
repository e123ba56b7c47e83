"""Stalls: a rollout that gets no nearer to its goal is noticed, and the robot lets go and takes hold again.

A planner that looks four steps ahead stops at fixed points: fingers in each other's way, or an object that springs back as far as it was
turned. Letting go to the pose the rollout began with changes the grasp the next plan starts from; it frees most of them (``dexstack eval
allegro`` counts stalls). Letting go is planned too: the same MPC keeps the object where it is while its commands are drawn to the rest
pose and nothing draws the fingertips to the object. Fingers moved straight to their rest pose drag the object along.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dexstack.config import param
from dexstack.contact.contact import Contacts
from dexstack.control.mpc import Mpc, MpcResult, Pull, SolveStatus
from dexstack.control.problem import ModelParams


@dataclass(frozen=True)
class StallParams:
    """When a rollout counts as stalled, and how the robot then lets go."""

    stall_window: float = param(1.5, "time without progress after which a rollout has stalled [s]; a huge value turns this off", 0.1, 1e9)
    stall_progress: float = param(0.05, "fall of the orientation error below its best that counts as progress [rad]", 0.001, 1.0)
    stall_tolerance: float = param(0.1, "a rollout nearer to its goal than this is not stalled [rad]", 0.0, 3.2)
    retreat_time: float = param(2.5, "longest time for which the robot lets go; 0 turns this off [s]", 0.0, 10.0)
    retreat_reached: float = param(0.1, "the robot has let go when every joint is this near to its rest pose [rad, m]", 0.001, 1.0)
    retreat_weight: float = param(1.0, "weight that draws the joints to their rest pose while letting go [1/rad², 1/m²]", 1e-3, 1e6)


class StallRemedy:
    """The planner of one rollout, which lets go and takes hold again where the planner alone would stall."""

    def __init__(self, mpc: Mpc, rest: np.ndarray, params: StallParams, release: Callable[[Any], Any]) -> None:
        """
        Args:
            mpc: the planner; it forgets its warm start before and after a retreat.
            rest: joint positions (N,) to retreat to.
            params: see :class:`StallParams`.
            release: makes, of a cost's weights, those with which nothing draws the robot to the object.
        """
        self.params = params
        self._mpc, self._rest, self._release = mpc, np.asarray(rest, float), release
        self._weights: tuple[Any, Any] = (None, None)
        self.reset()

    def reset(self) -> None:
        """Begin a rollout."""
        self._mpc.reset()
        self.stalls = 0
        """Stalls of this rollout."""
        self._until = -math.inf
        self._held_WO: np.ndarray | None = None
        self._begin(math.inf, math.nan)

    def retreat(self, t: float) -> None:
        """Let go from time ``t`` [s] on, as between two goals."""
        self._until = t + self.params.retreat_time

    def solve(
        self,
        t: float,
        error: float,
        pose_WO: np.ndarray,
        q: np.ndarray,
        contacts: Contacts,
        goal_WO: np.ndarray,
        theta: ModelParams,
        weights: Any,
    ) -> MpcResult:
        """A command for the state at time ``t`` [s], whose orientation error is ``error`` [rad]; the rest as for :meth:`Mpc.solve`.

        A command that lets go has the status RETREAT.
        """
        if math.isnan(self._since):
            self._since = t
        self._watch(t, error)
        if t < self._until and np.max(np.abs(self._rest - q)) > self.params.retreat_reached:
            return self._let_go(pose_WO, q, contacts, theta, weights)
        if self._held_WO is not None:
            self._mpc.reset()
            self._held_WO, self._until = None, -math.inf
            self._begin(error, t)
        return self._mpc.solve(pose_WO, q, contacts, goal_WO, theta, weights)

    def _begin(self, error: float, t: float) -> None:
        self._best, self._since = error, t

    def _watch(self, t: float, error: float) -> None:
        p = self.params
        if t < self._until or not math.isfinite(error):
            return
        if error < p.stall_tolerance or error < self._best - p.stall_progress:
            self._begin(error, t)
        elif t - self._since >= p.stall_window and p.retreat_time > 0.0:
            self.stalls += 1
            self._begin(error, t)
            self.retreat(t)

    def _let_go(self, pose_WO: np.ndarray, q: np.ndarray, contacts: Contacts, theta: ModelParams, weights: Any) -> MpcResult:
        if self._held_WO is None:
            self._mpc.reset()
            self._held_WO = np.array(pose_WO)
        if self._weights[0] is not weights:
            self._weights = weights, self._release(weights)
        reach = self._mpc.params.u_max
        pull = Pull(np.clip(self._rest - q, -reach, reach), self.params.retreat_weight)
        result = self._mpc.solve(pose_WO, q, contacts, self._held_WO, theta, self._weights[1], pull)
        solved = result.status in (SolveStatus.OK, SolveStatus.NO_DESCENT)
        return replace(result, status=SolveStatus.RETREAT) if solved else result
