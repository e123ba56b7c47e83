"""Watch over the joints' motion, from joint angles and torques alone.

A joint that is wired wrongly, whose encoder failed or leapt, or that moves faster than any joint
can, must lose its torque before it has moved far. :class:`MotionWatch` checks every tick; a
violated limit is a :class:`Trip`, which is final until a person enables the hand again.

* ``runaway``: a joint that has not yet shown that it obeys moves against its own torque by more
  than ``doubtful_runaway``, as a wrong wire would make it, or moves that much farther than its torque
  explains, or stays at its stop against a torque that would move any free joint; or any joint moves
  against its own torque by more than ``runaway``.
* ``frozen_encoder``: an angle stays the same to the last count while the joint's torque changes and
  would move it in spite of dry friction.
* ``encoder``: ``bad_in_row`` angles in a row are impossible: not finite, far outside the limits, or
  a leap that lasts.
* ``overspeed``: a joint is faster than ``overspeed``.
* ``oscillation``: a joint chatters: its path in ``tremble_time`` exceeds its displacement by more
  than ``tremble``.
* ``following_error``: a target is farther than ``following_error`` from its joint for
  ``following_time``.

A joint that is pushed back by an object also moves against its torque, for a moment just as if it
were wired wrongly. But wires do not change while the hand moves: a joint that has moved by
``obeyed`` along its own torque, as a free joint does, is wired correctly until the servo is enabled
again. A free joint moves with its torque, less its weight, over its damping; a wrong wire replaces
the torque by its negative, or by that of the same joint of another finger, which then does not obey
its own: the torque of a joint that has obeyed explains the motion of no other joint. The weight
stays, so that a servo that balances it pulls a joint with an inverted motor down with twice the
weight, often onto a stop, where no motion shows the fault.

Whether a torque explains a motion is decided by speed and torque since the motion began: by slope
and correlation through zero and by the same about their means. Both pass the same low-pass first,
because a hand measures on its own clock: the age of a set of angles varies, and steady motion
appears uneven.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from dexstack.config import param

UNWATCHED = 1_000_000
"""Number of ticks that disables the check."""
EXPLAINED = 0.9
"""Lower bound of the correlation of speed and torque, through zero and about their means, of a
motion that the torque explains."""
WRONG, RIGHT = 4.0, 2.0
"""Largest factor between a joint's speed and that of a free joint with its damping: of a motion
that a wrong wire explains, and of one that shows that a joint obeys."""
SMOOTH = 0.2
"""Weight of the newest speed and torque in the low-pass: a time constant of five periods."""
STUCK_TORQUE, STUCK_TIME = 0.12, 0.25
"""A torque beyond the weight [N·m], and the time [s] in which it moves any joint in order off its stop:
every joint that was commissioned moves with less (:mod:`dexstack.hand.commissioning`)."""
TOO_FAST = 6.0
"""Factor beyond the motion of a free joint with its damping that no torque of the right scale explains."""
NO_TORQUE = 0.003
"""Smaller torques are ignored [N·m]."""
FROZEN_TORQUE = 0.03
"""Change of torque that moves any encoder by a count [N·m], once the joint moves."""
DRY_FRICTION, UNSEEN = 0.05, 0.02
"""Dry friction that may keep a joint where it is [N·m], and motion [rad] that the torque beyond it must
explain before a constant angle is a fault."""
AT_STOP = 0.02
"""Distance from a limit within which a joint may stand still under torque towards it [rad]."""
FINGER = 4
"""Joints of a finger."""
FURTHER = 0.001
"""Motion after which a joint is asked again whether it obeys [rad]."""
ALONG, AGAINST = 0, 1
"""Motion along a joint's own torque, and against it."""


