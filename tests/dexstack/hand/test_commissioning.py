"""Commissioning passes a good hand and calls every mis-wired one by its name, with little motion
and less torque."""

from __future__ import annotations

import numpy as np
import pytest
from emulated import HAND
from test_wiring import gains, swapped
from wired import PERIOD, Driven, computer

from dexstack.errors import ConfigError
from dexstack.hand import commissioning
from dexstack.hand.allegro.can_hand import CanHand
from dexstack.hand.commissioning import (
    LARGEST_TORQUE,
    Miswired,
    check_at_rest,
    check_commissioned,
    commission,
    save_commissioning,
)
from dexstack.hand.emulated.lockstep import LockstepComputer

NOISE = {"encoder_noise": 2e-4}


def started(**faults) -> tuple[CanHand, LockstepComputer]:
    on = computer(**faults)
    link = Driven(on).link
    link.start()
    step, on.travelled = on.plant.step, []
    on.plant.step = lambda tau: (step(tau), on.travelled.append(on.plant.joint_position.copy()))
    return link, on


def run(link: CanHand):
    check_at_rest(link.read(0.1), HAND, link.hardware.rad_per_count)
    return commission(link, HAND)


@pytest.mark.parametrize("noise", [0.0, 5e-4])
def test_a_good_hand_passes(noise):
    link, on = started(encoder_noise=noise)
    results = run(link)
    assert [r.joint for r in results] == list(range(16))
    for r in results:
        assert np.radians(2.9) < r.moved < np.radians(4.5) and r.others < np.radians(1.0)
        assert 0.0 < r.largest_torque <= LARGEST_TORQUE and r.mobility == pytest.approx(10.0, rel=0.3)
    q = np.array(on.travelled)
    assert np.degrees(np.ptp(q, axis=0)).max() < 5.0 and not on.hand.counts.any()


MISWIRED = {
    "joint 5 .middle. is inverted": {"motor_gain": gains(5, -1.0)},
    "joint 12 says -0.39 rad, far outside its limits: inverted": {"encoder_gain": gains(12, -1.0)},
    "joint 1 .index. is inverted": {"encoder_gain": gains(1, -1.0)},
    "joint 0 .index. is inverted": {"motor_gain": (-1.0,) * 16},
    "index and middle are swapped": {"motor_order": swapped(0, 1)},
    "index and (ring|thumb) are swapped": {"encoder_order": (1, 2, 3, 0)},
    "middle and ring are swapped": {"encoder_order": swapped(1, 2)},
    "bytes of the angles are swapped": {"swapped_angle_bytes": True},
    "bytes of the torques swapped": {"swapped_torque_bytes": True},
    "joint 7 .middle. moved 2.. times": {"motor_gain": gains(7, 2.0)},
    "joint 12 .thumb. moved 2.. times": {"encoder_gain": gains(12, 2.0)},
    "encoder or the motor of joint 9 .ring. is dead": {"frozen_joint": 9},
    "joint 3 .index. does not move": {"motor_gain": gains(3, 0.0), **NOISE},
    "the supply is weak": {"motor_gain": (0.2,) * 16},
    "no angles for|far outside": {"leap_joint": 4, "encoder_leap": 2.5},
}


@pytest.mark.parametrize("name", MISWIRED)
def test_a_miswired_hand_is_called_by_its_name(name):
    link, on = started(**MISWIRED[name])
    with pytest.raises(Miswired, match=name) as caught:
        run(link)
    assert not on.hand.servo or not on.hand.counts.any()
    q = np.array(on.travelled)
    assert np.degrees(np.ptp(q, axis=0)).max() < 5.0, "less than 5 degrees of motion"
    assert caught.value.seconds <= 0.05 and caught.value.mend


@pytest.mark.parametrize("other", [0, 14])
def test_it_ends_in_the_tick_in_which_anything_else_moves(other, monkeypatch):
    """Somebody touches another joint while joint 9 is out."""
    link, on = started()
    touched = []
    write = link.write

    def touch(tau):
        if tau[9] != 0.0 and not touched and on.plant.joint_position[9] - HAND.home[9] > 0.02:
            on.plant.joint_position[other] += np.radians(2.0) * (1 if HAND.home[other] < 1.0 else -1)
            touched.append(on.t)
        write(tau)

    monkeypatch.setattr(link, "write", touch)
    with pytest.raises(Miswired, match=f"joint 9 was pushed, joint {other} moved|swapped"):
        run(link)
    assert touched and on.t - touched[0] <= 0.05 and on.t - touched[0] <= 2 * PERIOD + 1e-9
    assert not on.hand.torque.any()


def test_the_result_is_kept_by_serial_number(tmp_path):
    with pytest.raises(ConfigError, match=r"never commissioned.*diagnose hand --all"):
        check_commissioned(tmp_path, "ABC")
    path = save_commissioning(tmp_path, "ABC", run(started()[0]), measured="today", hardware="V4")
    check_commissioned(tmp_path, "ABC")
    path.rename(commissioning.commissioning_file(tmp_path, "XYZ"))
    with pytest.raises(ConfigError, match="belongs to the hand 'ABC'"):
        check_commissioned(tmp_path, "XYZ")
