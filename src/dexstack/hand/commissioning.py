"""Commissioning: every joint alone, 3 degrees out and back, with a torque that cannot hurt.

Each joint is pushed away from its nearer limit by a torque that grows slowly from nothing and never
exceeds :data:`LARGEST_TORQUE`, until its angle has moved by :data:`SWING`; then back. The others
have no torque. What must be seen: the right joint moves, to the right side, as far as its torque
explains, and all others stand still. Anything else ends it in the tick in which it is seen, with a
name for what it is. A hand that passed is written down by its serial number; a real one is not
enabled without that.

The size is judged by the mobility, the angle that one newton metre makes in one second: the
reciprocal of the damping in the hand's model, within a factor of :data:`SIZE`. No hand was there to
check that factor against.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from dexstack.errors import ConfigError
from dexstack.hand.allegro.protocol import FINGERS, JOINTS
from dexstack.hand.calibration import calibration_file
from dexstack.hand.link import FaultKind, Feedback, HandFault, Link
from dexstack.model.description import read_yaml
from dexstack.model.hand import HandModel

SWING = np.radians(3.0)
"""How far every joint moves [rad]."""
BACK = np.radians(0.5)
"""How near to its start it must come again [rad]."""
STILL = np.radians(1.0)
"""How far any other joint may move, and how far the wrong way this one [rad]."""
TOO_FAR = np.radians(4.5)
LARGEST_TORQUE = 0.12
"""[N·m]"""
TORQUE_RATE = 0.3
"""[N·m/s]"""
PATIENCE = 1.0
"""How long a joint may take to move, and as long to come back [s]."""
REST = 0.1
"""Time before every joint in which all must stand still [s]."""
COAST = 0.05
"""Time after the way out in which what torque comes late may still act, before the size is judged
[s]."""
SILENCE = 0.05
"""Longest gap between two measurements [s]."""
SIZE = 1.7
"""Largest factor between a joint's mobility and the model's."""
MOVED = np.radians(0.2)
"""A joint that moved less has not moved [rad]."""
FINGER_NAMES = ("index", "middle", "ring", "thumb")


@dataclass(frozen=True)
class JointResult:
    """What one joint did."""

    joint: int
    moved: float
    """[rad], to the right side."""
    largest_torque: float
    """[N·m]"""
    mobility: float
    """[rad/(N·m·s)]"""
    others: float
    """Largest motion of any other joint [rad]."""


class Miswired(HandFault):
    """The hand does not do what it should; the text says what is wrong with it."""

    def __init__(self, text: str, joint: int, seconds: float) -> None:
        super().__init__(
            FaultKind.WRONG_HAND,
            text,
            "mend the wiring or the configuration, then: dexstack diagnose hand --all",
        )
        self.joint = joint
        self.seconds = seconds
        """From the last good measurement to the end of the torque [s]."""


def finger_of(joint: int) -> str:
    """The name of a joint's finger."""
    return FINGER_NAMES[joint // FINGERS]


def _silently(joint: int) -> None:
    """Nobody watches."""


def commission(
    link: Link,
    hand: HandModel,
    joints: Iterable[int] = range(JOINTS),
    announce: Callable[[int], None] = _silently,
) -> list[JointResult]:
    """Move the joints of a started hand, one after the other.

    Args:
        link: started, with zero torque; it is left so.
        hand: what it should be.
        joints: which; where all are, those of the long fingers are compared with each other, too.
        announce: called with every joint before it moves: two joints whose motors *and* encoders
            are swapped obey their torques, and only a person sees that the wrong one moves.

    Raises:
        Miswired: what it is instead.
        HandFault: the link failed.
    """
    results = []
    for joint in joints:
        announce(joint)
        results.append(_Try(link, hand, joint).run())
    if len(results) == JOINTS:
        _compare(results)
    return results


def check_at_rest(feedback: Feedback, hand: HandModel, rad_per_count: float) -> None:
    """Angles that no hand can have, before anything moves.

    Raises:
        Miswired: there are some.
    """
    margin = 0.5
    outside = np.flatnonzero((feedback.q < hand.lower - margin) | (feedback.q > hand.upper + margin))
    if not outside.size:
        return
    swapped = np.rint(feedback.q / rad_per_count).astype(np.int64).astype(np.int16).byteswap() * rad_per_count
    if np.all((swapped > hand.lower - margin) & (swapped < hand.upper + margin)):
        raise Miswired("the bytes of the angles are swapped", int(outside[0]), 0.0)
    joint = int(outside[0])
    raise Miswired(
        f"joint {joint} says {feedback.q[joint]:+.2f} rad, far outside its limits: inverted or of wrong scale",
        joint,
        0.0,
    )


class _Try:
    """One joint, out and back."""

    def __init__(self, link: Link, hand: HandModel, joint: int) -> None:
        self._link, self._joint = link, joint
        self._lower, self._upper = hand.lower, hand.upper
        self._expected = 1.0 / hand.damping[joint]
        self._tau = np.zeros(hand.lower.size)
        self._sums = 0.0
        self._largest = self._others = 0.0

    def run(self) -> JointResult:
        link, joint = self._link, self._joint
        first = rest = self._read(None)
        while rest.t < first.t + REST:
            self._send(0.0)
            rest = self._read(rest)
        self._start, self._last = rest.q.copy(), rest.t
        self._side = 1.0 if rest.q[joint] < 0.5 * (self._lower[joint] + self._upper[joint]) else -1.0
        self._seen_change = False
        out = self._coast(self._go(rest, lambda moved: moved >= SWING, 1.0))
        moved = self._moved(out)
        mobility = moved / max(self._sums, 1e-9)
        if not 1.0 / SIZE <= mobility / self._expected <= SIZE:
            self._end(self._size(mobility))
        self._go(out, lambda moved: moved <= BACK, -1.0)
        link.write(np.zeros_like(self._tau))
        return JointResult(joint, moved, self._largest, mobility, self._others)

    def _moved(self, feedback: Feedback) -> float:
        """Angle of the joint from its start, to the side it is pushed to first [rad]."""
        return float(self._side * (feedback.q[self._joint] - self._start[self._joint]))

    def _coast(self, feedback: Feedback) -> Feedback:
        """Without torque: all that was asked for has then acted, however late it came to the
        motor."""
        until = feedback.t + COAST
        while feedback.t < until:
            feedback = self._read(feedback)
            self._judge(feedback, self._moved(feedback), 1.0)
            self._send(0.0)
        return feedback

    def _go(self, feedback: Feedback, done: Callable[[float], bool], direction: float) -> Feedback:
        """Push until ``done(angle moved from the start)``."""
        begin, torque = feedback.t, 0.0
        while True:
            now = self._read(feedback)
            dt, feedback = now.t - feedback.t, now
            if direction > 0.0:
                self._sums += torque * dt
            moved = self._moved(now)
            self._judge(now, moved, direction)
            if done(moved):
                self._send(0.0)
                return now
            if now.t - begin > PATIENCE:
                self._end(self._silent())
            torque = min(torque + TORQUE_RATE * dt, LARGEST_TORQUE)
            self._largest = max(self._largest, torque)
            self._send(direction * self._side * torque)

    def _judge(self, now: Feedback, moved: float, direction: float) -> None:
        joint = self._joint
        away = np.abs(now.q - self._start)
        self._seen_change |= bool(away[joint] > 0.0)
        away[joint] = 0.0
        self._others = max(self._others, float(away.max()))
        other = int(np.argmax(away))
        if away[other] > STILL:
            if other % FINGERS == joint % FINGERS:
                self._end(
                    f"{finger_of(joint)} and {finger_of(other)} are swapped: joint {joint} was pushed, joint {other} moved"
                )
            self._end(
                f"joint {joint} was pushed, joint {other} moved: wired to the wrong joint, or not free to move"
            )
        if moved < -STILL:
            self._end(f"joint {joint} ({finger_of(joint)}) is inverted: it moved against its torque")
        if moved > TOO_FAR or (
            direction > 0.0 and moved > STILL and moved > 3.0 * SIZE * self._expected * self._sums + STILL
        ):
            self._end(self._size(moved / max(self._sums, 1e-9)))
        if not self._seen_change and self._expected * self._sums > np.radians(2.0):
            self._end(self._silent())

    def _size(self, mobility: float) -> str:
        factor, name = mobility / self._expected, f"joint {self._joint} ({finger_of(self._joint)})"
        if factor > 10.0:
            return f"{name} moved {factor:.0f} times as far as its torque explains: are the bytes of the torques swapped?"
        if factor > 1.0:
            return f"{name} moved {factor:.1f} times as far as its torque explains: its encoder's scale or its motor's is wrong"
        return f"{name} moved {factor:.2f} times as far as its torque explains: the supply is weak, or the scale is wrong"

    def _silent(self) -> str:
        name = f"joint {self._joint} ({finger_of(self._joint)})"
        if not self._seen_change:
            return f"the encoder or the motor of {name} is dead: its angle is the same to the last count"
        return f"{name} does not move with {self._largest:.2f} N·m: its motor is dead, the supply is weak, or something is in the way"

    def _read(self, before: Feedback | None) -> Feedback:
        feedback = self._link.read(SILENCE)
        if feedback is None or (before is not None and feedback.t - before.t > SILENCE):
            self._last = before.t if before is not None else 0.0
            self._end(f"no angles for {SILENCE:g} s while joint {self._joint} was pushed")
        if before is not None:
            self._last = before.t
        self._now = feedback.t
        return feedback

    def _send(self, torque: float) -> None:
        self._tau[self._joint] = torque
        self._link.write(self._tau)

    def _end(self, text: str) -> None:
        self._link.servo_off()
        raise Miswired(text, self._joint, getattr(self, "_now", 0.0) - self._last)


def _compare(results: list[JointResult]) -> None:
    """The three long fingers are alike: their joints must be, too."""
    mobility = np.array([r.mobility for r in results])
    for row in range(FINGERS):
        alike = mobility[[row, row + FINGERS, row + 2 * FINGERS]]
        factor = alike / np.median(alike)
        worst = int(np.argmax(np.abs(np.log(factor))))
        if not 1.0 / SIZE <= factor[worst] <= SIZE:
            joint = row + FINGERS * worst
            raise Miswired(
                f"joint {joint} ({finger_of(joint)}) moves {factor[worst]:.1f} times as far as in the other fingers",
                joint,
                0.0,
            )


# --- what is kept


def commissioning_file(folder: str | Path, serial: str) -> Path:
    """Where the result of the hand with this serial number is."""
    return calibration_file(folder, serial).with_suffix(".commissioned.yaml")


def save_commissioning(
    folder: str | Path, serial: str, results: list[JointResult], *, measured: str, hardware: str
) -> Path:
    """Write down that a hand passed.

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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(
            "# This hand passed dexstack diagnose hand --all.\n" + yaml.safe_dump(document, sort_keys=False)
        )
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
    return path


def check_commissioned(folder: str | Path, serial: str) -> None:
    """Refuse a hand that never passed.

    Raises:
        ConfigError: it did not, or its file is not what :func:`save_commissioning` writes.
    """
    path = commissioning_file(folder, serial)
    if not path.is_file():
        raise ConfigError(
            f"the hand {serial} was never commissioned; nothing in it, nobody in reach, then: dexstack diagnose hand --all"
        )
    document = read_yaml(path, ("serial", "measured", "hardware", "mobility"), ())
    if document["serial"] != serial:
        raise ConfigError(f"{path} belongs to the hand '{document['serial']}', not to '{serial}'")
