"""Joint servo of the hand: a PD law with limits and watchdog, the same object in simulation, on the
emulated bus and on the hand.

At every feedback (3 ms on the Allegro V4, 333 Hz)

    tau = clip( kp (q_applied − q) − kd qd + tau_g(q),  −effort, effort )

where ``q`` is the measured joint angle, ``qd`` its low-passed difference quotient, ``tau_g`` an
optional gravity torque, and ``q_applied`` the commanded angle after joint limits and slew limit.
Clipping to the effort limit comes last, here and nowhere else.

Modes, and every way the torque becomes zero:

* LIMP   zero torque. The start; after :meth:`ServoLaw.disable`; when the clock went backwards; when
         no usable feedback came for ``command_timeout``; when the command is older than
         ``command_timeout + hold_timeout``. Only a fresh command leaves it, and the target then
         starts at the measured angle and moves at ``startup_slew_rate`` for ``startup_time``.
* TRACK  follows the newest command.
* HOLD   the command is older than ``command_timeout``: the last applied target is held.

In every mode one unusable feedback (non-finite, impossible angle, impossible jump) gives zero
torque for that tick; several in a row, and joints that do not do what their torques should make
them do (:mod:`dexstack.hand.watch`), are a *trip*: zero torque, and commands are refused until
:meth:`ServoLaw.enable`. Neither :meth:`ServoLaw.set_command` nor :meth:`ServoLaw.step` raises: what
they refuse is counted in :attr:`ServoLaw.faults`, a trip is in :attr:`ServoLaw.trip`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dexstack.config import param
from dexstack.errors import ConfigError
from dexstack.hand.watch import MotionWatch, Trip, WatchParams


@dataclass(frozen=True)
class ServoParams:
    """Gains, limits and timeouts of the joint servo."""

    kp: float = param(1.0, "proportional gain [N·m/rad]", 0.0, 10.0)
    kd: float = param(0.0, "derivative gain on the low-passed velocity [N·m·s/rad]", 0.0, 1.0)
    velocity_cutoff_hz: float = param(30.0, "cut-off of the first-order velocity low-pass [Hz]", 0.1, 1000.0)
    slew_rate: float = param(10.0, "largest speed of the applied target [rad/s]", 0.01, 100.0)
    startup_slew_rate: float = param(
        2.0, "the same during startup_time after leaving LIMP [rad/s]", 0.01, 100.0
    )
    startup_time: float = param(
        0.25, "time after leaving LIMP for which startup_slew_rate applies [s]", 0.0, 10.0
    )
    command_timeout: float = param(
        0.15,
        "age of the newest command after which the hand holds; longest gap in the feedback [s]",
        0.01,
        10.0,
    )
    hold_timeout: float = param(1.0, "how long the hand holds before it goes limp [s]", 0.0, 3600.0)
    command_margin: float = param(
        0.05, "commands this far outside the joint limits are clipped, farther ones refused [rad]", 0.0, 1.0
    )
    feedback_margin: float = param(
        0.5, "measured angles farther than this outside the joint limits are refused [rad]", 0.0, 3.2
    )
    feedback_velocity: float = param(
        30.0, "an angle that moved faster than this within a period is refused as a jump [rad/s]", 1.0, 1000.0
    )
    hold_torque: float = param(
        0.5, "share of the effort limits with which the hand holds after success", 0.05, 1.0
    )
    period: float = param(0.003, "nominal time between two feedbacks [s]", 0.0005, 0.1)
    gravity_compensation: bool = param(True, "add the gravity torque of the hand model")


LARGER, SMALLER = 1, -1
TIGHTER = {
    "kp": SMALLER,
    "slew_rate": SMALLER,
    "startup_slew_rate": SMALLER,
    "startup_time": LARGER,
    "command_timeout": SMALLER,
    "hold_timeout": SMALLER,
    "command_margin": SMALLER,
    "feedback_margin": SMALLER,
    "feedback_velocity": SMALLER,
    "hold_torque": SMALLER,
    "runaway": SMALLER,
    "doubtful_runaway": SMALLER,
    "obeyed": LARGER,
    "overspeed": SMALLER,
    "following_error": SMALLER,
    "following_time": SMALLER,
    "tremble": SMALLER,
    "bad_in_row": SMALLER,
    "frozen_ticks": SMALLER,
}
"""Parameters that may change while the hand is driven, and in which direction. All others of
:class:`ServoParams` and :class:`WatchParams` may not: the effect of a gain, a filter or a time base
on a hand that holds something has no safe direction."""


def first_widened_limit(old: Any, new: Any) -> str:
    """Return the first parameter that may not change from ``old`` to ``new`` while the hand is
    driven, both :class:`ServoParams` or both :class:`WatchParams`; empty without any."""
    for f in fields(old):
        before, after = getattr(old, f.name), getattr(new, f.name)
        if before != after and (f.name not in TIGHTER or (after - before) * TIGHTER[f.name] < 0):
            return f.name
    return ""


class ServoMode(IntEnum):
    """Mode of the servo; see the module's docstring."""

    LIMP = 0
    TRACK = 1
    HOLD = 2


