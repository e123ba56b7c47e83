"""The driver in front of emulated LEAP motors: start-up, torques, every fault, every way out."""

import struct
from dataclasses import replace

import numpy as np
import pytest

from dexstack.hand.emulated.plant import WEIGHTLESS, HandPlant
from dexstack.hand.leap import protocol as dynamixel
from dexstack.hand.leap.dynamixel_hand import LeapHand
from dexstack.hand.leap.line import LineError
from dexstack.hand.leap.protocol import Decoder, Instruction, Packet, Table, encode
from dexstack.hand.link import FaultKind, HandFault
from dexstack.hand.params import BusParams, CanHandParams, MotorParams
from dexstack.hand.servo import ServoMode
from tests.dexstack.hand.motors import LEAP, TARGET, Driven, line, link
from tests.dexstack.hand.stepped import PERIOD

KT = dynamixel.MOTORS["XC330-M288"].torque_constant


def test_start_up_leaves_torque_on_without_current_and_close_takes_it_away():
    on = line()
    with Driven(on) as driver:
        state = on.set()
        assert all(state["torque_on"]) and not any(state["counts"]) and state["watchdog"] == [5] * 16
        np.testing.assert_allclose(driver.link.read(0.1).q, LEAP.home, atol=dynamixel.RAD_PER_COUNT)
        np.testing.assert_array_equal(on.plant.joint_position, LEAP.home)
    assert not on.hand.servo and driver.link.off_confirmed


def test_it_follows_commands_at_333_hz():
    on = line()
    with Driven(on) as driver:
        sets, begin = driver.link.sets, on.t
        driver.push(1.5)
        assert (driver.link.sets - sets) / (on.t - begin) == pytest.approx(333.0, rel=0.02)
        np.testing.assert_allclose(on.plant.joint_position, TARGET, atol=0.02)
        assert driver.servo.mode is ServoMode.TRACK and driver.link.missed == 0


def test_a_torque_is_a_goal_current_towards_the_joint_s_limit():
    on = line()
    with Driven(on) as driver:
        tau = np.linspace(-0.4, 0.4, 16)
        driver.link.read(0.1)
        driver.link.write(tau)
        state = on.set()
        expected = np.minimum(np.trunc(1e3 * np.abs(tau) / KT), 550)
        np.testing.assert_array_equal(state["counts"], expected)
        np.testing.assert_array_equal(
            state["goals"], dynamixel.angle_to_counts(np.where(tau > 0, LEAP.upper, LEAP.lower))
        )
        middle = np.abs(tau) < 0.28
        np.testing.assert_allclose(on.hand.torque[middle], tau[middle], atol=2e-3 * KT)


@pytest.mark.parametrize(
    ("motors", "most"),
    [({}, 550), ({"current_limit": 0.3}, 300), ({"current_limit": 1.0}, 550), ({"motor": "XL330-M288"}, 350)],
)
def test_no_current_beyond_the_hand_s_limit(motors, most):
    motors = MotorParams(**motors)
    on = line(motors=motors)
    with Driven(on, motors) as driver:
        driver.link.write(np.full(16, 100.0))
        assert on.set()["counts"] == [most] * 16 and on.set()["over_limit"] == 0
        driver.link.write(np.full(16, np.nan))
        assert on.set()["counts"] == [0] * 16


def test_a_motor_stops_at_its_joint_s_limit_without_further_commands():
    on = line(HandPlant(LEAP, replace(WEIGHTLESS, stops=False)))
    with Driven(on, MotorParams(bus_watchdog=2.0)) as driver:
        driver.link.write(np.full(16, 0.2))
        on.sleep(1.9)
        assert (on.plant.joint_position <= LEAP.upper + 2 * dynamixel.RAD_PER_COUNT).all()


def test_settings_that_last_are_written_only_when_they_differ():
    on = line()
    writes, decoder, receive = [], Decoder(), on.hand.receive

    def listen(data: bytes, t: float) -> None:
        writes.extend(p.body[0] for p in decoder.feed(data) if p.instruction == Instruction.SYNC_WRITE)
        receive(data, t)

    on.hand.receive = listen
    lasting = {Table.OPERATING_MODE.address, Table.RETURN_DELAY.address}
    with Driven(on):
        assert lasting < set(writes)
    writes.clear()
    with Driven(on):
        assert not lasting & set(writes)


def test_the_bus_watchdog_stops_the_motors_when_the_host_is_silent():
    on = line()
    with Driven(on) as driver:
        driver.push(0.2)
        begin, at = on.t, on.plant.joint_position.copy()
        assert not on.set()["limp"]
        on.sleep(0.5)  # the process hangs
        state = on.set()
        assert (
            state["watchdog"] == [dynamixel.WATCHDOG_FIRED] * 16
            and state["limp_since"] - begin <= 0.1 + PERIOD
        )
        stopped = on.plant.joint_position.copy()
        on.sleep(1.0)
        np.testing.assert_allclose(on.plant.joint_position, stopped, atol=2e-3)
        assert np.abs(stopped - at).max() < 0.3
        with pytest.raises(HandFault, match="was silent for") as caught:
            driver.link.write(np.zeros(16))
        assert caught.value.kind is FaultKind.GUARD and not driver.link.on
        assert driver.off()
        driver.recover()


