"""Interface of supervisors, which watch a planner and take over where it alone would get stuck."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dexstack.control.base import LocalPlanner, Observation, Plan

if TYPE_CHECKING:
    from dexstack.contact.detector import ContactDetector
    from dexstack.model.objects import ObjectModel
    from dexstack.model.robot import Robot


class PlanningContext(NamedTuple):
    """The planner that a supervisor watches, and the rest of what it may use."""

    planner: LocalPlanner
    detector: ContactDetector
    robot: Robot
    obj: ObjectModel
    rest: np.ndarray
    """(N,) joint positions at the start [rad, m]."""
    error: Callable[[np.ndarray, np.ndarray], float]
    """(object pose (7,), goal pose (7,)) → orientation error of the task [rad]."""
    nearest: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """(object pose (7,), goal pose (7,)) → the pose (7,) that requires the smallest turn among those
    that look like the goal; the planner gets this one."""
    release: Callable[[Any], Any]
    """Weights of the cost → weights that do not attract the robot to the object."""


class Supervisor(abc.ABC):
    """Supervises one rollout of a planner, from :meth:`reset` to the next."""

    params: Any = None
    """Parameter block; may be replaced between two plans."""
    speed = 1.0
    """Share of the planned displacement that a command covers; times without progress are measured
    for 1."""
    stalls = 0
    """Number of times that this rollout got stuck and was freed."""

    def __init__(self, context: PlanningContext, params: Any = None) -> None:
        self.context, self.planner, self.params = context, context.planner, params

    def reset(self) -> None:
        """Begin a rollout."""
        self.planner.reset()
        self.stalls = 0

    @abc.abstractmethod
    def plan(self, observation: Observation, goal_WO: np.ndarray) -> Plan:
        """Return a command for the observed state; another goal (7,) than before is the next one of
        the same rollout.

        Ask a fork of the planner for hypothetical plans: the planner's own warm start and held
        command belong to the rollout.
        """
