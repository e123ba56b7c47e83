"""Gate between a learner and a planner: a new θ begins between two goals, and the earlier one returns if
the hand gets slower."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np

SLOWER = 0.7
"""Share of the pace before a change below which the change is undone."""
MOST = 0.9
"""Share of the rotation towards a goal that is timed: what follows is waiting for the next goal."""
RESOLUTION = 0.01
"""Differences of angles that are kept [rad]."""


class Approach:
    """The rotation towards one goal.

    Args:
        t: time of its beginning [s].
        angle: to the goal then [rad].
    """

    def __init__(self, t: float, angle: float) -> None:
        self._nearer = [(t, angle)]
        """Times and angles, each smaller than the one before."""

    def see(self, t: float, angle: float) -> None:
        """Note an angle to the goal at a time."""
        if angle < self._nearer[-1][1] - RESOLUTION:
            self._nearer.append((t, angle))

    def pace(self, t: float, left: float) -> float:
        """Return the pace [rad/s] of a goal that ends with an angle left; negative away from it."""
        begun, first = self._nearer[0]
        way, end = first - left, t
        if way > 0.0:
            way *= MOST
            end = next((at for at, angle in self._nearer if first - angle >= way), t)
        return way / max(end - begun, 1e-3)


class ThetaGate:
    """The θ that a planner uses, of those that are proposed.

    A proposal waits for the end of a goal. It is adopted after ``goals`` goals have shown the pace
    with the θ in use, and is judged by the pace of as many goals afterwards: below SLOWER of the
    fastest pace so far, the earlier θ returns. It returns during a goal, which may never end otherwise, once
    that goal has lasted so long that the others cannot make up for it at the fastest pace. Between two
    judgements at most one proposal waits, the newest.

    Args:
        first: θ at the beginning, version 0.
        goals: number of goals whose mean pace counts.
    """

    def __init__(self, first: Any, goals: int) -> None:
        self.theta, self.version = first, 0
        self.adopted = self.undone = 0
        """Number of changes, and of changes that were undone."""
        self.goals = goals
        self._proposal: tuple[Any, int] | None = None
        self._earlier: tuple[Any, int, list[float]] | None = None
        self._fastest = -np.inf
        """Of the mean paces at which θ were adopted: slow ones would otherwise add up."""
        self._paces: collections.deque[float] = collections.deque(maxlen=goals)

    def propose(self, theta: Any, version: int) -> None:
        """Keep a θ until the next goal that may change it."""
        self._proposal = theta, version

    def next_goal(self, pace: float) -> bool:
        """End a goal.

        Args:
            pace: see :meth:`Approach.pace` [rad/s].

        Returns:
            Whether :attr:`theta` changed.
        """
        self._paces.append(pace)
        if len(self._paces) < self.goals:
            return False
        if self._earlier is not None:
            if np.mean(self._paces) < SLOWER * self._fastest:
                return self._undo()
            self._earlier = None
        if self._proposal is None:
            return False
        self._earlier = self.theta, self.version, list(self._paces)
        self._fastest = max(self._fastest, float(np.mean(self._paces)))
        (self.theta, self.version), self._proposal = self._proposal, None
        self._paces.clear()
        self.adopted += 1
        return True

    @property
    def judging(self) -> bool:
        """Whether the θ in use may still be undone."""
        return self._earlier is not None

    def during_goal(self, best: float) -> bool:
        """Judge during a goal.

        Args:
            best: largest pace that the goal can still have [rad/s].

        Returns:
            Whether :attr:`theta` changed.
        """
        if not self.judging:
            return False
        paces = [*self._paces, best]
        paces += [self._fastest] * (self.goals - len(paces))
        return self._undo() if np.mean(paces) < SLOWER * self._fastest else False

    def _undo(self) -> bool:
        assert self._earlier is not None
        theta, version, paces = self._earlier
        self.theta, self.version, self._proposal, self._earlier = theta, version, None, None
        self._paces.extend(paces)
        self.undone += 1
        return True
