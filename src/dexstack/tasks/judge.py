"""The judge of a rollout: which goal is pursued, which were reached, and whether the rollout is over;
the same in simulation and in the task node."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dexstack.geometry.rotations import geodesic_angle
from dexstack.tasks.base import Goal, Outcome, Task

if TYPE_CHECKING:
    from dexstack.model.objects import Start

SETTLED, REST_SHIFT, REST_TURN = 1.0, 1e-3, 0.02
"""Time [s] for which an object that rests moves less than a distance [m] and an angle [rad]."""


class Judge:
    """Follows one rollout of a task from time 0 [s].

    A goal counts as reached after the object was inside its tolerance for the task's ``hold`` [s];
    the next goal follows.
    """

    def __init__(self, task: Task, start: Start, goals: Iterator[Goal]) -> None:
        """
        Args:
            start: nominal start, from which a dropped object is far away.
            goals: at least one.
        """
        self._task, self._start, self._goals = task, start, goals
        self.goal = next(goals)
        """The goal that is pursued, or the last one."""
        self.reached_at: list[float] = []
        """Time at which each goal was reached [s]."""
        self.complete = self.dropped = self.over = False
        """True once the last goal was reached or missed, the object was lost, or the task ended the
        rollout."""
        self.settled = False
        """True while every goal is reached and the object rests inside the tolerance of the last one:
        it has been there for the task's ``hold`` and has not moved for :data:`SETTLED`."""
        self.number = 0
        """Number of the goal, from 0."""
        self._begun = 0.0
        self._inside_since = self._rests_since = math.nan
        self._rests_at = np.full(7, math.nan)

    def look(self, t: float, pose_WO: np.ndarray) -> bool:
        """Judge the object pose (7,) at time ``t`` [s]; return True if another goal is pursued now."""
        self.dropped = self._task.dropped(pose_WO, self._start)
        if self.dropped or not self._task.inside(pose_WO, self.goal):
            self._inside_since = math.nan
        elif math.isnan(self._inside_since):
            self._inside_since = t
        following = None
        reached = t - self._inside_since >= self._task.params.hold
        if not self.complete and (reached or t - self._begun >= self._task.goal_seconds):
            if reached:
                self.reached_at.append(t)
            following = next(self._goals, None)
            self.complete = following is None
        if following is not None:
            self.goal, self._inside_since, self._begun = following, math.nan, t
            self.number += 1
        limited = math.isfinite(self._task.goal_seconds)
        self.over = self._task.over(self.reached_at, t) or (limited and self.complete)
        self._look_for_rest(t, pose_WO)
        return following is not None

    def _look_for_rest(self, t: float, pose_WO: np.ndarray) -> None:
        at = self._rests_at
        if not (
            np.linalg.norm(pose_WO[:3] - at[:3]) < REST_SHIFT
            and geodesic_angle(pose_WO[3:], at[3:]) < REST_TURN
        ):  # NaN included
            self._rests_at, self._rests_since = np.array(pose_WO), t
        stayed = t - self._inside_since >= self._task.params.hold
        self.settled = self.complete and stayed and t - self._rests_since >= SETTLED

    def outcome(self, t: float, pose_WO: np.ndarray) -> Outcome:
        """Return the outcome of a rollout that ends at time ``t`` [s] with the object at a pose
        (7,)."""
        dropped = self._task.dropped(pose_WO, self._start)
        return Outcome(pose_WO, self.goal, tuple(self.reached_at), t, dropped)