class Fault(StrEnum):
    """Why a command, a feedback or a result was refused."""

    COMMAND_WRONG_SIZE = "command_wrong_size"
    COMMAND_NON_FINITE = "command_non_finite"
    COMMAND_OUT_OF_RANGE = "command_out_of_range"
    COMMAND_STALE = "command_stale"
    COMMAND_FROM_FUTURE = "command_from_future"
    COMMAND_WHILE_DISABLED = "command_while_disabled"
    FEEDBACK_WRONG_SIZE = "feedback_wrong_size"
    FEEDBACK_NON_FINITE = "feedback_non_finite"
    FEEDBACK_OUT_OF_RANGE = "feedback_out_of_range"
    FEEDBACK_JUMP = "feedback_jump"
    CLOCK_NON_FINITE = "clock_non_finite"
    CLOCK_BACKWARDS = "clock_backwards"
    GRAVITY = "gravity"


class ServoOutput(NamedTuple):
    """Result of one servo tick; the arrays are copies."""

    tau: np.ndarray
    """Joint torques [N·m], within the effort limits, never NaN."""
    q_applied: np.ndarray
    """Target after joint limits and slew limit [rad]; NaN in LIMP."""
    qd: np.ndarray
    """Low-passed joint velocity [rad/s]."""
    mode: ServoMode


@runtime_checkable
class JointLimits(Protocol):
    """The limits of a hand that the servo needs."""

    lower: np.ndarray
    upper: np.ndarray
    effort: np.ndarray
    velocity: np.ndarray
    damping: np.ndarray


