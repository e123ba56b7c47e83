"""No supervision: the plan is followed whatever comes of it."""

from __future__ import annotations

import numpy as np

from dexstack.control.base import Observation, Plan
from dexstack.control.params import NoParams
from dexstack.control.supervisors.base import Guarded, Supervisor


class NoSupervisor(Supervisor):
    """The planner alone."""

    def __init__(self, guarded: Guarded, params: NoParams) -> None:
        super().__init__(guarded.planner)
        self._nearest = guarded.nearest
        self.params = params

    def plan(self, observation: Observation, goal_WO: np.ndarray) -> Plan:
        """The planner's answer."""
        return self.planner.plan(observation, self._nearest(observation.pose_WO, goal_WO))
