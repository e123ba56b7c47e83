"""The judge of a rollout: which goal is pursued, which were reached, and whether the rollout is over;
the same in simulation and in the task node."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dexstack.tasks.base import Goal, Outcome, Task

if TYPE_CHECKING:
    from dexstack.model.objects import Start


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
        """True once every goal was reached, the object was lost, or the task ended the rollout."""
        self._inside_since = math.nan

    def look(self, t: float, pose_WO: np.ndarray) -> bool:
        """Judge the object pose (7,) at time ``t`` [s]; return True if another goal is pursued now."""
        self.dropped = self._task.dropped(pose_WO, self._start)
        if self.dropped or not self._task.inside(pose_WO, self.goal):
            self._inside_since = math.nan
        elif math.isnan(self._inside_since):
            self._inside_since = t
        following = None
        if not self.complete and t - self._inside_since >= self._task.params.hold:
            self.reached_at.append(t)
            following = next(self._goals, None)
            self.complete = following is None
        if following is not None:
            self.goal, self._inside_since = following, math.nan
        self.over = self._task.over(self.reached_at, t)
        return following is not None

    def outcome(self, t: float, pose_WO: np.ndarray) -> Outcome:
        """Return the outcome of a rollout that ends at time ``t`` [s] with the object at a pose
        (7,)."""
        dropped = self._task.dropped(pose_WO, self._start)
        return Outcome(pose_WO, self.goal, tuple(self.reached_at), t, dropped)