@dataclass(frozen=True)
class WatchParams:
    """Limits of the watch over the joints' motion."""

    runaway: float = param(1.0, "largest motion of a joint against its own torque [rad]", 0.01, 3.2)
    doubtful_runaway: float = param(
        0.065,
        "the same for a motion that a wrong wire explains; no less than runaway: wires are not doubted [rad]",
        0.005,
        3.2,
    )
    obeyed: float = param(
        0.02,
        "motion of a joint along its own torque, as a free joint moves, that shows that it obeys [rad]",
        0.005,
        0.6,
    )
    overspeed: float = param(15.0, "largest speed of a joint [rad/s]", 0.5, 100.0)
    following_error: float = param(
        0.5, "largest lasting distance of a joint from its target [rad]", 0.05, 3.2
    )
    following_time: float = param(0.5, "how long a joint may exceed following_error [s]", 0.02, 10.0)
    tremble: float = param(
        0.12, "largest excess of a joint's path over its displacement within tremble_time [rad]", 0.01, 3.2
    )
    tremble_time: float = param(0.06, "time over which chattering is measured [s]", 0.02, 1.0)
    frozen_ticks: int = param(
        20, "an encoder that reads the same this many times while the torque changes is frozen", 3, 1_000_000
    )
    bad_in_row: int = param(3, "consecutive impossible measurements that count as a fault", 1, 20)


class TripKind(StrEnum):
    """Violated limit; see the module's docstring."""

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
    """The value that exceeds its limit: an angle [rad] or a speed [rad/s]."""

    def __str__(self) -> str:
        unit = " rad/s" if self.kind is TripKind.OVERSPEED else " rad"
        return self.kind.value.replace("_", " ") + (
            f" of joint {self.joint} ({self.value:.3g}{unit})" if self.joint >= 0 else ""
        )


class _Spells:
    """Motion of every joint since it last turned, in each of two directions: its length, and the sums
    over speed and torque that show which torque explains it.

    Args:
        free: angle that one newton metre turns each free joint by in a period (n,) [rad/(N·m)].
        rows: torques that are compared with each joint's speed.
    """

    def __init__(self, free: np.ndarray, rows: int) -> None:
        n = free.size
        self._free, self._rows = free, rows
        self.went = np.zeros((2, n))
        """[rad]"""
        self._sums, self._now = np.zeros((2, 3 * (1 + rows), n)), np.zeros((3 * (1 + rows), n))
        """Sums of one, speed and its square, and for every row of torque, its square, and work; and
        what a tick adds to them."""
        self._now[0] = 1.0
        self._turned = np.zeros((2, 1, n), bool)

    def forget(self) -> None:
        self.went[:] = 0.0
        self._sums[:] = 0.0

    def add(self, step: np.ndarray, speed: np.ndarray, torque: np.ndarray) -> None:
        """Add one tick: ``step`` (2, n) [rad] in each direction, whose motion ends when it is back at its
        start; ``speed`` (n,) [rad per period] and ``torque`` (rows, n) [N·m] after the low-pass."""
        now, rows, turned = self._now, self._rows, self._turned[:, 0]
        now[1] = speed
        np.multiply(speed, speed, out=now[2])
        now[3 : 3 + rows] = torque
        np.multiply(torque, torque, out=now[3 + rows : 3 + 2 * rows])
        np.multiply(torque, speed, out=now[3 + 2 * rows :])
        for sums in self._sums:  # both at once would take memory
            sums += now
        self.went += step
        np.less_equal(self.went, 0.0, out=turned)
        np.copyto(self.went, 0.0, where=turned)
        np.copyto(self._sums, 0.0, where=self._turned)

    def explained(self, way: int, rows: slice, factor: float) -> np.ndarray:
        """Return which torques of ``rows`` explain the motion of each joint (len(rows), n) in the
        direction ``way``, with either sign and the damping to within ``factor``."""
        (count, motion, motion2), sums = self._sums[way, :3], self._sums[way, 3:]
        drive, drive2, work = sums.reshape(3, self._rows, -1)[:, rows]
        ticks, tiny = np.maximum(count, 1.0), 1e-18
        changes = work - drive * motion / ticks, drive2 - drive**2 / ticks, motion2 - motion**2 / ticks
        fits = np.ones_like(work, bool)
        for both, of_torque, of_motion in ((work, drive2, motion2), changes):
            size = np.abs(both) / (of_torque + tiny) / self._free
            fits &= (
                (np.abs(both) > EXPLAINED * np.sqrt(np.abs(of_torque * of_motion) + tiny))
                & (size > 1.0 / factor)
                & (size < factor)
            )
        return fits


