"""A driver in front of an emulated hand in simulated time: no process, no bus, no clock, the same numbers every time."""

from __future__ import annotations

from typing import Any

import numpy as np
from emulated import HAND

from dexstack.hand import protocol
from dexstack.hand.driver import HandDriver
from dexstack.hand.emulator import EmulatedHand, StandingPlant
from dexstack.hand.link import Feedback
from dexstack.hand.params import FaultParams
from dexstack.hand.protocol import FINGERS, JOINTS, Command, split_id
from dexstack.hand.servo import ServoLaw, ServoParams

PERIOD = 0.003


class WiredLink:
    """Frames of an emulated hand in and out, 3 ms a turn; see :class:`dexstack.hand.link.Link`."""

    def __init__(self, faults: FaultParams | None = None, plant: Any = None) -> None:
        self.hand = EmulatedHand()
        self.hand.faults = faults or FaultParams()
        self.plant = plant or StandingPlant(HAND.home, HAND.lower, HAND.upper)
        self.t = 0.0
        self.on = False
        self.travelled: list[np.ndarray] = []

    def ready(self) -> None:
        self.hand.receive(protocol.set_period(3), self.t)

    def start(self, abandon: Any = None) -> None:
        self.ready()
        self.hand.receive(protocol.servo_on(), self.t)
        self.on = self.hand.servo

    def read(self, timeout: float) -> Feedback:
        for _ in range(max(1, round(PERIOD / self.plant.dt))):
            self.plant.step(self.hand.torque)
        self.travelled.append(self.plant.joint_position.copy())
        self.t += PERIOD
        counts = np.zeros(JOINTS)
        for frame in self.hand.due(self.t, self.plant.joint_position):
            command = split_id(frame.id)[0]
            if Command.POSITION <= command < Command.POSITION + FINGERS:
                counts[4 * (command - Command.POSITION) :][:4] = protocol.read_four(frame.data)
        return Feedback(self.t, self.t, self.hand.hardware.counts_to_angle(counts))

    def write(self, tau: np.ndarray) -> None:
        if self.on:
            values = self.hand.hardware.torque_to_counts(tau).tolist()
            for finger in range(FINGERS):
                self.hand.receive(protocol.set_torque(finger, values[4 * finger : 4 * finger + 4]), self.t)

    def servo_off(self) -> None:
        self.write(np.zeros(JOINTS))
        self.hand.receive(protocol.servo_off(), self.t)
        self.on = False

    close = servo_off

    def from_stamp(self, stamp: float) -> float:
        return stamp

    def status(self) -> dict[str, Any]:
        return {}


class Wired:
    """A started driver at default parameters in front of such a hand."""

    def __init__(self, faults: FaultParams | None = None, plant: Any = None, gravity: Any = None) -> None:
        self.link = WiredLink(faults, plant)
        self.driver = HandDriver(self.link, ServoLaw(HAND, ServoParams(), gravity))
        self.driver.start()
        self.low = self.high = self.link.plant.joint_position.copy()

    def follow(self, targets: Any, seconds: float) -> bool:
        """Command ``targets(t)`` (16,) [rad] for a while; True as soon as there is a fault."""
        for _ in range(round(seconds / PERIOD)):
            target = np.clip(targets(self.link.t), HAND.lower, HAND.upper)
            self.low, self.high = np.minimum(self.low, target), np.maximum(self.high, target)
            self.driver.command(target, self.link.t)
            self.driver.turn(0.0)
            if self.driver.fault is not None:
                return True
        return False

    @property
    def excursion(self) -> float:
        """How far any joint left the span of its start and its targets [rad]."""
        q = np.array(self.link.travelled)
        return float(max((self.low - q.min(axis=0)).max(), (q.max(axis=0) - self.high).max()))
