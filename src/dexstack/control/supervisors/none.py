"""No supervision: every plan is followed."""

from __future__ import annotations

import numpy as np

from dexstack.control.base import Observation, Plan
from dexstack.control.params import NoParams  # noqa: F401  parameter class in the registry
from dexstack.control.supervisors.base import Supervisor


class NoSupervisor(Supervisor):
    """The planner alone."""

    def plan(self, observation: Observation, goal_WO: np.ndarray) -> Plan:
        """Return the planner's answer."""
        return self.planner.plan(observation, self.context.nearest(observation.pose_WO, goal_WO))
