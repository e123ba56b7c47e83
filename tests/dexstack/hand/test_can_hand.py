"""The driver in front of an emulated hand: start-up and shut-down frame by frame, identity,
conversion, calibration."""

import os
import time
from types import SimpleNamespace

import can
import numpy as np
import pytest

from dexstack.hand.allegro import protocol
from dexstack.hand.allegro.bus import CanBus
from dexstack.hand.allegro.can_hand import CanHand
from dexstack.hand.allegro.protocol import Command, Frame
from dexstack.hand.calibration import load_offsets, save_offsets
from dexstack.hand.emulated.allegro_frames import POSITION
from dexstack.hand.link import FaultKind, HandFault
from dexstack.hand.params import BusParams, CanHandParams
from dexstack.hand.servo import ServoMode
from dexstack.hand.states import HandState
from tests.dexstack.hand.emulated import PUSH, until
from tests.dexstack.hand.wired import WITHIN, Driven, computer


def test_an_exception_leaves_the_hand_limp():
    hand = computer()
    with pytest.raises(RuntimeError, match="a bug"), Driven(hand) as d:
        d.push(0.2)
        assert hand.set()["servo"]
        raise RuntimeError("a bug")
    state = hand.set()
    assert state["limp"] and not state["servo"] and state["periods"] == [0, 0, 0]


def test_a_bug_in_the_servo_thread_leaves_the_hand_limp(emulator, driver, monkeypatch):
    monkeypatch.setattr("threading.excepthook", lambda args: None)  # expected
    hand = emulator()

    def fail(turn) -> None:
        if d.servo.mode is ServoMode.TRACK:
            raise ValueError("a bug")

    d = driver()
    d.on_turn = fail
    with d:
        until(lambda: d.command(PUSH) or d.state is HandState.OFF, 20.0, "the bug")
        assert hand.set()["limp"]


