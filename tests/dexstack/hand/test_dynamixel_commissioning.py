"""Commissioning and calibration of a LEAP hand: what they find, and what only a person sees."""

import numpy as np
import pytest

from dexstack.errors import ConfigError
from dexstack.hand.calibration import HELD_OUT, StopSweep, save_offsets
from dexstack.hand.commissioning import LARGEST_TORQUE, Miswired, check_at_rest, commission
from dexstack.hand.emulated.plant import SweptPlant
from tests.dexstack.hand.motors import LEAP, line, link
from tests.dexstack.hand.test_wiring import gains

SPAN = 5.0
"""No joint moves by more than that [°]."""


def commissioned(announced=None, **faults):
    """The results, and the line; ``announced`` gets each joint and the angles when it is announced."""
    announced = [] if announced is None else announced
    on = line(**faults)
    hand = link(on)
    travelled = []
    step = on.plant.step
    on.plant.step = lambda tau: (step(tau), travelled.append(on.plant.joint_position.copy()))
    try:
        hand.start()
        check_at_rest(hand.read(0.1), LEAP, hand.rad_per_count)
        return commission(
            hand, LEAP, announce=lambda joint: announced.append((joint, on.plant.joint_position.copy()))
        ), on
    finally:
        hand.close()
        assert not on.hand.servo
        assert not travelled or np.degrees(np.ptp(travelled, axis=0)).max() < SPAN


@pytest.mark.parametrize("noise", [pytest.param(0.0, marks=pytest.mark.slow), 5e-4])
def test_a_good_hand_passes(noise):
    results, on = commissioned(encoder_noise=noise)
    assert [r.joint for r in results] == list(range(16)) and on.set()["over_limit"] == 0
    assert all(
        r.largest_torque <= LARGEST_TORQUE and r.mobility == pytest.approx(10.0, rel=0.3) for r in results
    )


MISWIRED = {
    "joint 5 .middle. is inverted": {"motor_gain": gains(5, -1.0)},
    "joint 1 .index. is inverted": {"encoder_gain": gains(1, -1.0)},
    "far outside its limits: inverted": {"encoder_gain": gains(13, -1.0)},
    "joint 7 .middle. moved 2.. times": {"motor_gain": gains(7, 2.0)},
    "encoder or the motor of joint 9 .ring. is dead": {"frozen_joint": 9},
    "joint 3 .index. does not move|motor of joint 3 .index. is dead": {"motor_gain": gains(3, 0.0)},
    "the supply is weak": {"motor_gain": (0.2,) * 16},
    "joint 13 reads .* far outside its limits": {
        "swapped_motors": (13, 14),
        "leap_joint": 14,
        "encoder_leap": -2.6,
    },
}


@pytest.mark.parametrize(
    "name",
    [*list(MISWIRED)[:2], *(pytest.param(name, marks=pytest.mark.slow) for name in list(MISWIRED)[2:])],
)
def test_a_wrong_hand_is_called_by_its_name(name):
    with pytest.raises(Miswired, match=name) as caught:
        commissioned(**MISWIRED[name])
    assert caught.value.remedy


def sweep(on) -> StopSweep:
    """As ``dexstack calibrate hand`` does."""
    hand = link(on)
    hand.identify()
    hand.stream()
    stops = StopSweep(LEAP.lower, LEAP.upper)
    end = on.t + 6.0
    while on.t < end:
        feedback = hand.read(0.02)
        if feedback is not None:
            stops.add(feedback.q)
    hand.close()
    return stops


def swept(**more):
    return line(plant=SweptPlant(LEAP), **more)


def test_zero_offsets_are_measured(tmp_path):
    offsets = np.linspace(-0.2, 0.2, 16)
    stops = sweep(swept(emulated={"zero_offsets": tuple(offsets)}))
    assert stops.complete
    np.testing.assert_allclose(stops.offsets, offsets, atol=HELD_OUT / 4)


@pytest.mark.parametrize(
    ("joints", "found"),
    [
        ((0, 1), True),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (((12, 14), True), ((4, 6), True), ((2, 3), False), ((1, 5), False))
        ),
    ],
)
def test_swapped_numbers_obey_and_are_found_at_the_stops_or_by_a_person(joints, found):
    """Each obeys its torque, so that motion does not reveal it; their stops do where they differ.
    Every joint is announced before it moves: a person sees another one move."""
    announced = []
    results, _ = commissioned(announced, swapped_motors=joints)
    assert sorted(joint for joint, _ in announced) == list(range(16)) and len(results) == 16
    k = next(k for k, (joint, _) in enumerate(announced) if joint in joints)
    moved = np.abs(announced[k + 1][1] - announced[k][1])
    assert {announced[k][0], int(np.argmax(moved))} == set(joints), "another joint than the announced one"
    assert sweep(swept(swapped_motors=joints)).complete is not found


def test_a_horn_mounted_a_quarter_turn_off_is_refused(tmp_path):
    stops = sweep(swept(leap_joint=6, encoder_leap=np.pi / 2))
    with pytest.raises(ConfigError, match="joint 6 would have an offset"):
        save_offsets(tmp_path, "LEAP_X", stops.offsets, measured="today", held_out=0.0)
