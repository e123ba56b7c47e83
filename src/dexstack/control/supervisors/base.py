"""A supervisor stands around a planner: it watches how a rollout goes and takes over where the
planner alone would get stuck."""

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


class GuardedScene(NamedTuple):
    """What a supervisor knows of the scene."""

    robot: Robot
    obj: ObjectModel
    rest: np.ndarray
    """(N,) joint positions at the start."""


class Guarded(NamedTuple):
    """The planner, and what else a supervisor may ask."""

    planner: LocalPlanner
    detector: ContactDetector
    scene: GuardedScene
    measure: Callable[[np.ndarray, np.ndarray], float]
    """How far an object pose (7,) is from a goal pose (7,): the task's orientation error [rad]."""
    nearest: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """Of all poses that look like a goal (7,), the one that an object at a pose (7,) has least to
    turn to: what the planner is shown."""
    release: Callable[[Any], Any]
    """Makes, of a cost's weights, those with which nothing draws the robot to the object."""


class Supervisor(abc.ABC):
    """One rollout of a planner, from :meth:`reset` to the next; the interface that the loop and the
    node call."""

    params: Any = None
    """Its parameter block; may be replaced between two plans."""
    stalls = 0
    """How often this rollout got stuck and was freed."""

    def __init__(self, planner: LocalPlanner) -> None:
        self.planner = planner

    def reset(self) -> None:
        """Begin a rollout."""
        self.planner.reset()
        self.stalls = 0

    @abc.abstractmethod
    def plan(self, observation: Observation, goal_WO: np.ndarray) -> Plan:
        """A command for the state observed; a goal (7,) other than the last one asks for the next
        thing in the same rollout.

        The planner is asked what it does from here; its warm start and the command it holds are
        never used for hypothetical questions, which go to a fork.
        """