@pytest.mark.parametrize("name", ["V3", "V4", "V5"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_every_generation_and_side_can_be_driven(name, side):
    hand = computer(side, emulated={"emulated_hardware": name})
    with Driven(hand, hardware=name) as d:
        d.push(0.15)
        assert d.fault is None and hand.set()["servo"]
        assert (d.link.side, d.link.info.generation) == (side, int(name[1]))


@pytest.mark.parametrize("name", ["V3", "V4", "V5"])
def test_a_hand_that_never_answers_requests_for_its_information_can_be_driven(name):
    """As firmware in the field does: the serial number is all that is asked of it, and its status
    is not polled."""
    hand = computer(emulated={"emulated_hardware": name}, silent_status=True)
    with Driven(hand, hardware=name) as d:
        hand.heard = []
        d.push(1.5)
        assert (
            d.fault is None
            and d.servo.mode is ServoMode.TRACK
            and hand.set()["servo"]
            and hand.set()["largest"] > 0.1
        )
        assert d.link.info is None and not d.link.status()["tells_status"] and d.link.side == "right"
        assert not any(frame.remote for frame in hand.heard), "nothing is asked while it is driven"
        d.stop()
        d.run(0.2)
        assert d.link.off_confirmed and not hand.set()["servo"], "it answered after it was told"
        d.recover()
    state = hand.set()
    assert state["limp"] and not state["servo"] and state["periods"] == [0, 0, 0]


def test_a_hand_that_stops_answering_requests_for_its_information_is_driven_on():
    hand = computer()
    with Driven(hand) as d:
        d.push(0.2)
        hand.set(silent_status=True)
        d.push(1.5)
        assert d.fault is None and hand.set()["servo"] and d.servo.mode is ServoMode.TRACK
        hand.set(silent_status=False, over_temperature=True)
        d.push(0.2)
        d.wait_fault(FaultKind.OVER_TEMPERATURE)


def test_a_hand_that_never_answers_and_loses_the_bus_is_told_to_go_off_again():
    hand = computer(silent_status=True)
    with Driven(hand) as d:
        d.push(0.2)
        hand.set(loss=1.0)
        assert d.run(WITHIN, lambda: d.fault) and d.fault.kind is FaultKind.FEEDBACK_LOST
        assert hand.set()["servo"] and not d.link.off_confirmed, "no frame reached it"
        hand.set(loss=0.0)
        d.limp_within(hand.t)
        assert d.run(0.2, lambda: d.link.off_confirmed) and not hand.set()["servo"]


@pytest.mark.parametrize(
    ("serial", "at_1", "at_2"),
    [("5TA00001", 143.0, 143.0), ("5TB00001", 71.5, 143.0), ("5T?00001", 71.5, 143.0)],
)
def test_the_type_of_a_v5_tells_its_scale(serial, at_1, at_2):
    hand = computer(emulated={"emulated_hardware": "V5", "emulated_serial": serial})
    with Driven(hand, hardware="V5") as d:
        d.run(0.01)
        counts = d.link.hardware.torque_to_counts(np.full(16, 0.1))
        assert (
            counts[[1, 5, 9]].tolist() == [int(at_1)] * 3 and counts[[0, 2, 13]].tolist() == [int(at_2)] * 3
        )


@pytest.mark.parametrize(
    ("who", "faults", "message", "remedy"),
    [
        ({"side": "left"}, {}, "this is a left hand .EMU00001., a right one is configured", "hand:=left"),
        (
            {"emulated": {"emulated_hardware": "V3"}},
            {},
            "hardware version 0x0302, V4 is configured",
            "hardware:=V3",
        ),
        ({}, {"over_temperature": True}, "reports over-temperature", "cool down"),
        ({}, {"communication_fault": True}, "internal communication fault", "switch the hand off and on"),
        ({}, {"silent": True}, "no complete set", "switch the hand off and on"),
        ({}, {"silent_finger": 2}, "nothing from finger 2", "finger's cable"),
    ],
)
def test_a_hand_that_must_not_be_driven_is_refused(who, faults, message, remedy):
    """Wrong side, wrong version, or ill: no servo on, no torque, and one sentence."""
    hand = computer(**who, **faults)
    d = Driven(hand, side="right")
    with pytest.raises(HandFault, match=message) as caught, d:
        pass
    assert remedy in caught.value.remedy
    state = hand.set()
    assert not state["servo"] and state["largest"] == 0.0 and state["periods"] == [0, 0, 0]


@pytest.mark.parametrize(
    ("interface", "channel", "kind"),
    [
        ("socketcan", "can17", "can17|no CAN"),
        ("pcan", "PCAN_USBBUS1", "pcan"),
        ("udp_multicast", "here", "GROUP:PORT"),
    ],
)
def test_a_bus_that_is_not_there_is_one_sentence_with_a_remedy(interface, channel, kind):
    link = CanHand("right", BusParams(interface, channel), CanHandParams(realtime_priority=0))
    with pytest.raises((HandFault, ValueError), match=kind) as caught:
        link.start()
    assert not isinstance(caught.value, HandFault) or caught.value.remedy
    link.close()


def test_real_time_scheduling_ends_with_the_hand():
    """Of the calling thread: what the process starts afterwards would inherit it."""
    with Driven(computer(), realtime_priority=5) as d:
        d.push(0.05)
        assert (os.sched_getscheduler(0) == os.SCHED_FIFO) == d.link.realtime
    assert os.sched_getscheduler(0) == os.SCHED_OTHER and not d.link.realtime


def test_frames_of_another_hand_are_ignored():
    """Nor broken ones, nor errors of motors, which the protocol of a V4 does not have."""
    hand = computer(overloaded_motor=6)
    with Driven(hand) as d:
        d.push(0.5)
        before = d.turns[-1].feedback.q
        for finger in range(4):
            hand.say(POSITION.frame((9000, 9000, 9000, 9000), finger, device=1))
        hand.say(Frame(protocol.frame_id(Command.POSITION + 2), b"\1\2"))  # a broken one of our own
        d.push(0.1)
        assert (
            np.abs(d.turns[-1].feedback.q - before).max() < 0.2 and d.link.bad_frames == 1 and d.fault is None
        )


def test_latency_jitter_and_some_loss_are_survived():
    hand = computer(latency=0.002, jitter=0.001, loss=0.02)
    with Driven(hand) as d:
        d.push(1.5)
        assert d.fault is None and d.servo.mode is ServoMode.TRACK
        assert d.link.missed > 5 and d.link.sets > 0.6 * hand.set()["sets"]


def test_zero_offsets_are_kept_by_serial_number_and_used(tmp_path):
    offsets = np.linspace(-0.1, 0.1, 16)
    with Driven(computer(emulated={"zero_offsets": tuple(offsets)})) as d:
        d.run(0.01)
        np.testing.assert_allclose(d.turns[0].feedback.q - d.travelled[0], offsets, atol=1e-4)
    path = save_offsets(tmp_path, "EMU00001", offsets, measured="today", held_out=0.001)
    np.testing.assert_allclose(load_offsets(tmp_path, "EMU00001"), offsets, atol=1e-6)
    assert not load_offsets(tmp_path, "EMU00002").any()
    with Driven(computer(emulated={"zero_offsets": tuple(offsets)}), calibration_dir=str(tmp_path)) as d:
        d.run(0.01)
        np.testing.assert_allclose(d.turns[0].feedback.q, d.travelled[0], atol=1e-4)
        assert d.link.status()["calibrated"]
    path.rename(tmp_path / "EMU00002.yaml")
    with pytest.raises(ValueError, match="belongs to the hand 'EMU00001'"):
        load_offsets(tmp_path, "EMU00002")
    with pytest.raises(ValueError, match=r"joint 3 would have an offset of \+0.500 rad"):
        save_offsets(tmp_path, "X", np.eye(16)[3] / 2, measured="today", held_out=0.001)


def test_pcan_stamps_are_the_systems_time():
    """Its driver counts from the computer's start."""
    message = can.Message(arbitration_id=0x80, data=bytes(8), is_extended_id=False, timestamp=12.5)
    raw = SimpleNamespace(recv=lambda timeout: message, shutdown=lambda: None)
    for interface, expected in (("pcan", time.time()), ("socketcan", 12.5)):
        assert CanBus(BusParams(interface), raw).receive(0.0)[1] == pytest.approx(expected, abs=60.0)
