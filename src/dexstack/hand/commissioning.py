"""Commissioning: every joint moves alone, 3 degrees out and back, with a torque that cannot injure.

The hand is limp at first and comes to rest under its weight. Then each joint, from the tip of a
finger to its base, is pushed away from its nearer limit by a torque that grows from zero until the
joint has moved by :data:`SWING`, and is pushed back; where it does not move, the other direction is
tried. The torque is at most :data:`LARGEST_TORQUE` beyond the weight according to the model.
Joints that passed are held weakly, which keeps the links beyond the pushed joint from swinging; all
others have no torque. A joint whose measurements have gaps, because the computer was busy, is tried
again. Required: the right joint moves in the right direction, with a plausible slope, and all others
stand still. Everything else ends in zero torque at once, with a diagnosis. A hand that passed is
recorded by its serial number; a real one is not enabled without that.

Three numbers describe a joint: the torque at which it begins to move out and back (half of the sum
is its load, half of the difference its dry friction), and its mobility, the slope of its speed over
the torque beyond that: 1/damping of the model. Friction, load and lubrication vary from hand to
hand and from joint to joint, so the mobility is compared with the model only to within
:data:`UNLIKE_MODEL`, and with the median of the hand to within :data:`UNLIKE_OTHERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dexstack.errors import ConfigError
from dexstack.hand.allegro.protocol import FINGERS, JOINTS
from dexstack.hand.calibration import calibration_file
from dexstack.hand.link import FaultKind, Feedback, HandFault, Link
from dexstack.model.description import read_yaml, write_yaml
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import HandModel

SWING = np.radians(3.0)
"""Motion of every joint [rad]."""
BACK = np.radians(0.5)
"""Distance from the start at which a joint counts as back [rad]."""
STILL = np.radians(1.5)
"""Largest motion of another joint, and of this one in the wrong direction [rad]."""
TOO_FAR = np.radians(4.7)
"""Largest motion of the pushed joint [rad]."""
LARGEST_TORQUE = 0.12
"""Largest torque beyond gravity [N·m]."""
TORQUE_RATE = 0.6
"""[N·m/s]"""
PATIENCE = 0.5
"""Time for a joint to move, and to come back [s]."""
SETTLE, AT_REST, SETTLE_TIMEOUT = 0.5, np.radians(0.4), 90.0
"""The hand is at rest when no smoothed angle changes by more than AT_REST in SETTLE [s]; it has
SETTLE_TIMEOUT [s]."""
SMOOTHING = 0.1
"""Time constant of that smoothing [s]."""
COAST = 0.03
"""Time after a push for which delayed torque may act [s]."""
SILENCE = 0.05
"""Longest gap between two measurements [s]."""
GAP, ATTEMPTS = 0.015, 5
"""A gap between two measurements after which a joint is tried again [s], because the last torque acts on in
it; how often at most."""
HOLD_GAIN, HOLD_TORQUE = 1.0, 0.03
"""Gain [N·m/rad] and largest torque [N·m] with which joints that passed are held."""
UNLIKE_MODEL, UNLIKE_OTHERS = 3.0, 1.6
"""Largest factors between the mobility of a joint and that of the model and of the hand's
median."""
EXPLAINED = 6.0
"""Largest factor between a motion in progress and that of the model without friction."""
UNSEEN = np.radians(2.0)
"""Motion of the model without friction that must change an angle by a count [rad]."""
MOVED = np.radians(0.2)
"""Motion that counts as motion [rad]."""
HOTTEST = 60
"""Temperature that ends commissioning [°C]."""
FINGER_NAMES = ("index", "middle", "ring", "thumb")


@dataclass(frozen=True)
class JointResult:
    """Measurements of one joint."""

    joint: int
    moved: float
    """[rad]"""
    largest_torque: float
    """[N·m]"""
    mobility: float
    """[rad/(N·m·s)]"""
    others: float
    """Largest motion of another joint [rad]."""
    breakaway: tuple[float, float] = (0.0, 0.0)
    """Torques at which the joint begins to move out and back, in the direction out [N·m]."""


class Miswired(HandFault):
    """The hand does not behave as its model; the text is a diagnosis."""

    def __init__(self, text: str, joint: int, seconds: float = 0.0) -> None:
        remedy = "correct the wiring or the configuration, then: dexstack diagnose hand --all"
        super().__init__(FaultKind.WRONG_HAND, text, remedy)
        self.joint = joint
        self.seconds = seconds
        """Time from the last good measurement to the end of the torque [s]."""


def finger_of(joint: int) -> str:
    """Return the name of a joint's finger."""
    return FINGER_NAMES[joint // FINGERS]


def _named(joint: int) -> str:
    return f"joint {joint} ({finger_of(joint)})"


def commission(
    link: Link,
    hand: HandModel,
    joints: Iterable[int] = range(JOINTS),
    announce: Callable[[int], None] = lambda joint: None,
    gravity: Sequence[float] | np.ndarray | None = None,
) -> list[JointResult]:
    """Move the joints of a started hand one after the other.

    Args:
        link: started, with zero torque; it is left so.
        hand: its model.
        joints: which; with all of them the mobilities are compared, too.
        announce: called with every joint before it moves: two joints whose motors *and* encoders
            are swapped obey their torques, and only a person sees that the wrong one moves.
        gravity: as for :class:`GravityCompensation`, of a palm that is not mounted as in the model.

    Returns:
        The measurements in the order of the joints.

    Raises:
        Miswired: the diagnosis.
        HandFault: the link failed.
    """
    run = _Run(link, hand, gravity)
    try:
        run.settle()
        for joint in sorted(joints, key=lambda j: (j // FINGERS, -j)):
            announce(joint)
            run.test(joint)
        link.write(np.zeros(hand.lower.size))
        results = [run.results[joint] for joint in sorted(run.results)]
        if len(results) == JOINTS:
            _compare(results)
    except HandFault:
        link.servo_off()
        raise
    return results


def check_at_rest(feedback: Feedback, hand: HandModel, rad_per_count: float) -> None:
    """Reject impossible angles before anything moves.

    Raises:
        Miswired: the diagnosis.
    """
    margin = 0.5
    outside = np.flatnonzero((feedback.q < hand.lower - margin) | (feedback.q > hand.upper + margin))
    if not outside.size:
        return
    joint = int(outside[0])
    swapped = np.rint(feedback.q / rad_per_count).astype(np.int64).astype(np.int16).byteswap() * rad_per_count
    if np.all((swapped > hand.lower - margin) & (swapped < hand.upper + margin)):
        raise Miswired("the bytes of the angles are swapped", joint)
    angle = f"joint {joint} reads {feedback.q[joint]:+.2f} rad"
    raise Miswired(f"{angle}, far outside its limits: inverted or of wrong scale", joint)


class _Push:
    """Torque and motion of a joint that is pushed in one direction."""

    def __init__(self, begin: float, load: float) -> None:
        self.begin = begin
        self._load = load
        self.torques: list[float] = []
        self.moved: list[float] = []
        self.dt: list[float] = []
        self.impulse = 0.0
        """∫ torque dt [N·m·s]"""
        self.surplus = 0.0
        """The same of the torque beyond gravity."""
        self.done = False
        """The joint moved as far as it should."""

    def add(self, torque: float, moved: float, dt: float) -> None:
        self.torques.append(torque)
        self.moved.append(moved)
        self.dt.append(dt)
        self.impulse += torque * dt
        self.surplus += max(torque - self._load, 0.0) * dt

    def fit(self) -> tuple[float, float]:
        """Return breakaway torque [N·m] and mobility [rad/(N·m·s)]: the least-squares fit of
        moved = mobility · ∫ max(torque − breakaway, 0) dt."""
        torques, moved, dt = (np.array(x) for x in (self.torques, self.moved, self.dt))
        best = (np.inf, 0.0, 0.0)
        for breakaway in np.linspace(0.0, torques.max(), 60, endpoint=False):
            drive = np.cumsum(np.maximum(torques - breakaway, 0.0) * dt)
            mobility = float(drive @ moved / max(drive @ drive, 1e-18))
            best = min(best, (float(np.sum((moved - mobility * drive) ** 2)), float(breakaway), mobility))
        return best[1], best[2]


class _Run:
    """Commissioning of one hand."""

    def __init__(self, link: Link, hand: HandModel, gravity: Sequence[float] | np.ndarray | None) -> None:
        self._link, self._hand = link, hand
        self._gravity = GravityCompensation(hand, gravity)
        self._tau = np.zeros(hand.lower.size)
        self.results: dict[int, JointResult] = {}
        self._held: list[int] = []
        self._joint = -1
        self._last = self._now = self._longest = 0.0

    def settle(self) -> None:
        """Wait without torque until the hand is at rest."""
        first = now = self._read(None)
        since, smooth = first.t, first.q.copy()
        reference = smooth.copy()
        while now.t < since + SETTLE:
            before, now = now, self._read(now)
            self._link.write(np.zeros_like(self._tau))
            smooth += (now.q - smooth) * min((now.t - before.t) / SMOOTHING, 1.0)
            away = np.abs(smooth - reference)
            if away.max() > AT_REST:
                since, reference = now.t, smooth.copy()
            if now.t > first.t + SETTLE_TIMEOUT:
                self._end(f"{_named(int(np.argmax(away)))} does not come to rest without torque")
        self._feedback = now

    def test(self, joint: int) -> None:
        """Push one joint out and back; if there were gaps between measurements, several times, of which
        the one with the shortest gap counts."""
        self._joint = joint
        best, gap, failure = None, np.inf, None
        for attempt in range(ATTEMPTS):
            self._check_temperature()
            try:
                if attempt:
                    self._feedback = self._read(None)
                    self._pause(0.3, check=False)
                self._longest = 0.0
                result = self._attempt(joint)
            except Miswired as found:
                if self._longest <= GAP:
                    raise
                failure = found
                continue
            if self._longest < gap:
                best, gap = result, self._longest
            if gap <= GAP:
                break
        if best is None:
            self._end(f"{failure}; this computer is busy: gaps of {1e3 * self._longest:.0f} ms")
        self._held.append(joint)
        self.results[joint] = best

    def _attempt(self, joint: int) -> JointResult:
        lower, upper = self._hand.lower[joint], self._hand.upper[joint]
        self._start = self._feedback.q.copy()
        self._largest = self._others = 0.0
        self._changed = False
        self._answered = False  # the joint has moved by its torque: others move by their weight or an object
        self._side = 1.0 if self._start[joint] < 0.5 * (lower + upper) else -1.0
        out, breakaway, mobility = self._swing()
        if mobility * self._hand.damping[joint] < 1.0 / UNLIKE_MODEL:
            # at a stop or against an object: try the other direction
            self._pause(0.2, check=False)
            self._start = self._feedback.q.copy()
            self._side, self._answered = -self._side, False
            out, breakaway, mobility = self._swing()
        if not out.done:
            self._end(self._silent())
        factor = mobility * self._hand.damping[joint]
        if not 1.0 / UNLIKE_MODEL <= factor <= UNLIKE_MODEL:
            self._end(_size(joint, factor))
        moved = self._moved()
        back = self._push(-1.0, lambda moved: moved <= BACK)
        if not back.done and moved - self._moved() < MOVED:  # an object may have moved behind it
            self._end(f"{_named(joint)} does not come back with {self._largest:.2f} N·m")
        self._pause(COAST)
        return JointResult(joint, moved, self._largest, mobility, self._others, (breakaway, -back.fit()[0]))

    # --- motion

    def _moved(self) -> float:
        """Motion of the joint from its start, in the direction of the first push [rad]."""
        return float(self._side * (self._feedback.q[self._joint] - self._start[self._joint]))

    def _swing(self) -> tuple[_Push, float, float]:
        """Push the joint out; return the push, breakaway torque and mobility, which is zero if
        something is in the way."""
        out = self._push(1.0, lambda moved: moved >= SWING)
        if not out.done:
            return out, 0.0, 0.0
        self._pause(COAST)
        return out, *out.fit()

    def _push(self, direction: float, done: Callable[[float], bool]) -> _Push:
        """Push until ``done(motion from the start)``, or until something is in the way."""
        load = max(direction * self._side * float(self._gravity(self._feedback.q)[self._joint]), 0.0)
        limit = LARGEST_TORQUE + load
        self._reference = self._feedback.q.copy()
        push, torque, origin = _Push(self._feedback.t, load), 0.0, self._moved()
        while True:
            before, now = self._feedback, self._step(direction * self._side * torque)
            moved, dt = self._moved(), now.t - before.t
            push.add(torque, direction * (moved - origin), dt)
            self._largest = max(self._largest, torque)
            push.done = done(moved)
            self._answered |= moved > 3.0 * MOVED
            if not (self._answered and self._away().max() > STILL):  # something lies between two joints
                self._check(moved, push, direction)
                if not push.done and now.t - push.begin <= PATIENCE:
                    torque = min(torque + TORQUE_RATE * dt, limit)
                    continue
            self._step(0.0)
            return push

    def _pause(self, seconds: float, check: bool = True) -> None:
        """Hold without pushing."""
        until = self._feedback.t + seconds
        while self._feedback.t < until:
            self._step(0.0)
            if check:
                self._check(self._moved(), None, 1.0)

    def _step(self, torque: float) -> Feedback:
        """Send the torque of the pushed joint and of those that are held; return the next
        feedback."""
        self._tau[:] = 0.0
        for j in self._held:
            error = self._start[j] - self._feedback.q[j]
            self._tau[j] = np.clip(HOLD_GAIN * error, -HOLD_TORQUE, HOLD_TORQUE)
        if torque:
            self._tau[self._joint] = torque
        self._link.write(self._tau)
        self._feedback = self._read(self._feedback)
        return self._feedback

    # --- checks

    def _away(self) -> np.ndarray:
        """Motion of the other joints since the push began (n,) [rad]."""
        away = np.abs(self._feedback.q - self._reference)
        away[self._joint] = 0.0
        return away

    def _check(self, moved: float, push: _Push | None, direction: float) -> None:
        joint, away = self._joint, self._away()
        self._changed |= bool(self._feedback.q[joint] != self._start[joint])
        other = int(np.argmax(away))
        self._others = max(self._others, float(away[other]))
        if away[other] > STILL and not self._answered:
            pushed = f"joint {joint} was pushed, joint {other} moved"
            if other % FINGERS == joint % FINGERS:
                self._end(f"{finger_of(joint)} and {finger_of(other)} are swapped: {pushed}")
            self._end(f"{pushed}: wired to the wrong joint, or not free to move")
        if moved < -STILL:
            self._end(f"{_named(joint)} is inverted: it moved against its torque")
        expected = 0.0 if push is None else push.impulse / self._hand.damping[joint]
        too_fast = push is not None and direction > 0.0 and moved > np.radians(1.0) + EXPLAINED * expected
        if push is not None and not self._changed and push.surplus / self._hand.damping[joint] > UNSEEN:
            self._end(self._silent())
        if moved > TOO_FAR or too_fast:
            self._end(_size(joint, moved / max(expected, 1e-6)))

    def _silent(self) -> str:
        name = _named(self._joint)
        if not self._changed:
            return f"the encoder or the motor of {name} is dead: its angle is the same to the last count"
        cause = "its motor is dead, the supply is weak, or something is in the way"
        return f"{name} does not move with {self._largest:.2f} N·m: {cause}"

    def _check_temperature(self) -> None:
        hottest = max(getattr(self._link, "temperatures", [0]))
        if hottest >= HOTTEST:
            self._end(f"a sensor is at {hottest} °C; commissioning ends at {HOTTEST} °C")

    def _read(self, before: Feedback | None) -> Feedback:
        feedback = self._link.read(SILENCE)
        if before is not None:
            self._last = before.t
            self._longest = max(self._longest, feedback.t - before.t if feedback else 0.0)
        if feedback is None or (before is not None and feedback.t - before.t > SILENCE):
            self._end(f"no joint angles for {SILENCE:g} s while joint {self._joint} was pushed")
        self._now = feedback.t
        return feedback

    def _end(self, text: str) -> None:
        self._link.write(np.zeros_like(self._tau))
        raise Miswired(text, self._joint, self._now - self._last)


def _size(joint: int, factor: float) -> str:
    moved = f"{_named(joint)} moved {factor:.1f} times as far as its torque explains"
    if factor > 10.0:
        return f"{moved}: are the bytes of the torques swapped?"
    if factor > 1.0:
        return f"{moved}: the scale of its encoder or of its motor is wrong"
    return f"{moved}: the supply is weak, or the scale is wrong"


def _compare(results: list[JointResult]) -> None:
    """Compare the mobilities with the median of the hand."""
    mobility = np.array([r.mobility for r in results])
    factor = mobility / np.median(mobility)
    worst = int(np.argmax(factor))
    if factor[worst] > UNLIKE_OTHERS:
        raise Miswired(f"{_named(worst)} moved {factor[worst]:.1f} times as far as the other joints", worst)


# --- records


def commissioning_file(folder: str | Path, serial: str) -> Path:
    """Return the file with the result of a hand."""
    return calibration_file(folder, serial).with_suffix(".commissioned.yaml")


def save_commissioning(
    folder: str | Path, serial: str, results: list[JointResult], *, measured: str, hardware: str
) -> Path:
    """Record that a hand passed.

    Raises:
        ConfigError: the file cannot be written.
    """
    path = commissioning_file(folder, serial)
    document = {
        "serial": serial,
        "measured": measured,
        "hardware": hardware,
        "mobility": [round(float(r.mobility), 3) for r in results],
    }
    write_yaml(path, "This hand passed dexstack diagnose hand --all.", document)
    return path


def check_commissioned(folder: str | Path, serial: str) -> None:
    """Reject a hand that was not commissioned.

    Raises:
        ConfigError: it was not, or its file is invalid.
    """
    path = commissioning_file(folder, serial)
    if not path.is_file():
        command = "with the hand empty and no person in reach: dexstack diagnose hand --all"
        raise ConfigError(f"the hand {serial} was never commissioned; {command}")
    document = read_yaml(path, ("serial", "measured", "hardware", "mobility"), ())
    if document["serial"] != serial:
        raise ConfigError(f"{path} belongs to the hand '{document['serial']}', not to '{serial}'")
