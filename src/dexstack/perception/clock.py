"""A device's clock beside ours: when by the system's clock was what it stamped?"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

WINDOW = 10.0
"""Time over which the least delay counts [s]: 20 ppm of drift are 0.2 ms in it."""
STEP = 0.2
"""A device's clock that is off by more than this has been set, or its delay has changed for good
[s]."""
STEP_SAMPLES = 5
"""So many samples in a row must say so."""


class DeviceClock:
    """Stamps of a device on the system's clock.

    The device's clock is compared with the monotonic one, which nobody sets; the least difference
    in a window is that of the sample that was delayed least. A step of the system's clock is
    thereby passed on at once, and drift is followed.

    Nothing of what arrives says how long the least delayed sample was under way: that must be
    known.

    Args:
        monotonic, system: our clocks [s]; simulated ones elsewhere.
        least_delay: of a sample [s].
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        system: Callable[[], float] = time.time,
        least_delay: float = 0.0,
    ) -> None:
        self._monotonic, self._system, self._least_delay = monotonic, system, least_delay
        self._least: deque[tuple[float, float]] = deque()  # (monotonic time, difference), both growing
        self._far: list[tuple[float, float]] = []
        self.steps = 0
        """How often the device's clock was set."""

    def system_time(self, t: float) -> float:
        """The system's time [s] of something that the device stamped ``t`` [s] and that has arrived
        now."""
        now = self._monotonic()
        sample = (now, now - t)
        if self._least and abs(sample[1] - self._least[0][1]) > STEP:
            self._far.append(sample)
            if len(self._far) >= STEP_SAMPLES:
                self.steps += 1
                self._least.clear()
                for far in self._far:
                    self._add(far)
                self._far.clear()
        else:
            self._far.clear()
            self._add(sample)
        return t + self._least[0][1] - self._least_delay + self._system() - now

    def _add(self, sample: tuple[float, float]) -> None:
        while self._least and self._least[-1][1] >= sample[1]:
            self._least.pop()
        self._least.append(sample)
        while self._least[0][0] < sample[0] - WINDOW:
            self._least.popleft()