IDENTITY = {
    r"motor 2 \(if_pip\) does not answer": (FaultKind.NO_ANSWER, {"missing_motor": 2}),
    r"motor 4 \(mf_rot\) is a model 1060, XC330-M288 is configured": (
        FaultKind.WRONG_HAND,
        {"wrong_model": 5},
    ),
    r"motor 13 \(th_axl\) is reversed by its drive mode": (
        FaultKind.WRONG_HAND,
        {"reversed_motor": 13},
    ),
    "no motor on pty /emulated answers at 4000000 baud": (FaultKind.NO_ANSWER, {"bus_off": True}),
    "no motor on pty": (FaultKind.NO_ANSWER, {"silent": True}),
    r"motor 3 \(if_dip\) reports: overload": (FaultKind.MOTOR, {"failing_motor": 3}),
    r"motor 0 \(if_rot\) reports: overheating": (
        FaultKind.OVER_TEMPERATURE,
        {"failing_motor": 1, "motor_error": 4},
    ),
    r"motor 1 \(if_mcp\) gets 4.1 V, 4.5 to 6 V": (FaultKind.MOTOR, {"supply": 4.1}),
    "gets 12.0 V": (FaultKind.MOTOR, {"supply": 12.0}),
    "is at 75 °C, 70 °C are allowed": (FaultKind.OVER_TEMPERATURE, {"motor_celsius": 75}),
    "reports 200 °C": (FaultKind.TEMPERATURE, {"motor_celsius": 200}),
    "does not take its torque on": (FaultKind.SERVO_OFF, {"refuses_servo": True}),
}


@pytest.mark.parametrize("text", IDENTITY)
def test_a_hand_that_is_not_well_is_never_switched_on(text):
    kind, faults = IDENTITY[text]
    on = line(**faults)
    with pytest.raises(HandFault, match=text) as caught, Driven(on):
        pass
    assert caught.value.kind is kind and caught.value.remedy
    assert not on.hand.servo and on.set()["largest"] == 0.0


