"""Interface between a driver and a hand, independent of what connects the two: feedback, torques,
and faults that name their remedy."""

from __future__ import annotations

import time
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
    """The hand cannot be driven; its servo is off, or has been commanded off."""

    def __init__(self, kind: FaultKind, text: str, remedy: str = "") -> None:
        super().__init__(text)
        self.kind = kind
        self.remedy = remedy
        """Remedy: a command or an action."""

    @property
    def advice(self) -> str:
        """The fault and its remedy in one line."""
        return f"{self}. Remedy: {self.remedy}"


class TransportError(Exception):
    """A bus or a serial line cannot be used."""

    fault_kind = FaultKind.BUS
    lost = True
    """The handle is useless and has to be opened again."""

    def __init__(self, text: str, remedy: str = "") -> None:
        super().__init__(text)
        self.remedy = remedy
        """Remedy: a command or an action."""

    def fault(self) -> HandFault:
        return HandFault(self.fault_kind, str(self), self.remedy)


class Clocks:
    """The clocks of this computer."""

    def monotonic(self) -> float:
        """Return the time on a clock that is never set [s]."""
        return time.monotonic()

    def system(self) -> float:
        """Return the system's time, which also stamps frames on a bus [s]."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def never() -> bool:
    """Default of ``abandon``."""
    return False


class Feedback(NamedTuple):
    """One complete set of joint angles."""

    t: float
    """Time on the clock of the servo [s]."""
    stamp: float
    """Time on the clock of the graph [s]: the system's for a hand on a bus."""
    q: np.ndarray
    """(16,) [rad]"""


@runtime_checkable
class Link(Protocol):
    """Connection of a driver to a hand: those of :mod:`dexstack.hand.links`, or the topics of a
    simulated one."""

    def ready(self) -> None:
        """Find the hand and start its joint angles, without torque. Raises HandFault."""

    def start(self, abandon: Callable[[], bool] = never) -> None:
        """Prepare the hand for torques, with zero torque; give up when ``abandon()``. Raises
        HandFault."""

    def read(self, timeout: float) -> Feedback | None:
        """Return the newest feedback, None after ``timeout`` [s] without any. Raises HandFault."""

    def write(self, tau: np.ndarray) -> None:
        """Send joint torques (N,) [N·m] in answer to the newest feedback. Raises HandFault."""

    def servo_off(self) -> None:
        """Set zero torque at once; never raises."""

    def close(self) -> None:
        """Leave the hand limp; never raises."""

    def from_stamp(self, stamp: float) -> float:
        """Convert a stamp on the clock of the graph to the clock of the feedback [s]."""

    def status(self) -> dict[str, Any]:
        """Return values for diagnostics."""
