"""An emulated hand in a process of its own, and a driver in front of it."""

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dexstack.hand.allegro.bus import CanBus
from dexstack.hand.allegro.protocol import Frame
from dexstack.hand.driver import HandDriver
from dexstack.hand.params import BusParams
from dexstack.hand.servo import ServoParams
from dexstack.model.hand import load_hand

HAND = load_hand("right")
PUSH = np.clip(HAND.home + 0.3, HAND.lower, HAND.upper)
BACK = np.clip(HAND.home - 0.3, HAND.lower, HAND.upper)
SERVO = ServoParams(command_timeout=0.1, hold_timeout=0.3)

SO_RCVBUFFORCE = 33
REAL = ("--dry-friction", "0.02", "--backlash", "0.0175", "--encoder-noise", "0.0002")
"""Arguments of an emulated hand."""


PATIENT = {"guard_timeout": 1.0, "feedback_timeout": 1.0, "answer_timeout": 1.0, "realtime_priority": 0}
"""Parameters of a driver for which a busy machine does not look like a dead hand, nor like a driver
that hangs."""


def until(condition: Callable[[], Any], timeout: float, what: str) -> Any:
    """The first true value of ``condition``."""
    for _ in range(max(1, round(timeout / 0.005))):
        if value := condition():
            return value
        time.sleep(0.005)
    pytest.fail(f"waited {timeout:g} s for {what}")


class HandProcess:
    """An emulated hand in a process of its own, its standard input and its answers."""

    def __init__(self, module: str, channel: str, *arguments: str) -> None:
        command = [sys.executable, "-m", f"dexstack.hand.emulated.{module}", "--channel", channel]
        self.process = subprocess.Popen(
            [*command, "--plant", "hand", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert json.loads(self.process.stdout.readline())["ready"]

    def set(self, **changes: Any) -> dict[str, Any]:
        """Change faults; the hand's state."""
        self.process.stdin.write(json.dumps(changes) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        if self.process.poll() is None:
            assert self.set()["over_limit"] == 0, "a torque above a limit was on the bus"
            self.process.stdin.close()
            assert self.process.wait(10.0) == 0
        self.process.stdout.close()


class Emulator(HandProcess):
    """An emulated Allegro hand on a bus."""

    def __init__(self, bus: BusParams, *arguments: str) -> None:
        super().__init__("allegro", bus.channel, "--interface", bus.interface, *REAL, *arguments)

    def wait_limp(self, start: float) -> None:
        """The motors must lose their torque; how soon after ``start`` depends on what else the
        machine does, and is printed only."""
        state = until(lambda: s if (s := self.set())["limp"] else None, 10.0, "the hand to go limp")
        print(f"limp after {1e3 * (state['limp_since'] - start):.1f} ms")


class Watch(HandDriver):
    """A driver in its thread that can be sent commands at 50 Hz."""

    def push(self, seconds: float, q: np.ndarray = PUSH) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.command(q)
            time.sleep(0.02)


class Tap:
    """Another participant of the bus that records what is said."""

    def __init__(self, bus: BusParams) -> None:
        self._bus = CanBus(bus)
        with contextlib.suppress(
            OSError
        ):  # only root may have a buffer that outlasts any wait for the processor
            self._bus._bus._in.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 25)
        self.frames: list[tuple[float, Frame]] = []

    def listen(self) -> list[tuple[float, Frame]]:
        """All frames so far, with their system time."""
        while (received := self._bus.receive(0.0)) is not None:
            self.frames.append((received[1], received[0]))
        return self.frames

    def close(self) -> None:
        self._bus.close()
