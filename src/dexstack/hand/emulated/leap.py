"""Emulated LEAP hands on a line: a pseudo-terminal in real time, and a line in simulated time.

As a program it is a hand in a process of its own; lines of JSON on standard input change its
faults, and each is answered by its state::

    python -m dexstack.hand.emulated.leap --hand leap_right --interface pty --channel /tmp/leap
    {"missing_motor": 2}                {"corrupt": 0.2}             {"power_cycle": true}
    {}
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import tty
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dexstack.errors import ConfigError
from dexstack.hand.emulated.dynamixel import EmulatedMotors
from dexstack.hand.emulated.firmware import SimulatedClocks
from dexstack.hand.emulated.plant import run_program, start_arguments
from dexstack.hand.leap.line import BITS, Line, LineError
from dexstack.hand.params import BusParams, EmulatedHandParams, FaultParams, MotorFaultParams, MotorParams


class PtyLoop:
    """Emulated motors between a pseudo-terminal and a plant.

    Args:
        hand: the firmware.
        path: a link to the terminal; one that exists is replaced.

    Raises:
        ConfigError: it cannot be made.
    """

    def __init__(self, hand: EmulatedMotors, path: str) -> None:
        self.hand = hand
        self._path = path
        self._file, self._end = os.openpty()  # the second handle keeps it open without a driver
        tty.setraw(self._end)
        os.set_blocking(self._file, False)
        try:
            if os.path.islink(path):
                os.unlink(path)
            os.symlink(os.ttyname(self._end), path)
        except OSError as error:
            self.close()
            raise ConfigError(f"cannot make the terminal {path}: {error.strerror}") from None

    def run_until(self, t: float, now: Callable[[], float], q: np.ndarray) -> None:
        """Serve the terminal until ``now()`` reaches ``t`` [s], with the joints at ``q`` (16,)
        [rad]."""
        self.hand.q = np.array(q)
        while True:
            time_now = now()
            if out := self.hand.due(time_now):
                with contextlib.suppress(BlockingIOError):  # unread bytes are lost, as on a line
                    os.write(self._file, out)
            wait = max(0.0, min(t, self.hand.next_due(time_now)) - time_now)
            if select.select([self._file], [], [], wait)[0]:
                self.hand.receive(os.read(self._file, 4096), now())
            elif time_now >= t:
                return

    def close(self) -> None:
        """Never raises."""
        for file in (self._file, self._end):
            with contextlib.suppress(OSError):
                os.close(file)
        with contextlib.suppress(OSError):
            if os.path.islink(self._path) and not os.path.exists(self._path):
                os.unlink(self._path)


class SimulatedLine(SimulatedClocks, Line):
    """A line in simulated time with emulated motors at its end.

    Args:
        hand: the firmware.
        plant: its plant (:mod:`dexstack.hand.emulated.plant`).
    """

    def __init__(self, hand: EmulatedMotors, plant: Any) -> None:
        SimulatedClocks.__init__(self, hand, plant)
        Line.__init__(self, "emulated", 4_000_000, 0.0)
        self.trouble: LineError | None = None
        """Raised by every use of the line."""
        self.serial_number = "EMULATED"
        self._inbox: deque[int] = deque()
        hand.q = plant.joint_position

    def open(self, bus: BusParams, motors: MotorParams, patience: float) -> SimulatedLine:
        """Return the line, for a driver that opens one."""
        if self.trouble is not None:
            raise self.trouble
        self._seconds_per_byte, self.patience, self.is_using = BITS / motors.baud_rate, patience, False
        return self

    def clearPort(self) -> None:
        self._inbox.clear()

    def writePort(self, data: Sequence[int]) -> int:
        self._check()
        self.sleep(len(data) * self._seconds_per_byte)
        self.hand.receive(bytes(data), self.t)
        return len(data)

    def readPort(self, length: int) -> bytes:
        self._check()
        while not self._inbox and self.t < self._deadline:
            self.advance(self._deadline)
            self._check()
        return bytes(self._inbox.popleft() for _ in range(min(length, len(self._inbox))))

    def _check(self) -> None:
        if self.trouble is not None:
            raise self.trouble

    def _deliver(self) -> None:
        self.hand.q = self.plant.joint_position
        self._inbox.extend(self.hand.due(self.t))


def from_arguments(argv: Sequence[str] | None) -> tuple[EmulatedMotors, Any, BusParams]:
    """Return emulated motors, their plant and their line from the arguments of the program.

    Raises:
        ConfigError: invalid arguments.
    """
    blocks = (BusParams, MotorParams, EmulatedHandParams, FaultParams, MotorFaultParams)
    (bus, motors, params, faults, wrong), _, plant = start_arguments("leap", "leap_right", blocks, argv)
    hand = EmulatedMotors(motors, params)
    hand.inject(faults)
    hand.inject(wrong)
    return hand, plant, BusParams("pty", bus.channel)


def main(argv: list[str] | None = None) -> int:
    return run_program(
        lambda: from_arguments(argv),
        lambda hand, bus: PtyLoop(hand, bus.where),
        lambda hand, bus: {"bus": bus.where},
    )


if __name__ == "__main__":
    sys.exit(main())
