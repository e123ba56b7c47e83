"""The controller: from a measurement to a joint target, the same in simulation and in the nodes."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from dexstack.contact.contact import Contacts
from dexstack.contact.detector import ContactDetector
from dexstack.control.base import LocalPlanner, Observation, Plan
from dexstack.control.params import BLIND_PERIOD, BlindParams
from dexstack.control.predictor import MeasuredState, StatePredictor
from dexstack.control.supervisors.base import Supervisor
from dexstack.control.trackers import Tracker


class Measurement(NamedTuple):
    """Input of a controller: an object pose and the newest joint positions, which may be newer."""

    pose_WO: np.ndarray
    """(7,) object pose."""
    q: np.ndarray
    """(N,) joint positions at the time of the pose [rad, m]."""
    now: float
    """Time of the newest joint positions [s]."""
    q_now: np.ndarray
    """(N,) newest joint positions [rad, m]."""
    contacts: Contacts | None = None
    """Contacts at the pose and ``q``; None: to be detected."""
    deviation: tuple[float, float] = (0.0, 0.0)
    """Largest standard deviations of the pose's position [m] and rotation [rad]."""


class Answer(NamedTuple):
    """The controller's answer to a measurement."""

    plan: Plan
    target: np.ndarray | None
    """(N,) joint target to send [rad, m]; None: send nothing."""
    contacts: Contacts
    """At the assumed pose."""
    deviation: tuple[float, float]
    """Largest standard deviations of the assumed pose's position [m] and rotation [rad]."""
    detect_s: float
    """Processor time of tracking and contact detection [s]."""
    cpu_s: float
    """Processor time of tracking, detection, prediction and planning [s]."""


class Controller:
    """Tracks the object, detects contacts, predicts the state to the moment of actuation, plans under
    supervision, slows down where the pose is uncertain, and holds the last target where no measurement
    comes.

    Times are those of the caller's clock; a time that goes back begins a rollout.
    """

    def __init__(
        self,
        detector: ContactDetector,
        predictor: StatePredictor | MeasuredState,
        supervisor: Supervisor,
        tracker: Tracker,
        blind: BlindParams,
        *,
        step: float,
    ) -> None:
        """
        Args:
            step: h, length of a predicted step [s].
        """
        self.detector, self.predictor, self.supervisor = detector, predictor, supervisor
        self.tracker, self.step = tracker, step
        self.tracker.blind = blind
        self.reset()

    @property
    def planner(self) -> LocalPlanner:
        """The supervised planner."""
        return self.supervisor.planner

    @property
    def gravity(self) -> tuple[float, ...]:
        """Gravity (3,) in the world [m/s²]; may change between two answers."""
        return self.planner.gravity

    @gravity.setter
    def gravity(self, gravity: tuple[float, ...]) -> None:
        self.planner.gravity = self.predictor.gravity = gravity

    def warm_up(self) -> float:
        """Compile planner and detector; return the seconds that the planner took."""
        seconds = self.planner.warm_up()
        robot = self.planner.robot
        # Last, so that in a graph the contact detector's node has compiled the same one meanwhile.
        self.detector.detect(np.array([0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0]), np.asarray(robot.home))
        return seconds

    def reset(self) -> None:
        """Begin a rollout: discard warm start, progress and the held target."""
        self.supervisor.reset()
        self.tracker.reset()
        self._target: np.ndarray | None = None
        self._observed_at = self._sent_at = -np.inf
        self.speed = 1.0
        """Share of the planned displacement that the last command covers, smaller with growing uncertainty
        of the pose (:meth:`~dexstack.control.params.BlindParams.speed`); 0 while holding."""

    def answer(self, seen: Measurement, goal_WO: np.ndarray) -> Answer:
        """Plan from a measurement towards the goal pose (7,)."""
        if seen.now < self._observed_at:
            self.reset()
        self._observed_at = seen.now
        begin = time.process_time()
        pose_WO, deviation, contacts = self.tracker.track(seen.now, seen.pose_WO, seen.q, seen.deviation)
        if pose_WO is seen.pose_WO:
            contacts = seen.contacts
        if contacts is None:
            contacts = self.detector.detect(pose_WO, seen.q)
        detected = time.process_time() - begin
        observation = Observation(seen.now, pose_WO, seen.q, contacts)
        self.speed = self.supervisor.speed = self.tracker.blind.speed(deviation)
        observation = self.predictor.predict(observation, seen.q_now, seen.now)
        prepared = time.process_time() - begin
        plan = self.supervisor.plan(observation, goal_WO)
        return Answer(plan, self._slowed(plan, seen), contacts, deviation, detected, prepared + plan.cpu_s)

    def _slowed(self, plan: Plan, seen: Measurement) -> np.ndarray | None:
        """Return the target that the certainty of the pose allows: from the last one, or the present
        joint positions, a share of the way to the plan's."""
        if not plan.status.usable:
            return None
        target = plan.q_des
        if self.speed < 1.0:
            last = seen.q_now if self._target is None else self._target
            target = last + self.speed * (plan.q_des - last)
        self._target, self._sent_at = target, seen.now
        self.predictor.sent(seen.now, target)
        return target

    def hold(self, now: float) -> np.ndarray | None:
        """Return the last target (N,) if it is due again at time ``now`` [s]; None: send nothing.

        It is due every BLIND_PERIOD from BLIND_AFTER to ``blind_hold`` after the last measurement.
        """
        due = now >= self._sent_at + BLIND_PERIOD and self.tracker.blind.hold(now - self._observed_at)
        if self._target is None or not due:
            return None
        self._sent_at, self.speed = now, 0.0
        return self._target