class MotionWatch:
    """The watch over one hand with four joints per finger, or any row of joints.

    Args:
        lower, upper: joint limits (n,) [rad].
        damping: of each joint (n,) [N·m·s/rad].
        params: its limits.
        period: nominal time between two ticks [s].
    """

    def __init__(
        self, lower: np.ndarray, upper: np.ndarray, damping: np.ndarray, params: WatchParams, period: float
    ) -> None:
        self.params = params
        self._period = period
        n = lower.size
        self._low, self._high = lower + AT_STOP, upper - AT_STOP
        rows = 1 + -(-n // FINGER)
        self._length = max(2, round(params.tremble_time / period))
        self._path = np.zeros((self._length, n))
        self._bad = 0
        self._own, self._old, self._tmp, self._dq, self._speed, self._slow, self._sum = (
            np.zeros(n) for _ in range(7)
        )
        self._torque_low, self._torque_high, self._error_time, self._stuck = (np.zeros(n) for _ in range(4))
        self._sent, self._weight, self._no_weight, self._unseen = (np.zeros(n) for _ in range(4))
        self._first, self._explained = np.zeros(n), np.zeros(n)
        """Angles when torque came [rad], and motion that the torque since then explains [rad]."""
        self._still = np.zeros(n, int)
        self._torque, self._driving = np.zeros((rows, n)), np.zeros((rows, n))
        """Torques after the low-pass that would drive each joint: row 0 its own, row k that of the same
        joint k fingers on, the last row its own of an inverted motor."""
        fingers_on = FINGER * np.arange(1, rows - 1)[:, None]
        self._same_of_others = (np.arange(n) - fingers_on) % n
        """(rows − 2, n) the same joint k fingers on."""
        self._mobility = period / damping
        self._spells, self._step = _Spells(self._mobility, rows), np.zeros((2, n))
        self._asked = np.zeros(n)
        """Motion along its torque of each joint when :meth:`_note_obedience` last looked [rad]."""
        self._obeys = np.zeros(n, bool)
        """Joints that have obeyed since :meth:`forget`."""
        self._paths = np.zeros((self._length, n))
        self._yes, self._too, self._no = (np.zeros(n, bool) for _ in range(3))
        self.forget()

    @property
    def opposed(self) -> np.ndarray:
        """Present motion of each joint against its own torque (n,) [rad]."""
        return self._spells.went[AGAINST]

    def forget(self) -> None:
        """Start again, as after enabling the servo."""
        self._bad = 0
        self._obeys[:] = False
        self.pause()

    def pause(self) -> None:
        """Ignore motion until there is torque again, as while the hand is limp."""
        self._has_last = False
        self._error_time[:] = self._stuck[:] = self._speed[:] = self._slow[:] = 0.0
        self._torque[:] = 0.0
        self._spells.forget()
        self._still[:] = 0
        self._path[:] = self._unseen[:] = 0.0
        self._k = 0

    def refused(self, joint: int, value: float) -> Trip | None:
        """Count one more unusable measurement in a row, of ``joint``; return a trip if there are too
        many."""
        self._bad += 1
        return Trip(TripKind.ENCODER, joint, value) if self._bad >= self.params.bad_in_row else None

    def accepted(self) -> None:
        """Note a usable measurement."""
        self._bad = 0

    def look(
        self,
        q: np.ndarray,
        tau: np.ndarray,
        q_applied: np.ndarray,
        dt: float,
        weight: np.ndarray | None = None,
    ) -> Trip | None:
        """Check one tick with torque.

        Args:
            q: measured joint angles (n,) [rad].
            tau: torque (n,) [N·m] sent to the motors from now on.
            q_applied: targets (n,) [rad].
            dt: time since the previous tick [s].
            weight: torque (n,) [N·m] that balances gravity at ``q``; None: unknown or none.
        """
        if weight is None or not np.isfinite(weight).all():
            weight = self._no_weight
        trip = None
        if self._has_last and dt > 0.0:
            np.subtract(q, self._old, out=self._dq)
            trip = (
                self._runaway()
                or self._doubted(q, dt)
                or self._overspeed(dt)
                or self._tremble(q)
                or self._frozen(q)
                or self._following(q, q_applied, dt)
            )
        self._old[:], self._sent[:], self._weight[:] = q, tau, weight
        np.subtract(tau, weight, out=self._own)
        if not self._has_last:
            self._first[:], self._explained[:] = q, 0.0
            self._torque_low[:] = self._torque_high[:] = self._own
        self._has_last = True
        return trip

    def _runaway(self) -> Trip | None:
        p, own, dq, step = self.params, self._own, self._dq, self._tmp
        np.abs(dq, out=step)
        step -= self._speed
        step *= 0.3
        self._speed += step
        self._filter()
        np.abs(own, out=step)
        with_torque = np.greater_equal(step, NO_TORQUE, out=self._yes)
        along, against = self._step[ALONG], self._step[AGAINST]
        np.sign(own, out=along)
        along *= dq
        along *= with_torque
        np.negative(along, out=against)
        self._spells.add(self._step, self._slow, self._torque)
        if np.count_nonzero(self._obeys) < own.size:
            self._note_obedience()
        opposed = self.opposed
        far = np.greater(opposed, p.doubtful_runaway, out=self._yes)
        if not np.count_nonzero(far):
            return None
        gone = opposed > p.runaway
        others = self._spells.explained(AGAINST, slice(1, None), WRONG)
        gone |= far & ~self._obeys & (others & ~self._taken()).any(axis=0)
        return self._worst(TripKind.RUNAWAY, gone, opposed, opposed)

    def _taken(self) -> np.ndarray:
        """Return the torques of wrong wires (rows, n) whose own joints have obeyed, and which therefore
        drive no joint in another way."""
        others = [np.roll(self._obeys, FINGER * k) for k in range(1, len(self._torque) - 1)]
        return np.array([*others, self._obeys])

    def _note_obedience(self) -> None:
        """Look whether its torque explains the motion of a joint that is not known to obey, after every
        :data:`FURTHER` of it."""
        went = self._spells.went[ALONG]
        asked = np.minimum(self._asked, went, out=self._asked)
        np.add(asked, FURTHER, out=self._tmp)
        np.maximum(self._tmp, self.params.obeyed, out=self._tmp)
        far = np.greater(went, self._tmp, out=self._yes)
        far &= np.logical_not(self._obeys, out=self._too)
        if np.count_nonzero(far):
            np.copyto(asked, went, where=far)
            self._obeys |= far & self._spells.explained(ALONG, slice(0, 1), RIGHT)[0]

    def _filter(self) -> None:
        """The low-pass over speed and torque."""
        driving, others = self._driving, self._driving[1:-1]
        np.add(self._sent, self._weight, out=driving[-1])
        driving[0] = self._own
        np.take(self._sent, self._same_of_others, out=others, mode="clip")  # "raise" would copy
        others -= self._weight
        driving -= self._torque
        driving *= SMOOTH
        self._torque += driving
        np.subtract(self._dq, self._slow, out=self._tmp)
        self._tmp *= SMOOTH
        self._slow += self._tmp

    def _worst(self, kind: TripKind, which: np.ndarray, by: np.ndarray, value: np.ndarray) -> Trip | None:
        """Return the trip of the joint in ``which`` (n,) with the largest ``by`` (n,), if any."""
        if not np.count_nonzero(which):
            return None
        joint = int(np.argmax(np.where(which, by, -1.0)))
        return Trip(kind, joint, float(value[joint]))

    def _doubted(self, q: np.ndarray, dt: float) -> Trip | None:
        """Check the joints that have not obeyed for torques of another scale and for wrong wires that
        cause no motion: joints at a stop from which their torques point away."""
        p, own, tmp = self.params, self._own, self._tmp
        if p.doubtful_runaway >= p.runaway or np.count_nonzero(self._obeys) == own.size:
            return None
        np.abs(own, out=tmp)
        tmp *= self._mobility
        self._explained += tmp
        np.abs(np.subtract(q, self._first, out=tmp), out=tmp)
        tmp -= p.doubtful_runaway
        np.multiply(self._explained, TOO_FAST, out=self._sum)
        gone = np.greater(tmp, self._sum, out=self._yes)
        doubted = np.logical_not(self._obeys, out=self._no)
        gone &= doubted
        if np.count_nonzero(gone):
            return self._worst(TripKind.RUNAWAY, gone, tmp, np.abs(q - self._first))
        below = np.less_equal(q, self._low, out=self._yes)
        below &= np.greater(own, STUCK_TORQUE, out=self._too)
        above = np.greater_equal(q, self._high, out=self._too)
        above &= own < -STUCK_TORQUE
        below |= above
        below &= doubted
        self._stuck += dt
        self._stuck *= below
        joint = int(self._stuck.argmax())
        return Trip(TripKind.RUNAWAY, joint, float(q[joint])) if self._stuck[joint] > STUCK_TIME else None

    def _overspeed(self, dt: float) -> Trip | None:
        joint = int(self._speed.argmax())
        value = float(self._speed[joint]) / max(dt, self._period)  # stamps may be uneven, angles may not
        return Trip(TripKind.OVERSPEED, joint, value) if value > self.params.overspeed else None

    def _tremble(self, q: np.ndarray) -> Trip | None:
        self._path[self._k % self._length] = self._dq
        self._k += 1
        np.abs(self._path, out=self._paths)
        beyond = np.add.reduce(self._paths, axis=0, out=self._sum)
        way = np.add.reduce(self._path, axis=0, out=self._tmp)
        beyond -= np.abs(way, out=way)
        joint = int(beyond.argmax())
        return (
            Trip(TripKind.OSCILLATION, joint, float(beyond[joint]))
            if beyond[joint] > self.params.tremble
            else None
        )

    def _frozen(self, q: np.ndarray) -> Trip | None:
        own, yes, too = self._own, self._yes, self._too
        moved = np.not_equal(self._dq, 0.0, out=yes)
        self._still += 1
        np.copyto(self._still, 0, where=moved)
        np.minimum(self._torque_low, own, out=self._torque_low)
        np.maximum(self._torque_high, own, out=self._torque_high)
        np.copyto(self._torque_low, own, where=moved)
        np.copyto(self._torque_high, own, where=moved)
        beyond = np.abs(own, out=self._tmp)
        beyond -= DRY_FRICTION
        np.maximum(beyond, 0.0, out=beyond)
        beyond *= self._mobility
        self._unseen += beyond
        np.copyto(self._unseen, 0.0, where=moved)
        frozen = np.greater_equal(self._still, self.params.frozen_ticks, out=yes)
        if not np.count_nonzero(frozen):
            return None
        change = np.subtract(self._torque_high, self._torque_low, out=self._tmp)
        frozen &= np.greater(change, FROZEN_TORQUE, out=too)
        frozen &= np.greater(self._unseen, UNSEEN, out=too)
        frozen &= ~(((q <= self._low) & (own < 0.0)) | ((q >= self._high) & (own > 0.0)))  # at its stop
        return self._worst(TripKind.FROZEN, frozen, change, q)

    def _following(self, q: np.ndarray, q_applied: np.ndarray, dt: float) -> Trip | None:
        error = np.abs(np.subtract(q_applied, q, out=self._tmp), out=self._tmp)
        self._error_time += dt
        np.copyto(
            self._error_time, 0.0, where=np.less_equal(error, self.params.following_error, out=self._yes)
        )
        joint = int(self._error_time.argmax())
        if self._error_time[joint] <= self.params.following_time:
            return None
        return Trip(TripKind.FOLLOWING, joint, float(error[joint]))
