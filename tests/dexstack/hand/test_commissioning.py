"""Commissioning passes good hands with weight, dry friction and backlash, and names wrong wirings
after little motion. More of both: ``tests/acceptance/commissioning.py``."""

import re
from dataclasses import replace

import numpy as np
import pytest

from dexstack.errors import ConfigError
from dexstack.hand.allegro.can_hand import CanHand
from dexstack.hand.commissioning import (
    LARGEST_TORQUE,
    Miswired,
    check_at_rest,
    check_commissioned,
    commission,
    commissioning_file,
    save_commissioning,
)
from dexstack.hand.emulated.lockstep import LockstepComputer
from dexstack.hand.emulated.plant import WEIGHTLESS, HandPlant, HandPlantParams
from tests.acceptance.commissioning import FIVE_DEGREES, WRONG, gains, random_hand, trial, wrong_trial
from tests.dexstack.hand.emulated import HAND
from tests.dexstack.hand.wired import PERIOD, Driven, computer


def started(**faults) -> tuple[CanHand, LockstepComputer]:
    on = computer(**faults)
    link = Driven(on).link
    link.start()
    return link, on


@pytest.mark.parametrize("noise", [0.0, 5e-4])
def test_a_good_hand_passes(noise):
    link, on = started(encoder_noise=noise)
    results = commission(link, HAND)
    assert [r.joint for r in results] == list(range(16)) and not on.hand.counts.any()
    for r in results:
        assert np.radians(2.5) < r.moved < np.radians(4.7) and r.others < np.radians(1.0)
        assert 0.0 < r.largest_torque <= LARGEST_TORQUE + 0.06 and r.mobility == pytest.approx(10.0, rel=0.3)


def test_the_limit_of_the_push_grows_by_the_weight_in_the_direction_of_gravity_given():
    """A palm that looks down, under 2.5 g: the finger is lifted with more than without its weight."""
    down = 2.5 * np.array([0.0, 0.0, 9.81])
    plant = HandPlant(HAND, HandPlantParams(acceleration=down, dry_friction=0.02))
    for gravity, lifted in ((down, True), (None, False)):
        link = Driven(computer(plant=plant, encoder_noise=2e-4)).link
        link.start()
        (result,) = commission(link, HAND, (1,), gravity=gravity)
        assert (result.largest_torque > LARGEST_TORQUE + 0.003) == lifted


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(k, marks=pytest.mark.slow) for k in (0, 2, 3, 4, 5, 1131))]
)
def test_random_good_hands_pass(seed):
    hand = random_hand(seed)
    outcome = trial(hand)
    assert outcome.text == ""
    true = hand.params.strength / (hand.params.damping * hand.model.damping)
    measured = np.array([r.mobility for r in outcome.results])
    if not hand.with_object:
        np.testing.assert_allclose(measured, true, rtol=0.35)
    friction = [0.5 * (r.breakaway[0] - r.breakaway[1]) for r in outcome.results] * hand.params.strength
    assert np.median(np.abs(friction - hand.params.dry_friction)) < 0.015


@pytest.mark.parametrize(
    "name", [*list(WRONG)[:4], *(pytest.param(name, marks=pytest.mark.slow) for name in list(WRONG)[4:])]
)
def test_wrong_wirings_are_named_before_5_degrees_of_motion(name):
    outcome, missing = wrong_trial(name, seed=1)
    assert not missing, outcome
    assert outcome.excursion < FIVE_DEGREES and outcome.seconds <= 0.05


class Stalling(CanHand):
    """A driver's computer that stands still now and then while it drives the hand."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.rng = np.random.default_rng(0)

    def write(self, tau):
        if self.rng.random() < 0.01:
            self.computer.sleep(self.rng.uniform(0.0, 0.06))
        super().write(tau)


@pytest.mark.parametrize("gain, found", [(1.0, ""), (2.0, "joint 7 .* times as far as the other joints")])
def test_a_busy_computer_changes_no_verdict(gain, found):
    hand = random_hand(0, nominal_scale=True)
    hand = hand._replace(params=replace(hand.params, dry_friction=0.02))
    outcome = trial(hand, Stalling, motor_gain=gains(7, gain))
    assert re.search(found, outcome.text) if found else not outcome.text


def test_a_motor_that_pushes_into_a_stop_is_tried_in_the_other_direction():
    """Under its weight the hand rests at stops; an inverted motor pushes it further into them."""
    hand = random_hand(2)._replace(params=HandPlantParams())
    outcome = trial(hand, motor_gain=(-1.0,) * 16)
    assert "inverted" in outcome.text and outcome.excursion < FIVE_DEGREES


@pytest.mark.parametrize("other", [0, 14])
def test_the_push_ends_in_the_tick_in_which_another_joint_moves(other):
    """A person touches another joint while joint 9 is out; a second touch ends everything. Without
    weight, which would move the joints that are not held."""
    link, on = started(plant=HandPlant(HAND, WEIGHTLESS))
    touched, torques, step = [], [], on.plant.step

    def touch(tau):
        step(tau)
        torques.append((on.t, abs(tau[9])))
        q = on.plant.joint_position
        waited = not touched or on.t > touched[-1] + 0.1
        if tau[9] != 0.0 and len(touched) < 2 and waited and abs(q[9] - start[9]) > 0.02:
            q[other] += np.radians(2.0) * (1 if HAND.home[other] < 1.0 else -1)
            on.plant.joint_position = q
            touched.append(on.t)
            start[:] = q

    start = on.plant.joint_position.copy()
    on.plant.step = touch
    with pytest.raises(Miswired, match=r"joint 9 .*does not move"):
        commission(link, HAND)
    assert len(touched) == 2 and not on.hand.torque.any()
    for begin in touched:
        after = [torque for t, torque in torques if begin + 2 * PERIOD < t < begin + 0.1]
        assert not any(after)


def test_an_encoder_that_leapt_is_refused_before_anything_moves():
    link, on = started(leap_joint=4, encoder_leap=2.5)
    with pytest.raises(Miswired, match=r"joint 4 reads .* far outside"):
        check_at_rest(link.read(0.1), HAND, link.rad_per_count)
    assert not on.hand.counts.any()


def test_a_hot_hand_is_not_commissioned():
    link, on = started(celsius=(40, 40, 62, 40))
    for _ in range(100):
        link.read(0.01)
    with pytest.raises(Miswired, match="a sensor is at 62 °C"):
        commission(link, HAND)
    assert on.set()["largest"] == 0.0


def test_the_result_is_kept_by_serial_number(tmp_path):
    with pytest.raises(ConfigError, match=r"never commissioned.*diagnose hand --all"):
        check_commissioned(tmp_path, "ABC")
    results = commission(started()[0], HAND)
    path = save_commissioning(tmp_path, "ABC", results, measured="today", hardware="V4")
    check_commissioned(tmp_path, "ABC")
    path.rename(commissioning_file(tmp_path, "XYZ"))
    with pytest.raises(ConfigError, match="belongs to the hand 'ABC'"):
        check_commissioned(tmp_path, "XYZ")
