"""A driver in simulated time: no process, no bus, no clock, the same numbers every time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dexstack.hand.driver import HandDriver, Turn
from dexstack.hand.emulated.plant import HandPlantParams
from dexstack.hand.link import FaultKind, Link
from dexstack.hand.servo import ServoLaw, ServoMode

PERIOD = 0.003
COMMAND_PERIOD = 0.02
IN_SIMULATED_TIME = {"realtime_priority": 0, "calibration_dir": "/nonexistent"}
"""Parameters of its link."""
REAL = HandPlantParams(dry_friction=0.02, backlash=np.radians(1.0))
"""The plant of its hand, with weight."""


class Stepped(HandDriver):
    """A driver that the test turns; used in a with statement, it ends with all limits kept.

    It remembers its turns and the joint angles of the plant.
    """

    target: np.ndarray
    """Where the test pushes the joints."""
    back: np.ndarray
    """Where it pushes them after a fault."""

    def __init__(self, on: Any, link: Link, servo: ServoLaw) -> None:
        super().__init__(link, servo)
        self.on = on
        self.turns: list[Turn] = []
        self.travelled: list[np.ndarray] = []

    def __enter__(self) -> Stepped:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        assert self.on.hand.over_limit == 0, "a torque above its limit was sent"

    def run(self, seconds: float, until: Callable[[], Any] = lambda: False) -> bool:
        """Turn for a while, or until something is true; return whether it was."""
        end = self.on.t + seconds
        while self.on.t < end - 1e-9 and not until():
            turn = self.turn(PERIOD)
            if turn is not None:
                self.turns.append(turn)
            self.travelled.append(self.on.plant.joint_position.copy())
        return bool(until())

    def push(self, seconds: float, q: Any = None, stamp: Callable[[], float | None] = lambda: None) -> None:
        """The same with 50 commands per second."""
        end = self.on.t + seconds
        while self.on.t < end - 1e-9:
            self.command(self.target if q is None else q, stamp())
            self.run(min(COMMAND_PERIOD, end - self.on.t))

    def wait_fault(self, kind: FaultKind) -> None:
        """The fault must come within 2 s of pushing."""
        end = self.on.t + 2.0
        while self.fault is None and self.on.t < end:
            self.push(COMMAND_PERIOD)
        assert self.fault is not None, "no fault"
        assert self.fault.kind is kind and str(self.fault) and self.fault.remedy, f"{self.fault.kind}"

    def recover(self) -> None:
        """On request, and with a new command only."""
        self.enable()
        assert self.fault is None and self.on.hand.servo and self.on.set()["limp"], "enabled, no command"
        self.push(0.15, self.back)
        assert self.fault is None and self.servo.mode is ServoMode.TRACK and not self.on.set()["limp"]
