"""A driver in front of emulated LEAP motors in simulated time."""

from typing import Any

import numpy as np
import pytest

from tests.dexstack.hand.stepped import IN_SIMULATED_TIME, Stepped

pytest.importorskip("dynamixel_sdk")

from dexstack.hand.emulated.dynamixel import EmulatedMotors
from dexstack.hand.emulated.leap import SimulatedLine
from dexstack.hand.emulated.plant import WEIGHTLESS, HandPlant
from dexstack.hand.leap.dynamixel_hand import LeapHand
from dexstack.hand.links import wiring_of
from dexstack.hand.params import BusParams, CanHandParams, EmulatedHandParams, MotorParams
from dexstack.hand.servo import ServoLaw, ServoParams
from dexstack.hand.watch import WatchParams
from dexstack.model.hand import load_hand

LEAP = load_hand("leap_right")
TARGET = LEAP.home + np.where(LEAP.home < 0.5 * (LEAP.lower + LEAP.upper), 0.2, -0.2)
"""Away from the nearer limits."""


def line(
    plant: Any = None,
    emulated: dict[str, Any] | None = None,
    motors: MotorParams | None = None,
    **faults: Any,
) -> SimulatedLine:
    """A line in simulated time with motors of which ``faults`` are wrong."""
    hand = EmulatedMotors(motors, EmulatedHandParams(**(emulated or {})))
    on = SimulatedLine(hand, plant or HandPlant(LEAP, WEIGHTLESS))
    on.set(**faults)
    return on


def link(on: SimulatedLine, motors: MotorParams | None = None, **params: Any) -> LeapHand:
    """A driver's link to them."""
    settings = CanHandParams(**{**IN_SIMULATED_TIME, **params})
    return LeapHand(LEAP, BusParams("pty", "/emulated"), settings, motors, on.open)


class Driven(Stepped):
    """A driver of a line with emulated motors."""

    target = back = TARGET

    def __init__(self, on: SimulatedLine, motors: MotorParams | None = None, **params: Any) -> None:
        watch = wiring_of(LEAP).watch(WatchParams())
        super().__init__(on, link(on, motors, **params), ServoLaw(LEAP, ServoParams(), None, watch))

    def off(self) -> bool:
        """Whether the motors lost all torque within 50 ms."""
        self.run(0.05)
        return not self.on.hand.servo
