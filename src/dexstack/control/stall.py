"""Stalls: a rollout that gets no nearer to its goal is noticed, and the robot lets go, takes hold again and brings the object back.

A planner that looks four steps ahead stops at fixed points: fingers in each other's way, or an object that springs back as far as it was
turned. There are two ways back to the pose the rollout began with:

* RETREAT, after a stall: straight and for a short time. The fingers drag the object a little, and the next plan starts from another state
  and another grasp; that frees most stalls (``dexstack eval allegro`` counts them). Letting go without moving the object frees fewer: the
  next plan ends where the last one did.
* RELEASE, between two goals, and after a stall where the object may not be dragged any farther (on and on, drags add up; but letting go
  of an object that then lies as it lay frees nothing, so that every few stalls in a row it is dragged all the same): planned. The
  same MPC keeps the object where it is while its commands are drawn to the rest pose and nothing draws the fingertips to the object.

Where the object has wandered off, to where the fingers cannot turn it or to the edge of the palm, it is then brought back to its place,
turned as it is, before the goal counts again; a short rollout has no time for that (``recentre_time``).
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
    """When a rollout counts as stalled, and how the robot lets go."""

    stall_window: float = param(1.5, "time without progress after which a rollout has stalled [s]; a huge value turns this off", 0.1, 1e9)
    stall_progress: float = param(0.05, "fall of the orientation error below its best that counts as progress [rad]", 0.001, 1.0)
    stall_tolerance: float = param(0.1, "a rollout nearer to its goal than this is not stalled [rad]", 0.0, 3.2)
    retreat_time: float = param(0.6, "time for which a stalled robot moves straight to its rest pose; 0 turns this off [s]", 0.0, 10.0)
    stall_distance: float = param(0.08, "a stalled object farther than this from its goal is let go by plan, not dragged [m]", 0.0, 10.0)
    stall_insist: int = param(3, "every n-th stall in a row is freed by dragging, wherever the object is", 1, 1000000)
    recentre_distance: float = param(
        0.02, "a stalled object farther than this from its place is brought back before it is turned on [m]", 1e-3, 10.0
    )
    recentre_time: float = param(0.0, "longest time for that; 0 turns it off [s]", 0.0, 60.0)
    release_time: float = param(2.5, "longest time for which the robot lets go between two goals [s]", 0.0, 10.0)
    release_reached: float = param(0.1, "it has let go when every joint is this near to its rest pose [rad, m]", 0.001, 1.0)
    release_weight: float = param(1.0, "weight that draws the joints to their rest pose while letting go [1/rad², 1/m²]", 1e-3, 1e6)


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
        self._in_a_row = 0
        self._until = self._release_until = self._recentre_until = -math.inf
        self._place_WO: np.ndarray | None = None
        self._held_WO: np.ndarray | None = None
        self._begin(math.inf, math.nan)

    def release(self, t: float) -> None:
        """Let go from time ``t`` [s] on, as between two goals."""
        self._release_until = t + self.params.release_time

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

        A command that retreats or lets go has the status RETREAT.
        """
        if math.isnan(self._since):
            self._since = t
        self._watch(t, error, float(np.linalg.norm(pose_WO[:3] - goal_WO[:3])))
        if t < self._release_until:
            if np.max(np.abs(self._rest - q)) > self.params.release_reached:
                return self._let_go(pose_WO, q, contacts, theta, weights)
            self._release_until = -math.inf  # it has let go, and may take hold again at once
        if self._held_WO is not None or -math.inf < self._until <= t:
            self._mpc.reset()
            self._held_WO, self._until, self._release_until = None, -math.inf, -math.inf
            self._begin(error, max(t, self._recentre_until))
        goal_WO = self._for_now(t, error, pose_WO, goal_WO)
        result = self._mpc.solve(pose_WO, q, contacts, goal_WO, theta, weights)
        if t < self._until:
            reach = self._mpc.params.u_max
            return _retreating(replace(result, q_des=q + np.clip(self._rest - q, -reach, reach)))
        return result

    def _begin(self, error: float, t: float) -> None:
        self._best, self._since = error, t

    def _watch(self, t: float, error: float, distance: float) -> None:
        p = self.params
        if t < max(self._until, self._release_until, self._recentre_until) or not math.isfinite(error):
            return
        if error < p.stall_tolerance or error < self._best - p.stall_progress:
            self._in_a_row = 0
            self._begin(error, t)
        elif t - self._since >= p.stall_window and p.retreat_time > 0.0:
            self.stalls += 1
            self._in_a_row += 1
            if distance > p.stall_distance and self._in_a_row % p.stall_insist:
                self.release(t)
            else:
                self._until = t + p.retreat_time
            free = max(self._until, self._release_until)
            if distance > p.recentre_distance and p.recentre_time > 0.0:
                self._recentre_until, self._place_WO = free + p.recentre_time, None
            self._begin(error, max(free, self._recentre_until))

    def _for_now(self, t: float, error: float, pose_WO: np.ndarray, goal_WO: np.ndarray) -> np.ndarray:
        """The goal, or while an object is brought back its place with the orientation it had."""
        if not self._until <= t < self._recentre_until:
            return goal_WO
        if np.linalg.norm(pose_WO[:3] - goal_WO[:3]) < self.params.recentre_distance / 2:
            self._recentre_until = -math.inf
            self._begin(error, t)
            return goal_WO
        if self._place_WO is None:
            self._place_WO = np.concatenate([goal_WO[:3], pose_WO[3:]])
        return self._place_WO

    def _let_go(self, pose_WO: np.ndarray, q: np.ndarray, contacts: Contacts, theta: ModelParams, weights: Any) -> MpcResult:
        if self._held_WO is None:
            self._mpc.reset()
            self._held_WO = np.array(pose_WO)
        if self._weights[0] is not weights:
            self._weights = weights, self._release(weights)
        reach = self._mpc.params.u_max
        pull = Pull(np.clip(self._rest - q, -reach, reach), self.params.release_weight)
        return _retreating(self._mpc.solve(pose_WO, q, contacts, self._held_WO, theta, self._weights[1], pull))


def _retreating(result: MpcResult) -> MpcResult:
    """The result with status RETREAT, unless the solve failed."""
    return replace(result, status=SolveStatus.RETREAT) if result.status in (SolveStatus.OK, SolveStatus.NO_DESCENT) else result
