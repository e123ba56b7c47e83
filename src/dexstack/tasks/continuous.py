"""Turn an object on the palm continuously: each goal is one turn beyond the last, without reset."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dexstack.config import param
from dexstack.tasks.base import Goal, Outcome
from dexstack.tasks.palm_turn import PalmParams, PalmTurn


@dataclass(frozen=True)
class ContinuousParams(PalmParams):
    """Parameters of the task."""

    turn: float = param(math.pi / 2, "turn from one goal to the next [rad]", -math.pi, math.pi)
    first_goals: int = param(3, "number of goals that must be reached …", 1, 1000)
    first_seconds: float = param(15.0, "… within this time, about that of the paper's hardware [s]", 0.1, 1e5)
    standstill: float = param(60.0, "a goal that takes longer is a standstill [s]", 0.1, 1e5)


class Continuous(PalmTurn):
    """The cost of :class:`~dexstack.tasks.palm_turn.PalmTurn` with an infinite stream of goals; the
    hand releases the object between two.

    A trial succeeds if the first goals are reached in time, no goal takes longer than a standstill,
    and the object stays in the hand.
    """

    name = "continuous"
    Params = ContinuousParams
    opening_yaw = None
    trials = 1

    def goals(self, k: int, seed: int) -> Iterator[Goal]:
        return (self.at_yaw(turns * self.params.turn) for turns in itertools.count(1))

    def seconds(self) -> float:
        return 60.0

    def succeeded(self, outcome: Outcome) -> bool:
        p, reached = self.params, outcome.reached_at
        if outcome.dropped or len(reached) < p.first_goals or reached[p.first_goals - 1] > p.first_seconds:
            return False
        return bool(np.max(np.diff([0.0, *reached, outcome.seconds])) <= p.standstill)
