"""Fuzzed commands, frames and faults, in simulated time.

No torque may pass a limit, nothing but consent may switch the hand on, and of several publishers only
the owner's commands may be taken.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from dexstack.cli.arguments import natural, positive_int
from dexstack.cli.output import note
from dexstack.hand.allegro import protocol
from dexstack.hand.allegro.can_hand import CanHand
from dexstack.hand.allegro.protocol import Frame
from dexstack.hand.arbiter import Arbiter, rank
from dexstack.hand.driver import Command, HandDriver
from dexstack.hand.emulated.allegro import EmulatedHand
from dexstack.hand.emulated.lockstep import LockstepComputer
from dexstack.hand.emulated.plant import HandPlant, HandPlantParams
from dexstack.hand.link import HandFault
from dexstack.hand.params import BusParams, CanHandParams, FaultParams, HandParams
from dexstack.hand.servo import ServoLaw, ServoParams
from dexstack.hand.states import HandState
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import HandModel, load_hand
from experiments.harness import Findings, run

PERIOD = 0.003
"""Simulated time of one turn [s]."""
PLANT = HandPlantParams(dry_friction=0.02, backlash=np.radians(1.0))
REPLACED = 5000
"""Turns between two changes of the publishers."""
OWNERS = HandParams().command_owners.split()
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


class _FuzzedHand:
    """An emulated hand with weight and dry friction in simulated time, its driver, and the consent that
    the driver has."""

    def __init__(
        self, hand: HandModel, seed: int, commands: Callable[[], Command | None] | None = None
    ) -> None:
        self.hand, self.rng = hand, np.random.default_rng(seed)
        self.firmware = EmulatedHand(hand.side, seed=seed)
        self.on = LockstepComputer(self.firmware, HandPlant(hand, PLANT))
        params = CanHandParams(realtime_priority=0, calibration_dir="/nonexistent")
        link = CanHand(hand.side, BusParams("virtual"), params, self.on)
        servo = ServoLaw(hand, ServoParams(), GravityCompensation(hand))
        self.driver = HandDriver(link, servo, commands)
        self.driver.ready()
        hw = self.firmware.hardware
        self._limit = np.minimum(hw.limit, np.ceil(hand.effort * hw.counts_per_Nm))
        self._over = self.without = self.trips = self.enabled = self.changes = 0
        self._consent = False

    def enable(self) -> None:
        """Enable the hand with consent, which ends if that fails."""
        self.enabled += 1
        self._consent = True
        self.driver.allow()
        try:
            self.driver.enable()
        except HandFault:
            self._consent = False

    def disturb(self, share: float) -> None:
        """Change faults, enable and stop in this share of the turns each."""
        roll = self.rng.random(3)
        if roll[0] < 2.0 * share:
            self.changes += 1
            self.on.set(**asdict(random_faults(self.rng)), power_cycle=bool(self.rng.random() < 0.05))
        if roll[1] < 3.0 * share:
            self.enable()
        if roll[2] < share:
            self._consent = False
            self.driver.ask_stop("fuzz")

    def target(self) -> np.ndarray:
        """Return random joint angles, one in ten with an impossible entry."""
        span = self.hand.upper - self.hand.lower
        q = self.hand.lower + span * self.rng.uniform(-0.05, 1.05, span.size)
        if self.rng.random() < 0.1:
            q[self.rng.integers(span.size)] = self.rng.choice(_WILD)
        return q

    def stamp(self) -> float:
        """Return a stamp, some of them stale, from the future or NaN [s]."""
        return self.on.system() - self.rng.choice([0.0, 0.0, 0.0, 1.0, -1.0, np.nan])

    def turn(self) -> None:
        """Run one turn of the driver and check it."""
        found, was_on = self.driver.fault, self.firmware.servo
        self.driver.turn(PERIOD)
        if self.driver.fault is not None and self.driver.fault is not found:
            self.trips += 1
            self._consent = False
        self._over += int(np.any(np.abs(self.firmware.counts.astype(float)) > self._limit))
        went_on = self.firmware.servo and not was_on
        driven = self.driver.state in (HandState.ENABLED, HandState.HOLD)
        self.without += not self._consent and (went_on or driven)

    @property
    def over_limit(self) -> int:
        return self._over + self.firmware.over_limit


def fuzz_hand(hand: HandModel, frames: int, seed: int) -> HandFuzzResult:
    """Put random frames (any identifier, length and content) among the hand's, and send random
    commands, while faults, enabling and stops switch at random.

    In simulated time; see :mod:`dexstack.hand.emulated.lockstep`.
    """
    fuzzed, checked = _FuzzedHand(hand, seed), 0
    rng = fuzzed.rng
    while checked < frames:
        fuzzed.disturb(0.01)
        if rng.random() < 0.8:
            fuzzed.driver.command(fuzzed.target(), fuzzed.stamp())
        for _ in range(int(rng.integers(0, 4))):
            fuzzed.on.say(_strange_frame(rng))
            checked += 1
        fuzzed.turn()
    return HandFuzzResult(
        checked, fuzzed.over_limit, fuzzed.without, fuzzed.trips, fuzzed.enabled, fuzzed.changes
    )


class PublisherFuzzResult(NamedTuple):
    """Result of :func:`fuzz_publishers`."""

    checked: int
    """Commands of all publishers."""
    taken: int
    refused: int
    displaced: int
    """Commands taken although another publisher held the lease and had the same or a higher rank."""
    starved: int
    """Commands refused although their publisher held the lease, had a higher rank than the one that did,
    or no publisher held it."""
    handovers: int
    """Changes of the owner to a higher rank."""
    expired: int
    """Changes of the owner after its lease had ended."""
    over_limit: int
    without_consent: int
    trips: int
    enabled: int
    """The last four as in :class:`HandFuzzResult`."""


class _Publisher:
    """A node that commands the joints, falls silent now and then, and returns as another process."""

    def __init__(self, name: str, rng: np.random.Generator, number: Iterator[int]) -> None:
        self.name, self.rank = name, rank(name, OWNERS)
        self._rng, self._number = rng, number
        self._until, self.sends, self.identifier = 0.0, False, 0

    def step(self, t: float) -> int:
        """Return the number of commands it sends in the turn at ``t`` [s]."""
        if t >= self._until:
            self.sends = not self.sends
            self._until = t + self._rng.exponential(0.4 if self.sends else 0.25)
            if self._rng.random() < 0.2:
                self.identifier = next(self._number)
        return int(self._rng.integers(0, 5)) if self.sends else 0


class _Lease:
    """The rule of ownership by itself, against which the arbiter is checked."""

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._owner: tuple[Any, int, float] | None = None

    def allows(self, publisher: Any, rank: int, t: float) -> tuple[bool, str]:
        """Return whether a command at ``t`` [s] has to be taken, and how the owner changes."""
        how = ""
        if self._owner is None or t - self._owner[2] > self._lease:
            how = "expired" if self._owner is not None and self._owner[0] != publisher else ""
        elif self._owner[0] != publisher:
            if rank <= self._owner[1]:
                return False, ""
            how = "handover"
        self._owner = publisher, rank, t
        return True, how


def fuzz_publishers(hand: HandModel, messages: int, seed: int) -> PublisherFuzzResult:
    """Send random commands of three publishers at once through the arbiter to the driver of an emulated
    hand, while publishers fall silent and return, and faults, enabling and stops switch at random.

    The publishers are the console of a person, the trajectory node and the planner, from time to time
    replaced by nodes that no parameter names. In simulated time.
    """
    lease = ServoParams().command_timeout
    arbiter, rule, waiting = Arbiter(lease), _Lease(lease), []
    count: Counter[str] = Counter()

    def take() -> Command | None:
        newest = None
        for publisher, of_rank, command in waiting:
            t = fuzzed.on.monotonic()
            allowed, how = rule.allows(publisher, of_rank, t)
            accepted = arbiter.accept(publisher, of_rank, t)
            count["taken" if accepted else "refused"] += 1
            count["displaced"] += accepted and not allowed
            count["starved"] += allowed and not accepted
            count[how] += bool(how)
            newest = command if accepted else newest
        waiting.clear()
        return newest

    fuzzed = _FuzzedHand(hand, seed, take)
    rng, number, checked = fuzzed.rng, itertools.count(), 0
    turns = itertools.count()
    while checked < messages:
        if next(turns) % REPLACED == 0:
            names = OWNERS if rng.random() < 0.7 else rng.permutation([*OWNERS, "forgotten", "another"])[:3]
            publishers = [_Publisher(name, rng, number) for name in names]
        fuzzed.disturb(0.001)
        sent = [(p.identifier or p.name, p.rank) for p in publishers for _ in range(p.step(fuzzed.on.t))]
        for k in rng.permutation(len(sent)):
            waiting.append((*sent[k], (fuzzed.target(), fuzzed.stamp())))
        checked += len(sent)
        fuzzed.turn()
        take()  # what no turn took, while the hand is silent
    return PublisherFuzzResult(
        checked,
        *(count[name] for name in ("taken", "refused", "displaced", "starved", "handover", "expired")),
        fuzzed.over_limit,
        fuzzed.without,
        fuzzed.trips,
        fuzzed.enabled,
    )


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


def fuzz(args: argparse.Namespace) -> Findings:
    """Fuzz the servo law, a driver with an emulated hand, and the arbiter between publishers."""
    hand = load_hand("right")
    note(f"{args.commands} commands")
    commands = fuzz_commands(hand, args.commands, args.seed)
    note(f"{max(1, args.commands // 10)} frames")
    frames = fuzz_hand(hand, max(1, args.commands // 10), args.seed)
    note(f"{args.commands} commands of three publishers")
    three = fuzz_publishers(hand, args.commands, args.seed)
    failed = commands.failed + three.displaced + three.starved
    failed += sum(part.over_limit + part.without_consent for part in (frames, three))
    results = {
        "checked": commands.checked + frames.checked + three.checked,
        "failed": failed,
        "commands": commands._asdict(),
        "frames": frames._asdict(),
        "publishers": three._asdict(),
        "passed": failed == 0,
    }
    lines = [
        f"{commands.checked} commands, {commands.taken} taken: {commands.failed} beyond a limit; "
        f"largest torque {commands.worst:.3f} of its limit",
        f"{frames.checked} frames, {frames.faults} changes of faults, {frames.trips} faults found, "
        f"{frames.enabled} times enabled: {frames.over_limit} torques beyond a limit, "
        f"{frames.without_consent} times enabled without consent",
        f"{three.checked} commands of three publishers, {three.taken} taken, {three.handovers} handovers to "
        f"a higher rank, {three.expired} after a lease had ended: {three.displaced} displaced the owner's, "
        f"{three.starved} refused wrongly, {three.over_limit} torques beyond a limit, "
        f"{three.without_consent} times enabled without consent",
    ]
    return Findings(results, lines=lines, seed=args.seed)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this rig."""
    parser.add_argument(
        "--commands",
        type=positive_int,
        default=1_000_000,
        metavar="N",
        help="random commands; a tenth as many random frames and as many commands of three publishers follow",
    )
    parser.add_argument("--seed", type=natural, default=0, metavar="S", help="seed of the random numbers")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig; return the exit code."""
    return run("tests.acceptance.fuzz", __doc__, fuzz, argv, arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
