"""Every way in which a hand can be wired wrongly ends with the servo off before a joint has gone 5
degrees away from its targets."""

import numpy as np
import pytest

from dexstack.hand.link import FaultKind
from dexstack.hand.servo import ServoParams
from dexstack.hand.watch import WatchParams
from tests.dexstack.hand.emulated import HAND
from tests.dexstack.hand.wired import Driven, computer

FIVE_DEGREES = np.radians(5.0)
SEEDS = (0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2)))
SECONDS = 4.0
"""How long the joints wander, unless there is a fault before."""


def driven(on) -> Driven:
    """A driver at default parameters."""
    return Driven(on, ServoParams())


def gains(joint: int, gain: float) -> tuple[float, ...]:
    return tuple(gain if j == joint else 1.0 for j in range(16))


def swapped(a: int, b: int) -> tuple[int, ...]:
    order = list(range(4))
    order[a], order[b] = b, a
    return tuple(order)


def wander(seed: int):
    """Targets that move every joint: sums of sines around where the hand stands."""
    rng = np.random.default_rng(seed)
    middle = np.clip(HAND.home, HAND.lower + 0.25, HAND.upper - 0.25)
    size, rate, phase = rng.uniform(0.1, 0.25, 16), rng.uniform(0.3, 1.2, 16), rng.uniform(0.0, 6.28, 16)
    return lambda t: middle + size * np.sin(2 * np.pi * rate * t + phase)


MISWIRED = {
    "motor inverted": lambda rng: dict(motor_gain=gains(rng.integers(16), -1.0)),
    "encoder inverted": lambda rng: dict(encoder_gain=gains(rng.integers(16), -1.0)),
    "all motors inverted": lambda rng: dict(motor_gain=(-1.0,) * 16),
    "motors of two fingers swapped": lambda rng: dict(motor_order=swapped(*rng.choice(4, 2, replace=False))),
    "angles of two fingers swapped": lambda rng: dict(
        encoder_order=swapped(*rng.choice(4, 2, replace=False))
    ),
    "fingers in the wrong order": lambda rng: dict(encoder_order=(1, 2, 3, 0)),
    "bytes of angles swapped": lambda rng: dict(swapped_angle_bytes=True),
    "bytes of torques swapped": lambda rng: dict(swapped_torque_bytes=True),
    "encoder dead": lambda rng: dict(frozen_joint=int(rng.integers(16))),
    "motor dead": lambda rng: dict(motor_gain=gains(rng.integers(16), 0.0)),
    "motor of double strength": lambda rng: dict(motor_gain=gains(rng.integers(16), 2.0)),
    "weak supply": lambda rng: dict(motor_gain=(0.2,) * 16),
}
GO_NOWHERE = {"motor dead", "motor of double strength", "weak supply"}
"""Faults that cause no uncommanded motion: commissioning finds them, and a target that stays out of
reach. An encoder of double scale shows the same response to torque as a good one while the friction
is unknown: only commissioning finds it."""


@pytest.mark.parametrize("name", MISWIRED)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_miswired_hand_is_stopped_before_it_goes_5_degrees(name, seed):
    on = computer(**MISWIRED[name](np.random.default_rng(seed)))
    with driven(on) as hand:
        found = hand.follow(wander(seed), SECONDS)
        assert hand.excursion < FIVE_DEGREES, f"{np.degrees(hand.excursion):.1f} degrees, {hand.fault}"
        if name not in GO_NOWHERE:
            assert found, "not noticed"
        if found:
            assert not on.hand.servo and not on.hand.torque.any()


@pytest.mark.parametrize(
    "joint", [2, 5, 9, 12, *(pytest.param(j, marks=pytest.mark.slow) for j in (6, 13, 15))]
)
def test_an_inverted_motor_that_pushes_its_joint_onto_a_stop_is_found(joint):
    """A limp hand rests on its stops; the joint stays there, so that no motion shows the fault."""
    with driven(computer(motor_gain=gains(joint, -1.0), encoder_noise=2e-4)) as hand:
        hand.run(0.5)
        start = hand.on.t
        hand.low = hand.high = hand.travelled[-1]
        hand.travelled.clear()
        assert hand.follow(wander(joint), 1.2), "not noticed"
        assert hand.fault.kind is FaultKind.RUNAWAY and f"joint {joint} " in str(hand.fault)
        assert hand.excursion < FIVE_DEGREES and hand.on.t - start < 1.2


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("noise", [0.0, 3e-4])
def test_a_good_hand_is_left_alone(seed, noise):
    with driven(computer(encoder_noise=noise)) as hand:
        assert not hand.follow(wander(seed), SECONDS), hand.fault


