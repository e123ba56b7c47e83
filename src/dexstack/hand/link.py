"""What a driver needs of a hand, whatever is between the two: feedback, torques, and faults that
say what mends them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np


class FaultKind(StrEnum):
    """Why the servo is off."""

    NO_ANSWER = "no_answer"
    WRONG_HAND = "wrong_hand"
    OVER_TEMPERATURE = "over_temperature"
    COMMUNICATION = "internal_communication"
    FEEDBACK_LOST = "feedback_lost"
    FINGER_LOST = "finger_lost"
    SERVO_OFF = "servo_off"
    BUS = "bus"
    BUS_OFF = "bus_off"
    GUARD = "guard"
    STOPPED = "stopped"
    LATE = "late"
    FRAMES_LOST = "frames_lost"
    TEMPERATURE = "temperature"
    MOTOR = "motor"
    RUNAWAY = "runaway"
    FROZEN_ENCODER = "frozen_encoder"
    ENCODER = "encoder"
    OVERSPEED = "overspeed"
    OSCILLATION = "oscillation"
    FOLLOWING_ERROR = "following_error"


class HandFault(Exception):
    """The hand cannot be driven (any more); its servo is off, or was told so."""

    def __init__(self, kind: FaultKind, text: str, mend: str = "") -> None:
        super().__init__(text)
        self.kind = kind
        self.mend = mend


def never() -> bool:
    """Nobody wants to stop."""
    return False


class Feedback(NamedTuple):
    """One complete set of joint angles."""

    t: float
    """Time on the clock of the servo [s]."""
    stamp: float
    """Time on the clock of everybody else [s]: the system's for a hand on a bus."""
    q: np.ndarray
    """(16,) [rad]"""


@runtime_checkable
class Link(Protocol):
    """How a driver reaches a hand: those of :mod:`dexstack.hand.links`, or the topics of a
    simulated one."""

    def ready(self) -> None:
        """Find the hand and let it say where its joints are, without torque. Raises HandFault."""

    def start(self, abandon: Callable[[], bool] = never) -> None:
        """Make the hand ready to be driven, with zero torque; give up when ``abandon()``. Raises
        HandFault."""

    def read(self, timeout: float) -> Feedback | None:
        """The newest feedback, None after ``timeout`` [s] without any. Raises HandFault."""

    def write(self, tau: np.ndarray) -> None:
        """Send joint torques (N,) [N·m] in answer to the newest feedback. Raises HandFault."""

    def servo_off(self) -> None:
        """Zero torque, at once; never raises."""

    def close(self) -> None:
        """Leave the hand limp; never raises."""

    def from_stamp(self, stamp: float) -> float:
        """Time on the clock of the feedback of a stamp that others wrote [s]."""

    def status(self) -> dict[str, Any]:
        """For diagnostics."""


@runtime_checkable
class BusLink(Link, Protocol):
    """A link to a hand on a bus, layer by layer, as ``dexstack diagnose`` and ``calibrate`` go
    through them."""

    bus: Any
    """Where it is."""
    computer: Any
    """The clocks that go with it, ``monotonic()`` and ``system()`` [s]; with the ``plant`` behind
    an emulated hand in simulated time."""
    side: str
    serial: str
    """What its calibration and commissioning are kept by."""
    offsets: np.ndarray
    """Zero offsets (16,) [rad]."""
    period: float
    """Time between two sets of joint angles [s]."""
    rad_per_count: float
    """Resolution of the joint angles [rad]."""
    sets: int
    missed: int
    arrival: float
    """System time of the newest set [s]."""
    mend_stream: str
    """What mends a bus that loses sets."""

    def open(self) -> None:
        """Open the bus; nothing moves. Raises HandFault."""

    def identify(self) -> tuple[Any, str]:
        """Servo off; what the hand says about itself, and its serial number. Raises HandFault."""

    def introduction(self) -> str:
        """Who the hand is and that it is well, after :meth:`identify`. Raises HandFault."""

    def stream(self) -> None:
        """Wait for the first complete set of joint angles; the servo stays off. Raises
        HandFault."""
