"""A driver in simulated time: no process, no bus, no clock, the same numbers every time."""

from __future__ import annotations

from typing import Any

from dexstack.hand.driver import HandDriver
from dexstack.hand.link import Link
from dexstack.hand.servo import ServoLaw

PERIOD = 0.003
IN_SIMULATED_TIME = {"realtime_priority": 0, "calibration_dir": "/nonexistent"}
"""Parameters of its link."""


class Stepped(HandDriver):
    """A driver that the test turns; used in a with statement, it ends with all limits kept."""

    def __init__(self, on: Any, link: Link, servo: ServoLaw) -> None:
        super().__init__(link, servo)
        self.on = on

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
