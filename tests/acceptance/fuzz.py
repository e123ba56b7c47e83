"""Fuzzed commands, frames and faults, in simulated time.

No torque may pass a limit, and nothing but consent may switch the hand on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from dexstack.cli.arguments import natural, positive_int
from dexstack.cli.output import note
from dexstack.hand.allegro import protocol
from dexstack.hand.allegro.can_hand import CanHand
from dexstack.hand.allegro.protocol import Frame
from dexstack.hand.driver import HandDriver
from dexstack.hand.emulated.allegro import EmulatedHand
from dexstack.hand.emulated.lockstep import LockstepComputer
from dexstack.hand.emulated.plant import WEIGHTLESS, HandPlant
from dexstack.hand.link import HandFault
from dexstack.hand.params import BusParams, CanHandParams, FaultParams
from dexstack.hand.servo import ServoLaw, ServoParams
from dexstack.hand.states import HandState
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import HandModel, load_hand
from experiments.harness import Outcome, run

PERIOD = 0.003
"""Simulated time of one turn [s]."""
_WILD = np.array([np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-300, 0.0, 3.0, -3.0])


class FuzzResult(NamedTuple):
    """Result of :func:`fuzz_commands`."""

    checked: int
    """Commands, each answered by one checked set of torque frames."""
    failed: int
    """Sets with a NaN, or a torque beyond a limit of the hardware or of the hand model."""
    worst: float
    """Largest torque, as a share of its limit."""
    taken: int
    refused: int


def fuzz_commands(hand: HandModel, messages: int, seed: int, hardware: str = "V4") -> FuzzResult:
    """Send random commands (NaN, infinite, huge, of the wrong size, stale, from the future, far and
    near) while the joints wander.

    Gains and gravity torque are random too, far beyond sensible values.
    """
    rng = np.random.default_rng(seed)
    hw = protocol.hardware(hardware)
    limit = np.minimum(hw.limit, np.ceil(hand.effort * hw.counts_per_Nm))
    block, n = 4096, hand.lower.size
    failed = taken = refused = 0
    worst, t, servo = 0.0, 0.0, None
    for first in range(0, messages, block):
        count = min(block, messages - first)
        params = ServoParams(
            kp=rng.uniform(0.0, 10.0),
            kd=rng.uniform(0.0, 1.0),
            slew_rate=rng.uniform(1.0, 100.0),
            startup_time=0.01,
        )
        weight = rng.uniform(0.0, 3.0) * rng.choice([1.0, 1e3, np.nan], p=[0.9, 0.09, 0.01])
        servo = ServoLaw(hand, params, lambda q, w=weight: w * np.cos(q))
        span = hand.upper - hand.lower
        commands = hand.lower + span * rng.uniform(-0.05, 1.05, (count, n))
        wild = rng.random(count) < 0.3
        where = (rng.random((count, n)) < 0.2) & wild[:, None]
        commands[where] = rng.choice(_WILD, where.sum())
        ages = np.where(
            rng.random(count) < 0.05,
            rng.choice([1.0, -1.0, 1e9, np.nan], count),
            rng.uniform(0.0, 0.02, count),
        )
        sizes = np.where(rng.random(count) < 0.02, rng.integers(0, n, count), n)
        q = hand.lower + span * np.clip(0.5 + np.cumsum(rng.normal(0.0, 0.02, (count, n)), axis=0), 0.0, 1.0)
        q[rng.random(count) < 0.01] = np.nan
        counts = np.empty((count, n), np.int16)
        for i in range(count):
            t += 0.003
            if servo.set_command(commands[i, : sizes[i]], t - ages[i]) is None:
                taken += 1
            else:
                refused += 1
            values = hw.torque_to_counts(servo.step(q[i], t).tau).tolist()
            frames = (protocol.set_torque(f, values[4 * f : 4 * f + 4]) for f in range(protocol.FINGERS))
            if servo.trip is not None:
                servo.enable()  # the random walk of the joints trips the watch; take the next command again
            counts[i] = [value for frame in frames for value in protocol.read_four(frame.data)]
        share = np.abs(counts.astype(float)) / limit
        failed += int((share.max(axis=1) > 1.0).sum())
        worst = max(worst, float(share.max()))
    return FuzzResult(messages, failed, worst, taken, refused)


class HandFuzzResult(NamedTuple):
    """Result of :func:`fuzz_hand`."""

    checked: int
    """Random frames put on the bus."""
    over_limit: int
    """Torque frames beyond a limit of the hardware or of the hand model."""
    without_consent: int
    """Turns after which the driver was ENABLED, or in which the hand's servo switched on, without
    an enable since the last stop or fault. A servo that stayed on because all frames were lost is
    not counted."""
    trips: int
    """Faults that the driver found."""
    enabled: int
    """Times the hand was enabled."""
    faults: int
    """Changes of the hand's faults."""


