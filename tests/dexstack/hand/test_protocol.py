"""The frames of the fact sheet, conversions of numbers, and arbitrary bytes."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from dexstack.hand.allegro import protocol as p
from dexstack.hand.allegro.protocol import HARDWARE, Command, Frame, HandInfo, Status

int16 = st.integers(-32768, 32767)
four = st.tuples(int16, int16, int16, int16)
finger, device = st.integers(0, 3), st.integers(0, 3)


@pytest.mark.parametrize(
    ("frame", "identifier", "data", "remote"),
    [
        (p.servo_on(), 0x100, "", False),
        (p.servo_off(), 0x104, "", False),
        (p.set_torque(0, (1, -1, 256, -256)), 0x180, "0100 ffff 0001 00ff", False),
        (p.set_torque(3, (525, 405, 270, -270)), 0x18C, "0d02 9501 0e01 f2fe", False),
        (p.set_period(3), 0x204, "0300 0000 0000", False),
        (p.set_period(3, 10, 1000), 0x204, "0300 0a00 e803", False),
        (p.request(Command.INFO), 0x200, "", True),
        (p.request(Command.SERIAL), 0x220, "", True),
        (p.request(Command.POSITION + 3), 0x8C, "", True),
        (p.request(Command.IMU), 0xC0, "", True),
        (p.request(Command.TEMPERATURE + 3), 0xEC, "", True),
        (p.servo_on(device=3), 0x103, "", False),
    ],
)
def test_frames_of_the_fact_sheet(frame, identifier, data, remote):
    assert frame == Frame(identifier, bytes.fromhex(data), remote)


def test_information_of_a_hand_in_the_field():
    """A right V4, hardware 0x0402, firmware 0x0405, 54 °C."""
    info = p.read_info(bytes.fromhex("0204 0504 00 36 08"))
    assert info == HandInfo(0x0402, 0x0405, False, 54, Status.COMMUNICATION)
    assert info.generation == 4 and not info.servo_on
    info = p.read_info(bytes.fromhex("0204 0504 01 36 05"))
    assert info.left and info.servo_on and info.status == Status.SERVO_ON | Status.THROTTLE
    assert HandInfo(3, 0, False, 0, 0).generation == 3
    assert p.describe_status(0xA3) == "over-temperature and unknown status bit 5 and unknown status bit 7"


def test_angles_of_the_fact_sheet():
    v4 = HARDWARE["V4"]
    assert v4.counts_to_angle([32768])[0] == pytest.approx(math.radians(333.3 / 2))
    assert v4.counts_to_angle([-1])[0] == pytest.approx(-math.radians(333.3 / 65536))
    assert HARDWARE["V5"].counts_to_angle([1000])[0] == pytest.approx(math.radians(88.0))
    assert p.read_four(bytes.fromhex("ff7f 0080 0100 ffff")) == (32767, -32768, 1, -1)


@pytest.mark.parametrize(("name", "scale"), [("V3", 800.0), ("V4", 1200.0)])
def test_torques_and_limits_of_the_fact_sheet(name, scale):
    hw = HARDWARE[name]
    np.testing.assert_array_equal(hw.torque_to_counts(np.full(16, 0.1)), np.full(16, scale * 0.1))
    limits = [375, 675, 450, 285] * 3 + [525, 405, 270, 270]
    np.testing.assert_array_equal(hw.torque_to_counts(np.full(16, 9.0)), limits)
    np.testing.assert_array_equal(hw.torque_to_counts(np.full(16, -9.0)), [-x for x in limits])
    assert max(limits) <= hw.counts_per_Nm[0]


@given(finger, four, device)
def test_torques_survive(f, counts, d):
    frame = p.set_torque(f, counts, d)
    assert frame.id < 0x800 and p.split_id(frame.id) == (Command.TORQUE + f, d)
    assert p.read_four(frame.data) == counts


@given(st.binary(max_size=8))
def test_any_bytes_are_read_or_refused(data):
    for read in (
        p.read_four,
        p.read_info,
        p.read_serial,
        p.read_motor_error,
        p.read_temperatures,
    ):
        try:
            read(data)
        except p.ProtocolError as error:
            assert str(error)


wild = arrays(np.float64, 16, elements=st.floats(allow_nan=True, allow_infinity=True))


@given(st.sampled_from(sorted(HARDWARE)), wild)
def test_no_torque_whatever_exceeds_a_limit(name, tau):
    hw = HARDWARE[name]
    counts = hw.torque_to_counts(tau)
    assert counts.dtype == np.int16 and np.all(np.abs(counts) <= hw.limit)
    assert np.all(counts[np.isnan(tau)] == 0)
    assert np.all(np.abs(hw.counts_to_torque(counts)) <= np.nan_to_num(np.abs(tau), nan=0.0) + 1e-12), (
        "rounding never adds torque"
    )


@given(st.sampled_from(sorted(HARDWARE)), arrays(np.float64, 16, elements=st.floats(-2.7, 2.7)))
def test_angles_survive_to_half_a_count(name, q):
    hw = HARDWARE[name]
    assert np.abs(hw.counts_to_angle(hw.angle_to_counts(q)) - q).max() <= 0.5000001 * hw.rad_per_count
