"""Shared parts of all emulated hands: firmware with faults of encoders and bus, delayed messages and a
record of torques; and clocks in simulated time."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from dexstack.config import make_params
from dexstack.hand.link import Clocks
from dexstack.hand.params import EmulatedHandParams, FaultParams

BOOTED, EPOCH = 1e3, 1.7e9
"""Monotonic and system time at the start of simulated clocks [s]."""


class Firmware:
    """Emulated firmware without input or output.

    Args:
        params: identity and zero offsets.
        seed: of jitter, noise and loss.
    """

    def __init__(self, params: EmulatedHandParams | None, seed: int) -> None:
        self.params = params or EmulatedHandParams()
        self.faults = FaultParams()
        self._offsets = np.array(self.params.zero_offsets)
        self._rng = np.random.default_rng(seed)
        self._queue: list[tuple[float, int, Any]] = []
        self._sequence = itertools.count()
        self.over_limit = 0
        """Torques beyond a limit since construction; must stay 0."""
        self.torque_frames = self.sets = 0
        self.largest = 0.0
        """Largest commanded torque as a share of its limit."""
        self.limp_since: float | None = None
        """When the motors last lost their torque [s]; None while they have some."""

    def power_cycle(self, t: float = 0.0) -> None:
        """Return to the state after the power came back at time ``t`` [s]: no torque."""
        self._queue.clear()
        self.limp_since = t

    def change(self, changes: Mapping[str, Any], t: float) -> None:
        """Change some of the faults at time ``t`` [s], by the names of :class:`FaultParams`;
        ``power_cycle`` switches the hand off and on. Raises ConfigError for an invalid fault."""
        faults = dict(changes)
        if faults.pop("power_cycle", False):
            self.power_cycle(t)
        self.inject(self._changed(self.faults, faults))

    def inject(self, faults: Any) -> None:
        """Replace the faults; those of another kind of hand are ignored."""
        if isinstance(faults, FaultParams):
            self.faults = faults

    @staticmethod
    def _changed(block: Any, changes: Mapping[str, Any]) -> Any:
        return make_params(type(block), {**dataclasses.asdict(block), **changes})

    def _angles(self, q: np.ndarray, order: tuple[int, ...] = ()) -> np.ndarray:
        """Return the angles (16,) [rad] that the encoders read of the joints at ``q``, those of the
        fingers in this order."""
        f = self.faults
        angles = (q + self._offsets) * f.encoder_gain
        if order:
            angles = angles.reshape(len(order), -1)[list(order)].ravel()
        if f.encoder_noise:
            angles = angles + f.encoder_noise * self._rng.standard_normal(angles.size)
        if f.leap_joint >= 0:
            angles[f.leap_joint] += f.encoder_leap
        return angles

    def _note_torque(self, share: float) -> None:
        self.over_limit += share > 1.0 + 1e-9
        self.largest = max(self.largest, share)

    def _note_limp(self, pushes: bool, t: float) -> None:
        if pushes:
            self.limp_since = None
        elif self.limp_since is None:
            self.limp_since = t

    def _send(self, message: Any, t: float) -> None:
        """Queue a message; latency and jitter delay it."""
        f = self.faults
        at = t + f.latency + (f.jitter * self._rng.random() if f.jitter else 0.0)
        heapq.heappush(self._queue, (at, next(self._sequence), message))

    def _sent(self, t: float) -> list[Any]:
        """Return the queued messages that are on the bus by time ``t`` [s]."""
        out = []
        while self._queue and self._queue[0][0] <= t + 1e-9:
            out.append(heapq.heappop(self._queue)[2])
        return [] if self.faults.bus_off else out

    def _happens(self, share: float) -> bool:
        return share > 0.0 and self._rng.random() < share

    def state(self) -> dict[str, Any]:
        """Return values for tests and diagnostics."""
        return {
            "limp": self.limp_since is not None,
            "limp_since": self.limp_since,
            "sets": self.sets,
            "torque_frames": self.torque_frames,
            "over_limit": self.over_limit,
            "largest": self.largest,
        }


class SimulatedClocks(Clocks):
    """Clocks in simulated time, which advances only while the driver waits or sleeps.

    Every run gives the same result to the last bit, independent of the load of the machine, and is
    faster than real time.

    Args:
        hand: the firmware.
        plant: its plant (:mod:`dexstack.hand.emulated.plant`).
    """

    def __init__(self, hand: Any, plant: Any) -> None:
        self.hand, self.plant = hand, plant
        self.t = BOOTED
        self.system_offset = EPOCH - BOOTED
        """System time minus monotonic time [s]."""
        self._steps = 0

    def monotonic(self) -> float:
        return self.t

    def system(self) -> float:
        return self.t + self.system_offset

    def sleep(self, seconds: float) -> None:
        end = self.t + seconds
        while self.t < end:
            self.advance(end)

    def set(self, **changes: Any) -> dict[str, Any]:
        """Change faults of the hand; return its state."""
        self.hand.change(changes, self.t)
        return {**self.hand.state(), "time": self.t}

    def advance(self, until: float) -> None:
        """Advance to ``until`` [s], or to the next event before that."""
        step = BOOTED + (self._steps + 1) * self.plant.dt
        self.t = max(self.t, min(until, step, self.hand.next_due(self.t)))
        if self.t >= step:
            self._steps += 1
            self.plant.step(self.hand.torque)
        self._deliver()

    def _deliver(self) -> None:
        """Put on the bus or line what the hand has sent by now."""
        raise NotImplementedError