def test_wires_are_judged_until_a_joint_has_shown_that_it_obeys():
    """And again after every enable. A joint that is known to obey may be pushed back just as a wrong
    wire would do it."""
    on = computer()
    with driven(on) as hand:
        assert not hand.follow(wander(0), 1.0)
        on.set(motor_gain=(-1.0,) * 16)
        assert hand.follow(wander(0), 2.0) and hand.excursion > FIVE_DEGREES
        on.plant.joint_position = HAND.home.copy()
        hand.enable()
        hand.low = hand.high = HAND.home
        hand.travelled.clear()
        assert (
            hand.follow(wander(0), 1.0)
            and hand.fault.kind is FaultKind.RUNAWAY
            and hand.excursion < FIVE_DEGREES
        )


def test_a_leap_of_an_encoder_does_not_hide_behind_a_lost_set():
    on = computer()
    with driven(on) as hand:
        assert not hand.follow(wander(0), 0.5)
        on.set(silent=True)
        hand.run(0.003)
        on.set(silent=False, leap_joint=14, encoder_leap=0.12)
        assert hand.follow(wander(0), 0.05) and hand.fault.kind is FaultKind.ENCODER


def test_a_stuck_joint_is_found_when_its_target_stays_out_of_reach():
    with driven(computer(motor_gain=gains(2, 0.0), encoder_noise=1e-4)) as hand:
        assert hand.follow(lambda t: np.where(np.arange(16) == 2, 0.7, HAND.home), 2.0)
        assert hand.fault.kind is FaultKind.FOLLOWING_ERROR and "joint 2" in str(hand.fault)


@pytest.mark.parametrize("joint", [0, 5, 10, 12, 15])
@pytest.mark.parametrize("dt", [0.0015, 0.002, pytest.param(0.0025, marks=pytest.mark.slow)])
def test_an_inverted_motor_with_inertia_and_gravity(joint, dt):
    """On the simulated hand, the object out of the way. Where its step does not divide the servo's
    period, what is sampled between two steps moves by fits and starts, as on a hand that measures
    on a clock of its own."""
    from dexstack.model.objects import load_object
    from dexstack.plants.mujoco import MujocoPlant, MujocoPlantParams

    plant = MujocoPlant(HAND, load_object("cube"), MujocoPlantParams(dt=dt))
    for faults, wrong in (({}, False), ({"motor_gain": gains(joint, -1.0)}, True)):
        with driven(computer(plant=plant, **faults)) as hand:
            plant.reset(
                HAND.home, np.array([0.0, 0.0, -1.0, 1.0, 0.0, 0.0, 0.0])
            )  # without torque the fingers have sunk meanwhile
            hand.low = hand.high = HAND.home
            assert hand.follow(wander(1), 1.5) == wrong, hand.fault
            assert hand.excursion < FIVE_DEGREES


@pytest.mark.slow
@pytest.mark.parametrize("dt", [0.002, 0.0015])
def test_a_hand_that_turns_an_object_is_left_alone(dt):
    """The object pushes its joints against their torques again and again, also where angles come
    evenly and a steady push looks like a wrong wire."""
    from dexstack.graph.settings import Spec
    from dexstack.sim.loop import Loop
    from dexstack.trials.sweep import loop_of

    loop: Loop = loop_of(Spec("palm_turn", "cube", "right", (), (("dt", dt),), "mujoco"))
    loop.servo.watch.params = WatchParams()  # a trial's own doubts no wire
    against = []
    look = loop.servo.watch.look

    def watched(*arguments):
        trip = look(*arguments)
        against.append(loop.servo.watch.opposed.max())
        return trip

    loop.servo.watch.look = watched
    for k, yaw in enumerate((np.pi, -np.pi / 2)):
        loop.run(k, 700, 8.0, goals=iter([loop.task.at_yaw(yaw)] * 100))
        assert loop.servo.trip is None, str(loop.servo.trip)
    assert max(against) > loop.servo.watch.params.doubtful_runaway, (
        "nothing pushed a joint far enough to be looked at"
    )