class ServoLaw:
    """The servo of one hand with n joints, without input, output or clock.

    All times are seconds on the clock that stamps the feedback.

    Args:
        hand: joint limits [rad], effort limits [N·m], largest speeds [rad/s] and damping
            [N·m·s/rad], each (n,).
        params: gains, limits and timeouts.
        gravity: returns the torque (n,) [N·m] that balances gravity at the angles (n,) [rad].
        watch: limits of the watch over the joints' motion.

    Raises:
        ConfigError: limits or damping of the hand are not finite, ordered or positive.
    """

    def __init__(
        self,
        hand: JointLimits,
        params: ServoParams | None = None,
        gravity: Callable[[np.ndarray], ArrayLike] | None = None,
        watch: WatchParams | None = None,
    ):
        self.params = params or ServoParams()
        self._gravity = gravity
        self._lower = np.array(hand.lower, float)
        self._upper = np.array(hand.upper, float)
        self._effort = np.array(hand.effort, float)
        self.n = n = self._lower.size
        if not (self._lower.shape == self._upper.shape == self._effort.shape == (n,)):
            raise ConfigError("the hand's lower, upper and effort limits must have one entry per joint")
        if not (np.all(self._lower < self._upper) and np.all(np.isfinite(self._upper - self._lower))):
            raise ConfigError("the hand's joint limits must be finite, the lower below the upper")
        if not (np.all(np.isfinite(self._effort)) and np.all(self._effort >= 0)):
            raise ConfigError("the hand's effort limits must be finite and not negative")
        for name in ("velocity", "damping"):
            values = np.asarray(getattr(hand, name), float)
            if not (values.shape == (n,) and np.all(np.isfinite(values)) and np.all(values > 0.0)):
                raise ConfigError(f"the hand's {name} must be finite and above 0, one entry per joint")

        self._no_effort = -self._effort
        self._fastest, self._gate = np.array(hand.velocity, float), np.zeros(n)
        self._set_margins()
        self._ok = np.zeros(n, bool)
        self._q, self._dq, self._qd, self._tau, self._tmp, self._weight = (np.zeros(n) for _ in range(6))
        self._q_applied, self._q_command = np.full(n, np.nan), np.full(n, np.nan)
        self.faults: dict[Fault, int] = dict.fromkeys(Fault, 0)
        """Number of refused inputs of each kind since construction."""
        self._damping = np.array(hand.damping, float)
        self._start_watch(watch or WatchParams())
        self.trip: Trip | None = None
        """Violated limit of the watch, until :meth:`enable`."""
        self.enabled = True
        self.reset()

    def _set_margins(self) -> None:
        p = self.params
        self._command_lower, self._command_upper = self._widened(p.command_margin)
        self._feedback_lower, self._feedback_upper = self._widened(p.feedback_margin)

    def _widened(self, margin: float) -> tuple[np.ndarray, np.ndarray]:
        return self._lower - margin, self._upper + margin

    def _start_watch(self, params: WatchParams) -> None:
        self.watch = MotionWatch(self._lower, self._upper, self._damping, params, self.params.period)

    def adjust(self, block: ServoParams | WatchParams) -> None:
        """Replace parameters. Mode, command and target stay, so that a hand that holds keeps
        holding; new limits of the watch apply to motion from now on."""
        if isinstance(block, WatchParams):
            self._start_watch(block)
            return
        before, self.params = self.params, block
        self._set_margins()
        if block.period != before.period:
            self._start_watch(self.watch.params)

    def reset(self) -> None:
        """Forget command, feedback and clock: LIMP until a new command. Fault counts are kept."""
        self._t = self._t_feedback = self._t_sample = math.nan
        self._forget_command()
        self._qd[:] = 0.0

    def disable(self) -> None:
        """Turn the servo off: LIMP, and commands are refused until :meth:`enable`."""
        self.enabled = False
        self._forget_command()

    def enable(self) -> None:
        """Accept commands again; the hand stays LIMP until the next one, and every joint has to
        show again that it obeys."""
        self.enabled = True
        self.trip = None
        self._grip = 1.0
        self.watch.forget()

    def grip(self) -> None:
        """Hold the applied target with at most ``hold_torque`` of the effort limits, regardless of
        the age of the command."""
        self._grip = self.params.hold_torque
        self.enabled = False

    def release(self) -> None:
        """Let the next command end a grip, without a gap."""
        self.enabled = True

    @property
    def mode(self) -> ServoMode:
        """Mode of the newest tick."""
        return self._mode

    def set_command(self, q_des: ArrayLike | None, t: float) -> Fault | None:
        """Accept a new target.

        Args:
            q_des: joint angles (n,) [rad]; all NaN means "no command yet" and changes nothing.
            t: time of the command [s], on the clock of the feedback.

        Returns:
            None if it was taken (or all NaN), otherwise why it was refused; the previous command
            then stays.
        """
        try:
            q = np.asarray(q_des, float)
            t = float(t)
        except (TypeError, ValueError):
            return self._count(Fault.COMMAND_WRONG_SIZE)
        if q.shape != (self.n,):
            return self._count(Fault.COMMAND_WRONG_SIZE)
        if not (
            self._all(np.greater_equal, q, self._command_lower)
            and self._all(np.less_equal, q, self._command_upper)
        ):
            if np.isnan(q).all():
                return None
            return self._count(
                Fault.COMMAND_OUT_OF_RANGE if np.isfinite(q).all() else Fault.COMMAND_NON_FINITE
            )
        if not math.isfinite(t):
            return self._count(Fault.COMMAND_NON_FINITE)
        if not self.enabled:
            return self._count(Fault.COMMAND_WHILE_DISABLED)
        # comparisons with NaN, without a command or a feedback, are False
        if t < self._t_command or self._t - t > self.params.command_timeout:
            return self._count(Fault.COMMAND_STALE)
        if t - self._t > self.params.command_timeout:
            return self._count(Fault.COMMAND_FROM_FUTURE)
        np.maximum(q, self._lower, out=self._q_command)
        np.minimum(self._q_command, self._upper, out=self._q_command)
        self._t_command = t
        self._grip = 1.0
        return None

    @np.errstate(all="ignore")
    def step(self, q_measured: ArrayLike, t: float) -> ServoOutput:
        """Compute one tick; to be called for every feedback.

        Args:
            q_measured: joint angles (n,) [rad].
            t: time of the feedback [s].
        """
        p = self.params
        self._tau[:] = 0.0
        if not math.isfinite(t):
            self._count(Fault.CLOCK_NON_FINITE)
            return self._output()
        if t < self._t:
            self._count(Fault.CLOCK_BACKWARDS)
            self.reset()
        dt = t - self._t
        self._t = t
        usable = self._take_feedback(q_measured, t)
        self._mode = self._next_mode(t, usable)
        if self._mode is ServoMode.LIMP:
            self._q_applied[:] = np.nan
            self.watch.pause()
            return self._output()
        if self._mode is ServoMode.TRACK:
            self._move_target(t, dt)
        if usable:
            np.subtract(self._q_applied, self._q, out=self._tau)
            self._tau *= p.kp
            np.multiply(self._qd, p.kd, out=self._tmp)
            self._tau -= self._tmp
            if self._grip < 1.0:
                np.clip(self._tau, self._grip * self._no_effort, self._grip * self._effort, out=self._tau)
            if p.gravity_compensation:
                self._weigh()
                self._tau += self._weight
            self._limit_torque()
            self._take_trip(self.watch.look(self._q, self._tau, self._q_applied, dt, self._weight))
            if self.trip is not None:
                self._tau[:] = 0.0
        return self._output()

    def _take_trip(self, trip: Trip | None) -> None:
        if trip is not None and self.trip is None:
            self.trip = trip
            self.disable()

    def _take_feedback(self, q_measured: ArrayLike, t: float) -> bool:
        """Check one measurement and update angle and velocity; return False if it is unusable."""
        p = self.params
        since, self._t_sample = t - self._t_sample, t
        try:
            q = np.asarray(q_measured, float)
        except (TypeError, ValueError):
            return self._refuse(Fault.FEEDBACK_WRONG_SIZE)
        if q.shape != (self.n,):
            return self._refuse(Fault.FEEDBACK_WRONG_SIZE)
        if not (
            self._all(np.greater_equal, q, self._feedback_lower)
            and self._all(np.less_equal, q, self._feedback_upper)
        ):
            joint = int(np.argmin(self._ok))
            return self._refuse(
                Fault.FEEDBACK_OUT_OF_RANGE if np.isfinite(q).all() else Fault.FEEDBACK_NON_FINITE,
                joint,
                float(q[joint]),
            )
        dt = t - self._t_feedback
        if dt <= p.command_timeout:
            np.subtract(q, self._q, out=self._dq)
            np.abs(self._dq, out=self._tmp)
            # Counted from the newest measurement, used or not: the gate must not widen while a leap
            # lasts. Stamps may be uneven, angles may not. A missing measurement widens it only by
            # the joints' speed, so that a leap does not pass together with a lost set.
            np.multiply(self._fastest, max(since - p.period, 0.0), out=self._gate)
            self._gate += p.feedback_velocity * p.period
            if not self._all(np.less_equal, self._tmp, self._gate):
                joint = int(np.argmax(self._tmp))
                return self._refuse(Fault.FEEDBACK_JUMP, joint, float(self._tmp[joint]))
            if dt > 1e-9:
                # qd ← qd + alpha (dq/dt − qd), alpha = 1 − exp(−2π f dt)
                decay = math.exp(-2.0 * math.pi * p.velocity_cutoff_hz * dt)
                self._qd *= decay
                self._dq *= (1.0 - decay) / dt
                self._qd += self._dq
        else:  # the first feedback, also after a gap: no velocity, and the target starts at it
            self._qd[:] = 0.0
            self._engaged = False
        self._q[:] = q
        self._t_feedback = t
        self.watch.accepted()
        return True

    def _refuse(self, fault: Fault, joint: int = -1, value: float = math.nan) -> bool:
        self._count(fault)
        self._take_trip(self.watch.refused(joint, value))
        return False

    def _next_mode(self, t: float, usable: bool) -> ServoMode:
        p = self.params
        age = t - self._t_command
        if (
            not -p.command_timeout
            <= age
            <= p.command_timeout + (p.hold_timeout if self._grip == 1.0 else math.inf)
        ):  # NaN: no command
            self._forget_command()
            return ServoMode.LIMP
        if not t - self._t_feedback <= p.command_timeout:
            self._engaged = False
            return ServoMode.LIMP
        if self._engaged:
            return ServoMode.TRACK if age <= p.command_timeout and self._grip == 1.0 else ServoMode.HOLD
        if not usable or age > p.command_timeout:  # an old command does not start a motion
            return ServoMode.LIMP
        np.maximum(self._q, self._lower, out=self._q_applied)
        np.minimum(self._q_applied, self._upper, out=self._q_applied)
        self._engaged, self._t_engaged = True, t
        return ServoMode.TRACK

    def _move_target(self, t: float, dt: float) -> None:
        """Move the applied target towards the command, within the slew rate."""
        p = self.params
        rate = p.startup_slew_rate if t - self._t_engaged < p.startup_time else p.slew_rate
        # dt is NaN at the first tick; a gap must not become a leap
        reach = rate * min(dt, 5.0 * p.period) if dt > 0.0 else 0.0
        np.subtract(self._q_command, self._q_applied, out=self._tmp)
        np.maximum(self._tmp, -reach, out=self._tmp)
        np.minimum(self._tmp, reach, out=self._tmp)
        self._q_applied += self._tmp

    def _weigh(self) -> None:
        """Find the torque that balances gravity; NaN after an error of the model."""
        if self._gravity is None:
            return
        try:
            np.copyto(self._weight, self._gravity(self._q))
        except Exception:  # means zero torque, not the end of the loop
            self._weight[:] = np.nan

    def _limit_torque(self) -> None:
        """Clip to the effort limits; the last operation on the torque."""
        np.isfinite(self._tau, out=self._ok)
        if np.count_nonzero(self._ok) < self.n:
            self._count(Fault.GRAVITY)
            self._tau[:] = 0.0
        np.maximum(self._tau, self._no_effort, out=self._tau)
        np.minimum(self._tau, self._effort, out=self._tau)

    def _all(self, compare: np.ufunc, a: np.ndarray, b: np.ndarray | float) -> bool:
        """Return ``compare(a, b).all()`` without allocation; comparisons with NaN are False."""
        return np.count_nonzero(compare(a, b, out=self._ok)) == self.n

    def _forget_command(self) -> None:
        self._t_command = math.nan
        self._q_command[:] = np.nan
        self._q_applied[:] = np.nan
        self._engaged = False
        self._t_engaged = math.nan
        self._mode = ServoMode.LIMP
        self._grip = 1.0

    def _count(self, fault: Fault) -> Fault:
        self.faults[fault] += 1
        return fault

    def _output(self) -> ServoOutput:
        return ServoOutput(self._tau.copy(), self._q_applied.copy(), self._qd.copy(), self._mode)