FAULTS = {
    "missing motor": (FaultKind.FINGER_LOST, {"missing_motor": 6}),
    "silent finger": (FaultKind.FINGER_LOST, {"silent_finger": 1}),
    "line cut": (FaultKind.FEEDBACK_LOST, {"bus_off": True}),
    "silent": (FaultKind.FEEDBACK_LOST, {"silent": True}),
    "overload": (FaultKind.MOTOR, {"failing_motor": 9}),
    "overload by its other name": (FaultKind.MOTOR, {"overloaded_motor": 4}),
    "overheating": (FaultKind.OVER_TEMPERATURE, {"failing_motor": 9, "motor_error": 4}),
    "hot": (FaultKind.OVER_TEMPERATURE, {"motor_celsius": 72}),
    "broken sensor": (FaultKind.TEMPERATURE, {"motor_celsius": 190}),
    "weak supply": (FaultKind.MOTOR, {"supply": 4.2}),
    "power came back": (FaultKind.SERVO_OFF, {"power_cycle": True}),
    "late": (FaultKind.LATE, {"latency": 0.014}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_ends_with_its_name_and_the_torque_off(name):
    kind, faults = FAULTS[name]
    on = line()
    with Driven(on) as driver:
        driver.push(0.2)
        assert driver.fault is None and not on.set()["limp"]
        good = {
            n: getattr(on.hand.faults, n, getattr(on.hand.wrong, n, None))
            for n in faults
            if n != "power_cycle"
        }
        on.set(**faults)
        begin = on.t
        driver.wait_fault(kind)
        assert on.t - begin < 1.0
        on.set(**good)
        assert driver.off(), "the torque is said to go off until the motors say so"
        if kind is FaultKind.MOTOR or "motor_error" in faults:
            on.set(power_cycle=True)
        driver.recover()


def test_a_motor_that_protected_itself_stays_off_until_a_reboot_that_a_person_asks_for():
    on = line()
    with Driven(on) as driver:
        driver.push(0.2)
        on.set(failing_motor=1, overloaded_motor=9)
        driver.wait_fault(FaultKind.MOTOR)
        on.set(failing_motor=-1, overloaded_motor=-1)
        for _ in range(2):
            with pytest.raises(HandFault, match=r"motor 0 \(if_rot\) reports: overload") as caught:
                driver.enable()
            assert "diagnose hand --reboot" in caught.value.remedy, "enable reboots nothing"
        driver.link.identify()
        assert driver.link.latched == ["motor 0 (if_rot)", "motor 8 (rf_rot)"]
        driver.link.reboot()
        assert driver.link.latched == [] and not on.hand.servo, "a reboot switches nothing on"
        driver.recover()


def test_a_reboot_does_not_hide_a_cause_that_stays():
    on = line(failing_motor=3, motor_error=4)
    hand = link(on)
    hand.identify()
    with pytest.raises(HandFault, match=r"motor 3 \(if_dip\) reports: overheating"):
        hand.reboot()
    on.set(missing_motor=3)
    with pytest.raises(HandFault, match=r"motor 3 \(if_dip\) does not answer 2 s after its reboot"):
        hand.reboot()
    hand.close()


def test_motors_that_swing_a_finger_are_softer_as_in_the_makers_software():
    on = line()
    with Driven(on):
        pass
    body = struct.pack("<HH", *Table.GAINS)
    for motor, name in zip(dynamixel.MOTOR_IDS, LEAP.joint_names, strict=True):
        on.hand.receive(encode(Packet(motor, Instruction.READ, body)), on.t)
        (answer,) = Decoder().feed(on.hand.due(on.t + 0.1))
        expected = (150, 0, 450) if name in ("if_rot", "mf_rot", "rf_rot") else (200, 0, 600)
        assert tuple(np.frombuffer(answer.body[1:], "<u2")) == expected, name


@pytest.mark.parametrize(
    "faults",
    [{"corrupt": 0.003}, {"lost_bytes": 0.003}, {"loss": 0.003}, {"jitter": 0.002}, {"encoder_noise": 5e-4}],
)
def test_some_of_it_is_lived_with(faults):
    on = line(**faults)
    with Driven(on) as driver:
        driver.push(2.0)
        assert driver.fault is None
        np.testing.assert_allclose(on.plant.joint_position, TARGET, atol=0.03)


@pytest.mark.parametrize("faults", [{"corrupt": 0.3}, {"lost_bytes": 0.3}, {"loss": 0.3}])
def test_a_line_that_loses_most_is_not_relied_on(faults):
    on = line()
    with Driven(on) as driver:
        on.set(**faults)
        driver.push(2.0)
        lost = (FaultKind.FRAMES_LOST, FaultKind.FINGER_LOST, FaultKind.FEEDBACK_LOST)
        assert driver.fault is not None and driver.fault.kind in lost
        on.set(**dict.fromkeys(faults, 0.0))
        assert driver.off()


@pytest.mark.parametrize("faults", [{"corrupt": 0.2}, {"lost_bytes": 0.1}, {"loss": 0.1}])
def test_a_bad_line_reads_no_wrong_angle(faults):
    on = line(**faults)
    hand = link(on)
    hand.open()
    for _ in range(300):
        feedback = hand.read(PERIOD)
        if feedback is not None:
            np.testing.assert_allclose(feedback.q, LEAP.home, atol=dynamixel.RAD_PER_COUNT)
    assert hand.sets > 0 or faults.get("corrupt") == 0.2


def test_an_adapter_that_is_unplugged_and_comes_back():
    on = line()
    with Driven(on) as driver:
        driver.push(0.2)
        on.trouble = LineError("pty /emulated failed: gone", "plug it in")
        driver.wait_fault(FaultKind.BUS)
        on.trouble = None
        assert driver.off(), "the first word on the new line"
        driver.recover()


def test_an_adapter_that_waits_16_ms_is_found_but_not_driven():
    on = line(latency=0.016)
    hand = link(on)
    hand.identify()
    assert hand.off_confirmed and len(hand.health) == 16
    with pytest.raises(HandFault, match="no complete set of joint angles"):
        hand.stream()
    hand.close()


def test_an_answer_to_an_earlier_question_is_not_taken_for_a_new_one():
    on = line()
    hand = link(on)
    hand.identify()
    hand.stream()
    on.set(latency=0.016)
    assert all(hand.read(0.05) is None for _ in range(20)), "late answers are all there are"
    on.set(latency=0.0)
    assert any(hand.read(PERIOD) is not None for _ in range(5))


def test_a_stop_while_it_is_started():
    on = line()
    hand = link(on)
    with pytest.raises(HandFault, match="stopped during its start-up") as caught:
        hand.start(lambda: True)
    assert caught.value.kind is FaultKind.STOPPED and not on.hand.servo
    hand.close()


def test_a_motor_whose_torque_goes_on_with_a_goal_is_refused():
    on = line()
    body = Table.DRIVE_MODE.address.to_bytes(2, "little") + bytes((dynamixel.ON_BY_GOAL,))
    on.hand.receive(encode(Packet(7, Instruction.WRITE, body)), on.t)
    on.sleep(0.1)
    with pytest.raises(
        HandFault, match=r"the drive mode of motor 7 \(mf_dip\) switches its torque on with any goal"
    ) as caught:
        link(on).identify()
    assert caught.value.kind is FaultKind.WRONG_HAND


def test_a_port_that_does_not_exist():
    hand = LeapHand(LEAP, BusParams("serial", "/dev/no_such_port"), CanHandParams(realtime_priority=0))
    with pytest.raises(HandFault, match="there is no /dev/no_such_port") as caught:
        hand.open()
    assert caught.value.kind is FaultKind.BUS and "by-id" in caught.value.remedy
    hand.close()
