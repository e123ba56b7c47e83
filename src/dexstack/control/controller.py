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
    """At the measured pose."""
    detect_s: float
    """Processor time of contact detection [s]."""
    cpu_s: float
    """Processor time of detection, prediction and planning [s]."""


class Controller:
    """Detects contacts, predicts the state to the moment of actuation, plans under supervision,
    slows down where the pose is uncertain, and holds the last target where no measurement comes.

    Times are those of the caller's clock; a time that goes back begins a rollout.
    """

    def __init__(
        self,
        detector: ContactDetector,
        predictor: StatePredictor | MeasuredState,
        supervisor: Supervisor,
        blind: BlindParams,
        *,
        step: float,
    ) -> None:
        """
        Args:
            step: h, length of a predicted step [s].
        """
        self.detector, self.predictor, self.supervisor = detector, predictor, supervisor
        self.blind, self.step = blind, step
        self.reset()

    @property
    def planner(self) -> LocalPlanner:
        """The supervised planner."""
        return self.supervisor.planner

    @property
    def speed(self) -> float:
        """Fraction of the planned displacement that the last command covers, from 1 to 0 with
        growing uncertainty of the pose; 0 while holding."""
        return self._speed

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
        self._target: np.ndarray | None = None
        self._observed_at = self._sent_at = -np.inf
        self._speed = 1.0

    def answer(self, seen: Measurement, goal_WO: np.ndarray) -> Answer:
        """Plan from a measurement towards the goal pose (7,)."""
        if seen.now < self._observed_at:
            self.reset()
        self._observed_at = seen.now
        begin = time.process_time()
        contacts = self.detector.detect(seen.pose_WO, seen.q) if seen.contacts is None else seen.contacts
        detected = time.process_time() - begin
        observation = Observation(seen.now, seen.pose_WO, seen.q, contacts)
        observation = self.predictor.predict(observation, seen.q_now, seen.now)
        prepared = time.process_time() - begin
        plan = self.supervisor.plan(observation, goal_WO)
        return Answer(plan, self._slowed(plan, seen), contacts, detected, prepared + plan.cpu_s)

    def _slowed(self, plan: Plan, seen: Measurement) -> np.ndarray | None:
        """Return the target that the certainty of the pose allows; a motion does not begin in
        doubt."""
        if not plan.status.usable:
            return None
        position, rotation = seen.deviation
        doubt = max(position / self.blind.blind_position, rotation / self.blind.blind_rotation)
        self._speed = min(1.0, 2.0 * max(0.0, 1.0 - doubt))
        if self._target is None and self._speed < 1.0:
            return None
        if self._target is None or self._speed == 1.0:
            target = plan.q_des
        else:
            target = self._target + self._speed * (plan.q_des - self._target)
        self._target, self._sent_at = target, seen.now
        self.predictor.sent(seen.now, target)
        return target

    def hold(self, now: float) -> np.ndarray | None:
        """Return the last target (N,) if it is due again at time ``now`` [s]; None: send nothing.

        It is due every BLIND_PERIOD from BLIND_AFTER to ``blind_hold`` after the last measurement.
        """
        due = now >= self._sent_at + BLIND_PERIOD and self.blind.hold(now - self._observed_at)
        if self._target is None or not due:
            return None
        self._sent_at, self._speed = now, 0.0
        return self._target
