"""A computer in simulated time with an emulated hand on its CAN bus, without processes or threads."""

from __future__ import annotations

from collections import deque
from typing import Any

from dexstack.hand.allegro.bus import BusError, BusOffError, CanBus, Computer
from dexstack.hand.allegro.protocol import Frame
from dexstack.hand.emulated.allegro import EmulatedHand
from dexstack.hand.emulated.firmware import SimulatedClocks
from dexstack.hand.params import BusParams


class LockstepComputer(SimulatedClocks, Computer):
    """See the module's docstring.

    Args:
        hand: the firmware of the hand on the bus.
        plant: its plant (:mod:`dexstack.hand.emulated.plant`).
    """

    def __init__(self, hand: EmulatedHand, plant: Any) -> None:
        super().__init__(hand, plant)
        self.trouble: BusError | None = None
        """Raised by every use of a bus."""
        self.heard: list[Frame] | None = None
        """Frames on the bus in both directions; recorded when this is a list."""
        self.buses: list[LockstepBus] = []
        hand.on_bus_off = LockstepBus(self).announce_bus_off

    def open_bus(self, params: BusParams) -> CanBus:
        if self.trouble is not None:
            raise self.trouble
        self.buses.append(LockstepBus(self))
        return self.buses[-1]

    def say(self, frame: Frame) -> None:
        """Put a frame on the bus that the hand does not receive."""
        self._note(frame)
        for bus in self.buses:
            bus.inbox.append((frame, self.system()))

    def _deliver(self) -> None:
        for frame in self.hand.due(self.t, self.plant.joint_position):
            self.say(frame)

    def receive(self, frame: Frame) -> None:
        """Send a frame to the hand."""
        self._note(frame)
        self.hand.receive(frame, self.t)

    def _note(self, frame: Frame) -> None:
        if self.heard is not None:
            self.heard.append(frame)


class LockstepBus(CanBus):
    """A handle of the bus."""

    def __init__(self, computer: LockstepComputer) -> None:
        self.params = BusParams("virtual")
        self._computer = computer
        self.inbox: deque[tuple[Frame, float] | BusError] = deque()

    def send(self, frame: Frame) -> None:
        if self._computer.trouble is not None:
            raise self._computer.trouble
        self._computer.receive(frame)

    def receive(self, timeout: float) -> tuple[Frame, float] | None:
        computer, end = self._computer, self._computer.t + timeout
        while not self.inbox and computer.trouble is None and computer.t < end:
            computer.advance(end)
        if computer.trouble is not None:
            raise computer.trouble
        if not self.inbox:
            return None
        received = self.inbox.popleft()
        if isinstance(received, BusError):
            raise received
        return received

    def announce_bus_off(self) -> None:
        for bus in self._computer.buses:
            bus.inbox.append(BusOffError("the CAN controller went off the bus", "enable again"))

    def pending(self) -> bool:
        return bool(self.inbox)

    def close(self) -> None:
        if self in self._computer.buses:
            self._computer.buses.remove(self)
