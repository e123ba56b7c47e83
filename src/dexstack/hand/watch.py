"""Does the hand do what its torques should make it do? What a servo can tell from joint angles and torques alone.

A joint that is wired wrongly, whose encoder died or leapt, or that moves faster than any joint can, must lose its torque before it has gone
far. :class:`MotionWatch` looks at every tick; what it finds is a :class:`Trip`, and a trip is final: only a person's consent undoes it.

======================  =======================================================================================================
trip                    when
======================  =======================================================================================================
``runaway``             a joint moves against its own torque by more than ``doubtful_runaway``, and just as its torque turned round, or
                        that of the same joint of another finger, would move it; or against its own torque by more than ``runaway``
``frozen_encoder``      an angle stays the same to the last count while the joint's torque changes
``encoder``             ``bad_in_row`` angles in a row were impossible: not numbers, far outside the limits, or a leap that lasts
``overspeed``           faster than ``overspeed``
``oscillation``         a joint trembles: its path in ``tremble_time`` is longer than its way by more than ``tremble``
``following_error``     a target is farther than ``following_error`` from its joint for ``following_time``
======================  =======================================================================================================

A joint that something else pushes back moves against its torque, too. What tells the two apart is the correlation of speed and torque since
the motion began: -1 for a joint that is wired wrongly; docs/hand.md says what was seen of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from dexstack.config import param

EXPLAINED = 0.97
"""Correlation of speed and torque from which a wrong wire explains a motion."""
NO_TORQUE = 0.003
"""A smaller torque has no direction [N·m]."""
FROZEN_TORQUE = 0.03
"""Change of torque that moves any encoder by a count [N·m]."""
AT_STOP = 0.02
"""A joint this near to a limit may stand still under any torque that pushes it there [rad]."""
FINGER = 4
"""Joints of a finger."""


@dataclass(frozen=True)
class WatchParams:
    """Limits of the watch over the joints' motion."""

    runaway: float = param(1.0, "a joint that moves so far against its own torque has run away [rad]", 0.01, 3.2)
    doubtful_runaway: float = param(0.035, "the same for a motion that a wrong wire explains [rad]", 0.005, 0.6)
    overspeed: float = param(15.0, "no joint moves faster than this by itself [rad/s]", 0.5, 100.0)
    following_error: float = param(0.5, "largest lasting distance of a joint from its target [rad]", 0.05, 3.2)
    following_time: float = param(0.5, "for how long a joint may be farther from its target than that [s]", 0.02, 10.0)
    tremble: float = param(0.12, "largest path of a joint beyond its way within tremble_time [rad]", 0.01, 3.2)
    tremble_time: float = param(0.06, "time over which trembling is measured [s]", 0.02, 1.0)
    frozen_ticks: int = param(20, "an encoder that says the same so many times, while the torque changes, is dead", 3, 1_000_000)
    bad_in_row: int = param(3, "so many impossible measurements in a row are a fault", 1, 20)


class TripKind(StrEnum):
    """What a hand did that it must not do; see the module's docstring."""

    RUNAWAY = "runaway"
    FROZEN = "frozen_encoder"
    ENCODER = "encoder"
    OVERSPEED = "overspeed"
    OSCILLATION = "oscillation"
    FOLLOWING = "following_error"


class Trip(NamedTuple):
    """Why the servo took the torque away."""

    kind: TripKind
    joint: int
    """Index of the joint; -1: no single one."""
    value: float
    """How large what was too large is: an angle [rad] or a speed [rad/s]."""

    def __str__(self) -> str:
        unit = " rad/s" if self.kind is TripKind.OVERSPEED else " rad"
        return self.kind.value.replace("_", " ") + (f" of joint {self.joint} ({self.value:.3g}{unit})" if self.joint >= 0 else "")


