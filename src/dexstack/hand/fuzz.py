"""Fuzzed commands, frames and faults: no torque that comes out may exceed a limit, and nothing but
consent may switch a hand on."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

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
from dexstack.model.hand import HandModel

PERIOD = 0.003
"""Simulated time of a turn [s]."""
_WILD = np.array([np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-300, 0.0, 3.0, -3.0])


class FuzzResult(NamedTuple):
    """What came out."""

    checked: int
    """Messages; each is answered by one set of torque frames, all of which are checked."""
    failed: int
    """Sets with a torque beyond a limit of the hardware or of the hand model, or with one that is
    not a number."""
    worst: float
    """Largest share of its limit that any torque took."""
    taken: int
    refused: int


def fuzz_commands(hand: HandModel, messages: int, seed: int, hardware: str = "V4") -> FuzzResult:
    """Send random commands (not a number, infinite, huge, of the wrong size, stale, from the
    future, far and near) while the joints wander.

    Gains and gravity torque are random too, far beyond what their parameters allow to set sensibly.
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
                servo.enable()  # the joints wander where they like, which no hand may; the next message is to be taken again
            counts[i] = [value for frame in frames for value in protocol.read_four(frame.data)]
        share = np.abs(counts.astype(float)) / limit
        failed += int((share.max(axis=1) > 1.0).sum())
        worst = max(worst, float(share.max()))
    return FuzzResult(messages, failed, worst, taken, refused)


class HandFuzzResult(NamedTuple):
    """What came out of a driver in front of an emulated hand under random frames, commands and
    faults."""

    checked: int
    """Random frames that were put on the bus."""
    over_limit: int
    """Torque frames beyond a limit of the hardware or of the hand model."""
    without_consent: int
    """Turns after which the driver was ENABLED, or in which the hand's servo went on, though nobody
    had enabled it since the last stop or fault. A servo that could not be told to go off, because
    all frames were lost, did not go on."""
    trips: int
    """Faults that the driver found."""
    enabled: int
    """How often the hand was enabled."""
    faults: int
    """How often what is wrong with the hand was changed."""


def fuzz_hand(hand: HandModel, frames: int, seed: int) -> HandFuzzResult:
    """Random frames (of any identifier, length and content, beside the hand's own) and random
    commands, while the hand's faults are switched and somebody enables and stops it at random. In
    simulated time; see :mod:`dexstack.hand.emulated.lockstep`."""
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
    """Anything but what switches the servo on: whoever may put that on the bus needs no driver."""
    identifier = int(rng.integers(0, 1 << 11))
    if identifier >> 2 == protocol.Command.SERVO_ON:
        identifier ^= 1 << 9
    return Frame(identifier, rng.bytes(int(rng.integers(0, 9))), bool(rng.random() < 0.1))


def random_faults(rng: np.random.Generator) -> FaultParams:
    """Nothing wrong, or one thing, or two."""
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
