"""Commissioning of random hands: good ones must pass, and every wrong wiring must be named before a
joint has moved by 5 degrees.

    python -m tests.acceptance.commissioning --hands 200 --wirings 5 [--json FILE]

A random hand has its palm up, sideways or down, dry friction of 0 to 0.05 N·m and motors of ±20 %
per joint, lubrication (damping) of ±50 %, 1 degree of backlash, noisy encoders, and with its palm up
an object in every other case. Faults of scale are tried on hands whose damping and motors are
nominal: no measurement tells a motor of double strength from one with half the damping.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dexstack.hand.allegro.can_hand import CanHand
from dexstack.hand.commissioning import JointResult, check_at_rest, commission
from dexstack.hand.emulated.allegro import EmulatedHand
from dexstack.hand.emulated.lockstep import LockstepComputer
from dexstack.hand.emulated.plant import HandPlant, HandPlantParams
from dexstack.hand.link import HandFault
from dexstack.hand.params import BusParams, CanHandParams, FaultParams
from dexstack.model.hand import HandModel, load_hand
from dexstack.tasks.palm_turn import PalmTurn

NOISE = 2e-4
"""Standard deviation of the encoders [rad]."""
FIVE_DEGREES = np.radians(5.0)
FINGERS = ("index", "middle", "ring", "thumb")
PALMS = ("up", "sideways", "down")


class RandomHand(NamedTuple):
    """A hand and what distinguishes it from its model."""

    model: HandModel
    params: HandPlantParams
    palm: str
    with_object: bool


class Trial(NamedTuple):
    """Outcome of one commissioning."""

    text: str
    """The diagnosis; empty if the hand passed."""
    results: list[JointResult]
    excursion: float
    """Largest motion of any joint during the test of one [rad]."""
    seconds: float
    """Time from the last good measurement to the end of the torque [s]."""
    servo: bool
    """The servo was on at the end of a diagnosis."""


def turned(model: HandModel, angle: float) -> HandModel:
    """Return the hand with its palm turned about the x axis of the world."""
    import mujoco

    turn, quat = np.empty(4), np.empty(4)
    mujoco.mju_axisAngle2Quat(turn, np.array([1.0, 0.0, 0.0]), angle)
    mujoco.mju_mulQuat(quat, turn, np.asarray(model.quat_WP, float))
    return replace(model, quat_WP=quat)


def random_hand(seed: int, nominal_scale: bool = False) -> RandomHand:
    rng = np.random.default_rng(seed)
    k = seed % len(PALMS)
    params = HandPlantParams(
        dry_friction=rng.uniform(0.0, 0.05, 16),
        backlash=np.radians(1.0),
        damping=1.0 if nominal_scale else rng.uniform(0.5, 1.5),
        strength=1.0 if nominal_scale else rng.uniform(0.8, 1.2, 16),
    )
    with_object = k == 0 and bool(seed // len(PALMS) % 2)
    return RandomHand(turned(load_hand("right"), k * 0.5 * np.pi), params, PALMS[k], with_object)


def trial(hand: RandomHand, **faults: Any) -> Trial:
    """Commission a hand with these faults, in simulated time."""
    firmware = EmulatedHand("right")
    firmware.inject(FaultParams(**{"encoder_noise": NOISE, **faults}))
    obj = pose = None
    if hand.with_object:
        _, obj, start = PalmTurn().setup()
        pose = start.pose_WO
    computer = LockstepComputer(firmware, HandPlant(hand.model, hand.params, obj, pose))
    params = CanHandParams(realtime_priority=0, calibration_dir="/nonexistent")
    link = CanHand("right", BusParams("virtual"), params, computer)
    track = Track(computer)
    results, text, seconds, servo = [], "", 0.0, False
    try:
        link.start()
        check_at_rest(link.read(0.1), hand.model, link.rad_per_count)
        results = commission(link, hand.model, announce=lambda joint: track.start())
    except HandFault as fault:
        text, seconds = str(fault), getattr(fault, "seconds", 0.0)
        servo = firmware.servo and bool(firmware.counts.any())
        track.stop()
    finally:
        link.close()
    return Trial(text, results, track.excursion, seconds, servo)


class Track:
    """The motion of the joints while one of them is tested."""

    def __init__(self, computer: LockstepComputer) -> None:
        self._plant = computer.plant
        self._low = self._high = None
        step = self._plant.step

        def recorded(tau: np.ndarray) -> None:
            step(tau)
            if self._low is not None:
                q = self._plant.joint_position
                self._low, self._high = np.minimum(self._low, q), np.maximum(self._high, q)

        self._plant.step = recorded
        self.excursion = 0.0

    def start(self) -> None:
        """Begin with the next joint."""
        self.stop()
        self._low = self._high = self._first = self._plant.joint_position.copy()

    def stop(self) -> None:
        """Ignore later motion: without torque a hand falls."""
        if self._low is not None:
            moved = max((self._high - self._first).max(), (self._first - self._low).max())
            self.excursion = max(self.excursion, float(moved))
            self._low = None


def gains(joint: int, gain: float) -> tuple[float, ...]:
    return tuple(gain if j == joint else 1.0 for j in range(16))


def order(a: int, b: int) -> tuple[int, ...]:
    fingers = list(range(4))
    fingers[a], fingers[b] = b, a
    return tuple(fingers)


def _joint(rng: np.random.Generator, fault: Callable[[int], dict[str, Any]], name: str) -> Any:
    joint = int(rng.integers(16))
    return fault(joint), name.format(joint=joint)


def _fingers(rng: np.random.Generator, field: str) -> Any:
    a, b = sorted(rng.choice(4, 2, replace=False).tolist())
    return {field: order(a, b)}, rf"{FINGERS[a]} and {FINGERS[b]} are swapped"


WRONG: dict[str, tuple[bool, Callable[[np.random.Generator], tuple[dict[str, Any], str]]]] = {
    "a motor inverted": (
        False,
        lambda rng: _joint(rng, lambda j: {"motor_gain": gains(j, -1.0)}, r"joint {joint} .*inverted"),
    ),
    "an encoder inverted": (
        False,
        lambda rng: _joint(rng, lambda j: {"encoder_gain": gains(j, -1.0)}, r"joint {joint} .*inverted"),
    ),
    "all motors inverted": (False, lambda rng: ({"motor_gain": (-1.0,) * 16}, "inverted")),
    "motors of two fingers swapped": (False, lambda rng: _fingers(rng, "motor_order")),
    "angles of two fingers swapped": (False, lambda rng: _fingers(rng, "encoder_order")),
    "fingers in the wrong order": (False, lambda rng: ({"encoder_order": (1, 2, 3, 0)}, "swapped|wrong")),
    "bytes of angles swapped": (False, lambda rng: ({"swapped_angle_bytes": True}, "bytes of the angles")),
    "bytes of torques swapped": (False, lambda rng: ({"swapped_torque_bytes": True}, "bytes of the torques")),
    "an encoder frozen": (
        False,
        lambda rng: _joint(rng, lambda j: {"frozen_joint": j}, r"encoder or the motor of joint {joint} "),
    ),
    "a motor dead": (
        False,
        lambda rng: _joint(rng, lambda j: {"motor_gain": gains(j, 0.0)}, r"joint {joint} .*does not move"),
    ),
    "a motor of double strength": (
        True,
        lambda rng: _joint(rng, lambda j: {"motor_gain": gains(j, 2.0)}, r"joint {joint} .*times as far"),
    ),
    "an encoder of double scale": (
        True,
        lambda rng: _joint(
            rng, lambda j: {"encoder_gain": gains(j, 2.0)}, r"joint {joint} .*(times as far|wrong scale)"
        ),
    ),
    "a weak supply": (True, lambda rng: ({"motor_gain": (0.2,) * 16}, "the supply is weak")),
}
"""Whether a fault is tried with nominal scales; its parameters and the required diagnosis."""


def wrong_trial(name: str, seed: int) -> tuple[Trial, str]:
    """Commission a random hand with a wrong wiring; return the outcome and what is missing in it,
    empty for a success."""
    nominal, make = WRONG[name]
    faults, diagnosis = make(np.random.default_rng(seed))
    outcome = trial(random_hand(seed, nominal)._replace(with_object=False), **faults)
    if not outcome.text:
        return outcome, "passed"
    if not re.search(diagnosis, outcome.text):
        return outcome, f"named otherwise: {outcome.text}"
    if outcome.excursion >= FIVE_DEGREES:
        return outcome, f"moved {np.degrees(outcome.excursion):.1f} degrees"
    return outcome, "torque left on" if outcome.servo else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hands", type=int, default=200, help="number of good hands")
    parser.add_argument("--wirings", type=int, default=5, help="number of hands per wrong wiring")
    parser.add_argument("--seed", type=int, default=0, help="of the first hand")
    parser.add_argument("--json", type=Path, help="file for the results")
    args = parser.parse_args()
    begin, failures = time.monotonic(), []
    for seed in range(args.seed, args.seed + args.hands):
        hand = random_hand(seed)
        if text := trial(hand).text:
            failures.append({"seed": seed, "palm": hand.palm, "object": hand.with_object, "why": text})
            print(failures[-1], flush=True)
    print(f"{args.hands - len(failures)} of {args.hands} good hands passed", flush=True)
    wrong: dict[str, list[str]] = {}
    for name in WRONG:
        missing = [wrong_trial(name, seed)[1] for seed in range(args.seed, args.seed + args.wirings)]
        wrong[name] = [text for text in missing if text]
        print(
            f"{args.wirings - len(wrong[name])} of {args.wirings} named: {name} {wrong[name] or ''}",
            flush=True,
        )
    print(f"{time.monotonic() - begin:.0f} s")
    if args.json:
        args.json.write_text(
            json.dumps({"hands": args.hands, "failures": failures, "wrong": wrong}, indent=1)
        )
    return int(bool(failures or any(wrong.values())))


if __name__ == "__main__":
    sys.exit(main())
