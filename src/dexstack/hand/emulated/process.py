"""An emulated hand in a process of its own, which stands for a separate device."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from dexstack.hand.links import wiring_of
from dexstack.hand.params import BusParams
from dexstack.model.hand import HandModel

ENCODER_NOISE = 0.0002
"""Encoder noise of the emulated hand, two counts [rad]; without it a blocked joint looks dead."""
_count = itertools.count()


def own_bus(hand: HandModel) -> BusParams:
    """Return a bus in real time that no other process uses.

    Raises:
        ConfigError: there is no driver for the hand's family.
    """
    interface, pid, number = wiring_of(hand).emulated, os.getpid(), next(_count)
    if interface == "pty":
        return BusParams(interface, f"{tempfile.gettempdir()}/dexstack-{pid}-{number}")
    return BusParams(interface, f"239.75.{pid >> 8 & 255}.{pid & 255}:{6400 + number}")


class EmulatedHandProcess:
    """An emulated hand in its own process; a context manager.

    Args:
        bus: the bus to join, of a LEAP hand a pseudo-terminal.
        arguments: further arguments of ``python -m dexstack.hand.emulated.allegro`` or ``.leap``.
    """

    def __init__(self, bus: BusParams, *arguments: str) -> None:
        family = "leap" if bus.interface == "pty" else "allegro"
        command = [sys.executable, "-m", f"dexstack.hand.emulated.{family}"]
        command += ["--interface", bus.interface, "--channel", bus.channel, *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._read()

    def set(self, **changes: Any) -> dict[str, Any]:
        """Change faults of the hand; return its state."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(changes) + "\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait(10.0)
            self.process.stdout.close()

    def __enter__(self) -> EmulatedHandProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