def fuzz_hand(hand: HandModel, frames: int, seed: int) -> HandFuzzResult:
    """Put random frames (any identifier, length and content) among the hand's, and send random
    commands, while faults, enabling and stops switch at random.

    In simulated time; see :mod:`dexstack.hand.emulated.lockstep`.
    """
    rng = np.random.default_rng(seed)
    firmware = EmulatedHand(hand.side, seed=seed)
    on = LockstepComputer(firmware, HandPlant(hand, WEIGHTLESS))
    link = CanHand(
        hand.side,
        BusParams("virtual"),
        CanHandParams(realtime_priority=0, calibration_dir="/nonexistent"),
        on,
    )
    driver = HandDriver(link, ServoLaw(hand, ServoParams(), GravityCompensation(hand)))
    driver.ready()
    limit = np.minimum(firmware.hardware.limit, np.ceil(hand.effort * firmware.hardware.counts_per_Nm))
    checked = over = without = trips = enabled = changes = 0
    consent = False
    span = hand.upper - hand.lower
    while checked < frames:
        roll = rng.random(6)
        if roll[0] < 0.02:
            changes += 1
            on.set(**asdict(random_faults(rng)), power_cycle=bool(rng.random() < 0.05))
        if roll[1] < 0.03:
            enabled += 1
            consent = True
            driver.allow()
            try:
                driver.enable()
            except HandFault:
                consent = False
        if roll[2] < 0.01:
            consent = False
            driver.ask_stop("fuzz")
        if roll[3] < 0.8:
            q = hand.lower + span * rng.uniform(-0.05, 1.05, span.size)
            if roll[4] < 0.1:
                q[rng.integers(span.size)] = rng.choice(_WILD)
            driver.command(q, on.system() - rng.choice([0.0, 0.0, 0.0, 1.0, -1.0, np.nan]))
        for _ in range(int(rng.integers(0, 4))):
            on.say(_strange_frame(rng))
            checked += 1
        found, was_on = driver.fault, firmware.servo
        driver.turn(PERIOD)
        if driver.fault is not None and driver.fault is not found:
            trips += 1
            consent = False
        over += int(np.any(np.abs(firmware.counts.astype(float)) > limit))
        went_on = firmware.servo and not was_on
        without += not consent and (went_on or driver.state in (HandState.ENABLED, HandState.HOLD))
    return HandFuzzResult(checked, over + firmware.over_limit, without, trips, enabled, changes)


def _strange_frame(rng: np.random.Generator) -> Frame:
    """Return a random frame, except one that switches the servo on."""
    identifier = int(rng.integers(0, 1 << 11))
    if identifier >> 2 == protocol.Command.SERVO_ON:
        identifier ^= 1 << 9
    return Frame(identifier, rng.bytes(int(rng.integers(0, 9))), bool(rng.random() < 0.1))


def random_faults(rng: np.random.Generator) -> FaultParams:
    """Draw no fault, one or two."""
    choices: list[dict[str, Any]] = [
        {},
        {"silent": True},
        {"silent_finger": int(rng.integers(4))},
        {"loss": float(rng.choice([0.02, 0.3, 1.0]))},
        {"over_temperature": True},
        {"communication_fault": True},
        {"silent_status": True},
        {"refuses_servo": True},
        {"bus_off": True},
        {"latency": float(rng.choice([0.002, 0.02, 0.1])), "jitter": 0.003},
        {"celsius": tuple(int(c) for c in rng.choice([-60, 30, 60, 90], 4))},
        {"motor_gain": tuple(rng.choice([-1.0, 0.0, 0.2, 1.0, 2.0], 16).tolist())},
        {"encoder_gain": tuple(rng.choice([-1.0, 1.0, 2.0], 16).tolist())},
        {"motor_order": tuple(int(k) for k in rng.permutation(4))},
        {"encoder_order": tuple(int(k) for k in rng.permutation(4))},
        {"frozen_joint": int(rng.integers(16))},
        {"leap_joint": int(rng.integers(16)), "encoder_leap": float(rng.uniform(-1.0, 1.0))},
        {"encoder_noise": float(rng.choice([1e-4, 1e-2]))},
        {"swapped_angle_bytes": True},
        {"swapped_torque_bytes": True},
    ]
    first, second = rng.integers(len(choices), size=2)
    return FaultParams(**{**choices[first], **(choices[second] if rng.random() < 0.3 else {})})


def fuzz(args: argparse.Namespace) -> Outcome:
    """Fuzz the servo law, then a driver with an emulated hand."""
    hand = load_hand("right")
    note(f"{args.commands} commands")
    commands = fuzz_commands(hand, args.commands, args.seed)
    note(f"{max(1, args.commands // 10)} frames")
    frames = fuzz_hand(hand, max(1, args.commands // 10), args.seed)
    failed = commands.failed + frames.over_limit + frames.without_consent
    results = {
        "checked": commands.checked + frames.checked,
        "failed": failed,
        "commands": commands._asdict(),
        "frames": frames._asdict(),
        "passed": failed == 0,
    }
    lines = [
        f"{commands.checked} commands, {commands.taken} taken: {commands.failed} beyond a limit; "
        f"largest torque {commands.worst:.3f} of its limit",
        f"{frames.checked} frames, {frames.faults} changes of faults, {frames.trips} faults found, "
        f"{frames.enabled} times enabled: {frames.over_limit} torques beyond a limit, "
        f"{frames.without_consent} times enabled without consent",
    ]
    return Outcome(results, lines=lines, seed=args.seed)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this rig."""
    parser.add_argument(
        "--commands",
        type=positive_int,
        default=1_000_000,
        metavar="N",
        help="random commands; a tenth as many random frames follow",
    )
    parser.add_argument("--seed", type=natural, default=0, metavar="S", help="seed of the random numbers")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig; return the exit code."""
    return run("tests.acceptance.fuzz", __doc__, fuzz, argv, arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
