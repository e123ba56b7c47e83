"""Stalls: a rollout that gets no nearer to its goal is noticed, and the robot lets go and takes hold again.

A planner that looks four steps ahead stops at fixed points: fingers in each other's way, or an object that springs back as far as it was
turned. Letting go to the pose the rollout began with changes the grasp the next plan starts from; it frees most of them (measured by
``dexstack eval allegro``, which counts stalls).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dexstack.config import param
from dexstack.control.mpc import Mpc, MpcResult, SolveStatus


@dataclass(frozen=True)
class StallParams:
    """When a rollout counts as stalled, and for how long the robot then lets go."""

    stall_window: float = param(1.5, "time without progress after which a rollout has stalled [s]; a huge value turns this off", 0.1, 1e9)
    stall_progress: float = param(0.05, "fall of the orientation error below its best that counts as progress [rad]", 0.001, 1.0)
    stall_tolerance: float = param(0.1, "a rollout nearer to its goal than this is not stalled [rad]", 0.0, 3.2)
    retreat_time: float = param(0.6, "time for which a stalled robot returns to its start pose [s]", 0.0, 10.0)


class StallRemedy:
    """Watches the error of one rollout and replaces the plan's command while the robot retreats."""

    def __init__(self, mpc: Mpc, rest: np.ndarray, params: StallParams) -> None:
        """
        Args:
            mpc: the planner whose results pass through :meth:`apply`; it forgets its warm start after a retreat.
            rest: joint positions (N,) to retreat to.
            params: see :class:`StallParams`.
        """
        self.params = params
        self._mpc, self._rest = mpc, np.asarray(rest, float)
        self.reset()

    def reset(self) -> None:
        """Begin a rollout."""
        self.stalls = 0
        """Stalls of this rollout."""
        self._best, self._since, self._until = math.inf, math.nan, -math.inf

    def apply(self, t: float, error: float, q: np.ndarray, result: MpcResult) -> MpcResult:
        """The result to act on: the planner's own or, during a retreat, one with status RETREAT towards the rest pose.

        Args:
            t: time of the state the result answers [s].
            error: orientation error of the object at that time [rad].
            q: joint positions (N,) at that time.
            result: what the planner said.
        """
        p = self.params
        if math.isnan(self._since):
            self._since = t
        if not math.isfinite(error):
            return result
        if t < self._until:
            reach = self._mpc.params.u_max
            return replace(result, status=SolveStatus.RETREAT, q_des=q + np.clip(self._rest - q, -reach, reach))
        if self._until > -math.inf:  # the retreat is over
            self._mpc.reset()
            self._best, self._since, self._until = error, t, -math.inf
        elif error < p.stall_tolerance or error < self._best - p.stall_progress:
            self._best, self._since = error, t
        elif t - self._since >= p.stall_window and p.retreat_time > 0.0:
            self.stalls += 1
            self._until = t + p.retreat_time
            return self.apply(t, error, q, result)
        return result