class MotionWatch:
    """The watch over one hand of fingers with four joints each, or over any row of joints.

    Args:
        lower, upper: joint limits (n,) [rad].
        params: its limits.
        period: nominal time between two ticks [s].
    """

    def __init__(self, lower: np.ndarray, upper: np.ndarray, params: WatchParams, period: float) -> None:
        self.params = params
        self._period = period
        n = lower.size
        self._low, self._high = lower + AT_STOP, upper - AT_STOP
        rows = -(-n // FINGER)
        self._others = [np.roll(np.arange(n), FINGER * k) for k in range(rows)]  # [0]: itself
        self._length = max(2, round(params.tremble_time / period))
        self._path = np.zeros((self._length, n))
        self._bad = 0
        self._own, self._old, self._tmp, self._dq, self._speed = (np.zeros(n) for _ in range(5))
        self._against, self._torque_low, self._torque_high, self._error_time, self._motion2 = (np.zeros(n) for _ in range(5))
        self._still = np.zeros(n, int)
        self._work, self._torque2 = np.zeros((rows, n)), np.zeros((rows, n))
        self.forget()

    def forget(self) -> None:
        """The servo starts anew."""
        self._bad = 0
        self.pause()

    def pause(self) -> None:
        """The hand is limp: motion says nothing until there is torque again."""
        self._has_last = False
        self._against[:] = self._error_time[:] = self._speed[:] = self._motion2[:] = 0.0
        self._work[:] = self._torque2[:] = 0.0
        self._still[:] = 0
        self._path[:] = 0.0
        self._k = 0

    def refused(self, joint: int, value: float) -> Trip | None:
        """One more measurement in a row that could not be used; what is wrong with ``joint``, if it is one."""
        self._bad += 1
        return Trip(TripKind.ENCODER, joint, value) if self._bad >= self.params.bad_in_row else None

    def accepted(self) -> None:
        """A measurement could be used."""
        self._bad = 0

    def look(self, q: np.ndarray, tau: np.ndarray, q_applied: np.ndarray, dt: float) -> Trip | None:
        """One tick with torque.

        Args:
            q: measured joint angles (n,) [rad].
            tau: torque (n,) [N·m] that the servo wants of the motors now, without what balances gravity.
            q_applied: targets (n,) [rad].
            dt: time since the tick before [s].
        """
        trip = None
        if self._has_last and dt > 0.0:
            np.subtract(q, self._old, out=self._dq)
            trip = self._runaway() or self._overspeed(dt) or self._tremble(q) or self._frozen(q) or self._following(q, q_applied, dt)
        else:
            self._torque_low[:] = self._torque_high[:] = tau
        self._old[:], self._own[:] = q, tau
        self._has_last = True
        return trip

    def _runaway(self) -> Trip | None:
        p, own, dq = self.params, self._own, self._dq
        self._speed += 0.3 * (np.abs(dq) - self._speed)
        step = np.sign(own) * dq
        step[np.abs(own) < NO_TORQUE] = 0.0
        self._against -= step
        along = self._against <= 0.0
        self._against[along] = 0.0
        for k, other in enumerate(self._others):
            torque = own[other]
            self._work[k] += torque * dq
            self._torque2[k] += torque * torque
        self._motion2 += dq * dq
        self._work[:, along] = self._torque2[:, along] = 0.0
        self._motion2[along] = 0.0
        doubtful = self._against > p.doubtful_runaway
        if not doubtful.any():
            return None
        match = np.abs(self._work) / np.sqrt(self._torque2 * self._motion2 + 1e-18)
        gone = doubtful & (match.max(axis=0) > EXPLAINED)
        gone |= self._against > p.runaway
        if not gone.any():
            return None
        joint = int(np.argmax(np.where(gone, self._against, 0.0)))
        return Trip(TripKind.RUNAWAY, joint, float(self._against[joint]))

    def _overspeed(self, dt: float) -> Trip | None:
        joint = int(np.argmax(self._speed))
        value = float(self._speed[joint]) / max(dt, self._period)  # stamps may bunch up, angles may not
        return Trip(TripKind.OVERSPEED, joint, value) if value > self.params.overspeed else None

    def _tremble(self, q: np.ndarray) -> Trip | None:
        self._path[self._k % self._length] = self._dq
        self._k += 1
        beyond = np.abs(self._path).sum(axis=0) - np.abs(self._path.sum(axis=0))
        joint = int(np.argmax(beyond))
        return Trip(TripKind.OSCILLATION, joint, float(beyond[joint])) if beyond[joint] > self.params.tremble else None

    def _frozen(self, q: np.ndarray) -> Trip | None:
        moved = self._dq != 0.0
        self._still += 1
        self._still[moved] = 0
        np.minimum(self._torque_low, self._own, out=self._torque_low)
        np.maximum(self._torque_high, self._own, out=self._torque_high)
        self._torque_low[moved] = self._torque_high[moved] = self._own[moved]
        stopped = ((q <= self._low) & (self._own < 0.0)) | ((q >= self._high) & (self._own > 0.0))
        frozen = (self._still >= self.params.frozen_ticks) & (self._torque_high - self._torque_low > FROZEN_TORQUE) & ~stopped
        if not frozen.any():
            return None
        joint = int(np.argmax(np.where(frozen, self._torque_high - self._torque_low, 0.0)))
        return Trip(TripKind.FROZEN, joint, float(q[joint]))

    def _following(self, q: np.ndarray, q_applied: np.ndarray, dt: float) -> Trip | None:
        error = np.abs(np.subtract(q_applied, q, out=self._tmp))
        self._error_time += dt
        self._error_time[error <= self.params.following_error] = 0.0
        joint = int(np.argmax(self._error_time))
        if self._error_time[joint] <= self.params.following_time:
            return None
        return Trip(TripKind.FOLLOWING, joint, float(error[joint]))
