"""Fuzzed command messages through servo and protocol: no torque that comes out may exceed a limit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dexstack.hand import protocol
from dexstack.hand.servo import ServoLaw, ServoParams
from dexstack.model.hand import HandModel

_WILD = np.array([np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-300, 0.0, 3.0, -3.0])


class FuzzResult(NamedTuple):
    """What came out."""

    checked: int
    """Messages; each is answered by one set of torque frames, all of which are checked."""
    failed: int
    """Sets with a torque beyond a limit of the hardware or of the hand model, or with one that is not a number."""
    worst: float
    """Largest share of its limit that any torque took."""
    taken: int
    refused: int


def fuzz_commands(hand: HandModel, messages: int, seed: int, hardware: str = "V4") -> FuzzResult:
    """Send random commands (not a number, infinite, huge, of the wrong size, stale, from the future, far and near) while the joints wander.

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
        params = ServoParams(kp=rng.uniform(0.0, 10.0), kd=rng.uniform(0.0, 1.0), slew_rate=rng.uniform(1.0, 100.0), startup_time=0.01)
        weight = rng.uniform(0.0, 3.0) * rng.choice([1.0, 1e3, np.nan], p=[0.9, 0.09, 0.01])
        servo = ServoLaw(hand, params, lambda q, w=weight: w * np.cos(q))
        span = hand.upper - hand.lower
        commands = hand.lower + span * rng.uniform(-0.05, 1.05, (count, n))
        wild = rng.random(count) < 0.3
        where = (rng.random((count, n)) < 0.2) & wild[:, None]
        commands[where] = rng.choice(_WILD, where.sum())
        ages = np.where(rng.random(count) < 0.05, rng.choice([1.0, -1.0, 1e9, np.nan], count), rng.uniform(0.0, 0.02, count))
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
