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
from scipy.spatial.transform import Rotation

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


def random_hand(seed: int, nominal_scale: bool = False) -> RandomHand:
    """Draw a hand whose palm is turned about the x axis of the world."""
    rng = np.random.default_rng(seed)
    k = seed % len(PALMS)
    params = HandPlantParams(
        dry_friction=rng.uniform(0.0, 0.05, 16),
        backlash=np.radians(1.0),
        damping=1.0 if nominal_scale else rng.uniform(0.5, 1.5),
        strength=1.0 if nominal_scale else rng.uniform(0.8, 1.2, 16),
    )
    model, turn = load_hand("right"), Rotation.from_euler("x", 90.0 * k, degrees=True)
    quat = turn * Rotation.from_quat(model.quat_WP, scalar_first=True)
    model = replace(model, quat_WP=quat.as_quat(scalar_first=True))
    return RandomHand(model, params, PALMS[k], k == 0 and bool(seed // len(PALMS) % 2))


class TrackedPlant(HandPlant):
    """Measures how far the joints move while one of them is tested."""

    first: np.ndarray | None = None
    """Positions at the beginning of a joint's test [rad]; None: motion is ignored, as that of a hand that
    falls without torque."""
    excursion = 0.0

    def step(self, tau: np.ndarray) -> None:
        super().step(tau)
        if self.first is not None:
            self.excursion = max(self.excursion, float(np.abs(self.joint_position - self.first).max()))


def trial(hand: RandomHand, driver: type[CanHand] = CanHand, **faults: Any) -> Trial:
    """Commission a hand with these faults, in simulated time."""
    firmware = EmulatedHand("right")
    firmware.inject(FaultParams(**{"encoder_noise": NOISE, **faults}))
    _, obj, start = PalmTurn().setup() if hand.with_object else (None, None, None)
    plant = TrackedPlant(hand.model, hand.params, obj, start and start.pose_WO)
    params = CanHandParams(realtime_priority=0, calibration_dir="/nonexistent")
    link = driver("right", BusParams("virtual"), params, LockstepComputer(firmware, plant))
    results, text, seconds, servo = [], "", 0.0, False
    try:
        link.start()
        check_at_rest(link.read(0.1), hand.model, link.rad_per_count)
        begin = lambda joint: setattr(plant, "first", plant.joint_position.copy())  # noqa: E731
        results = commission(link, hand.model, announce=begin)
    except HandFault as fault:
        text, seconds = str(fault), getattr(fault, "seconds", 0.0)
        servo = firmware.servo and bool(firmware.counts.any())
        plant.first = None
    finally:
        link.close()
    return Trial(text, results, plant.excursion, seconds, servo)


def gains(joint: int, gain: float) -> tuple[float, ...]:
    """Return gains of 16 joints, one of them not 1."""
    return tuple(gain if j == joint else 1.0 for j in range(16))


def order(a: int, b: int) -> tuple[int, ...]:
    """Return the order of the fingers with two of them swapped."""
    return tuple({a: b, b: a}.get(finger, finger) for finger in range(4))


SWAPPED = "{first} and {second} are swapped"
WRONG: dict[str, tuple[bool, Callable[[int, int, int], dict[str, Any]], str]] = {
    "a motor inverted": (False, lambda j, *_: {"motor_gain": gains(j, -1.0)}, "joint {joint} .*inverted"),
    "an encoder inverted": (
        False,
        lambda j, *_: {"encoder_gain": gains(j, -1.0)},
        "joint {joint} .*inverted",
    ),
    "all motors inverted": (False, lambda *_: {"motor_gain": (-1.0,) * 16}, "inverted"),
    "motors of two fingers swapped": (False, lambda _, a, b: {"motor_order": order(a, b)}, SWAPPED),
    "angles of two fingers swapped": (False, lambda _, a, b: {"encoder_order": order(a, b)}, SWAPPED),
    "fingers in the wrong order": (False, lambda *_: {"encoder_order": (1, 2, 3, 0)}, "swapped|wrong"),
    "bytes of angles swapped": (False, lambda *_: {"swapped_angle_bytes": True}, "bytes of the angles"),
    "bytes of torques swapped": (False, lambda *_: {"swapped_torque_bytes": True}, "bytes of the torques"),
    "an encoder frozen": (False, lambda j, *_: {"frozen_joint": j}, "encoder or the motor of joint {joint} "),
    "a motor dead": (False, lambda j, *_: {"motor_gain": gains(j, 0.0)}, "joint {joint} .*does not move"),
    "a motor of double strength": (
        True,
        lambda j, *_: {"motor_gain": gains(j, 2.0)},
        "joint {joint} .*times as far",
    ),
    "an encoder of double scale": (
        True,
        lambda j, *_: {"encoder_gain": gains(j, 2.0)},
        "joint {joint} .*(times as far|wrong scale)",
    ),
    "a weak supply": (True, lambda *_: {"motor_gain": (0.2,) * 16}, "the supply is weak"),
}
"""Whether a fault is tried with nominal scales, its parameters for a joint and two fingers, and the
required diagnosis."""


def wrong_trial(name: str, seed: int) -> tuple[Trial, str]:
    """Commission a random hand with a wrong wiring; return the outcome and what is missing in it,
    empty for a success."""
    nominal, faults, diagnosis = WRONG[name]
    joint = int(np.random.default_rng(seed).integers(16))
    a, b = sorted(np.random.default_rng(seed).choice(4, 2, replace=False).tolist())
    wanted = diagnosis.format(joint=joint, first=FINGERS[a], second=FINGERS[b])
    outcome = trial(random_hand(seed, nominal)._replace(with_object=False), **faults(joint, a, b))
    if not outcome.text:
        return outcome, "passed"
    if not re.search(wanted, outcome.text):
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
