"""Conversion of a device's stamps to the system's clock."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

WINDOW = 10.0
"""Window of the minimum delay [s]: a drift of 20 ppm is 0.2 ms in it."""
STEP = 0.2
"""Difference above which the device's clock was set, or its delay changed permanently [s]."""
STEP_SAMPLES = 5
"""Consecutive samples required for that."""


class DeviceClock:
    """Map from a device's clock to the system's clock.

    The device's clock is compared with the monotonic one; the least difference in a window is that
    of the sample with the least delay. Steps of the system's clock take effect at once, and drift
    is followed. The least delay cannot be observed and must be given.

    Args:
        monotonic, system: clocks [s], replaced in tests.
        least_delay: least delay of a sample [s].
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
        """Number of times that the device's clock was set."""

    def system_time(self, t: float) -> float:
        """Return the system's time [s] of a sample with the device's stamp ``t`` [s] that arrives
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
