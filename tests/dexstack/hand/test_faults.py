"""Every fault of a hand: the state within 100 ms, the message, and recovery on request.

Everything but processes is tested in simulated time here; killed processes are in
``test_guard.py``, wrong side or version in ``test_can_hand.py``. The emulated hand checks that no
torque frame of any test exceeds a limit.
"""

import numpy as np
import pytest

from dexstack.hand.allegro.bus import BusError
from dexstack.hand.link import FaultKind, HandFault
from dexstack.hand.servo import ServoMode
from tests.dexstack.hand.emulated import BACK, HAND, PUSH
from tests.dexstack.hand.wired import WITHIN, Driven, computer


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"silent": True}, FaultKind.FEEDBACK_LOST),
        ({"silent_finger": 2}, FaultKind.FINGER_LOST),
        ({"loss": 1.0}, FaultKind.FEEDBACK_LOST),
        ({"over_temperature": True}, FaultKind.OVER_TEMPERATURE),
        ({"communication_fault": True}, FaultKind.COMMUNICATION),
    ],
)
def test_the_servo_goes_off(changes, kind):
    hand = computer()
    with Driven(hand) as d:
        d.push(0.15)
        start = hand.t
        hand.set(**changes)
        if "loss" in changes:  # nothing arrives at the hand either: the first word that does switches it off
            assert d.run(WITHIN, lambda: d.fault)
            start = hand.t
            hand.set(loss=0.0)
        d.limp_within(start)
        d.wait_fault(kind)
        d.push(0.1)
        assert hand.set()["limp"] and not hand.set()["servo"], "a command must not leave a fault"
        if kind in (FaultKind.OVER_TEMPERATURE, FaultKind.COMMUNICATION, FaultKind.FINGER_LOST):
            with pytest.raises(HandFault):
                d.enable()
            assert not hand.set()["servo"], "enabled while the fault lasts"
        hand.set(silent=False, silent_finger=-1, over_temperature=False, communication_fault=False)
        d.recover()
        assert d.fault_counts[kind.value] >= 1


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [(None, FaultKind.BUS_OFF), (BusError("the adapter is gone", "plug it in"), FaultKind.BUS)],
    ids=["the controller goes off the bus", "the adapter is pulled out and put back"],
)
def test_a_bus_that_is_lost_and_comes_back(trouble, kind):
    hand = computer()
    with Driven(hand) as d:
        d.push(0.15)
        hand.trouble = trouble
        hand.set(bus_off=trouble is None)
        assert d.run(WITHIN, lambda: d.fault) and d.fault.kind is kind and d.fault.remedy
        assert not hand.set()["limp"], "no frame can reach it: like the real hand it keeps its torque"
        with pytest.raises(HandFault):
            d.enable()
        back, hand.trouble = hand.t, None
        hand.set(bus_off=False)
        d.limp_within(back)  # servo off is the first word
        d.recover()


@pytest.mark.parametrize(
    ("fault", "seconds", "kind"),
    [({"bus_off": True}, 0.02, FaultKind.BUS_OFF), ({"power_cycle": True}, 0.0, FaultKind.FEEDBACK_LOST)],
    ids=["a controller that restarts by itself, restart-ms 20", "the hand is switched off and on"],
)
def test_what_mends_itself_is_limp_in_time_and_stays_so(fault, seconds, kind):
    hand = computer()
    with Driven(hand) as d:
        d.push(0.15)
        start = hand.t
        hand.set(**fault)
        d.run(seconds)
        hand.set(bus_off=False)
        d.limp_within(start)
        d.wait_fault(kind)
        d.recover()


def test_commands_stop():
    hand = computer()
    with Driven(hand) as d:
        d.push(0.2)
        n, stopped = len(d.turns), hand.t
        d.run(0.25)
        held = [t for t in d.turns[n:] if stopped + WITHIN < t.feedback.t < stopped + 0.2]
        assert len(held) > 10 and all(t.output.mode is ServoMode.HOLD for t in held)
        assert np.ptp([t.output.q_applied for t in held], axis=0).max() == 0.0, (
            "the target moves without commands"
        )
        assert d.run(1.0, lambda: d.servo.mode is ServoMode.LIMP and hand.set()["limp"])
        assert d.fault is None and d.link.on, "no fault: the next command moves it again"
        d.push(0.15, BACK)
        assert not hand.set()["limp"]


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 0.5])
def test_the_system_clock_jumps(jump):
    hand = computer()
    with Driven(hand) as d:
        d.push(0.2, PUSH, hand.system)
        assert d.servo.mode is ServoMode.TRACK
        hand.system_offset += jump
        n = len(d.turns)
        d.push(0.15, PUSH, lambda: hand.system() - jump)  # commands still on the old clock
        assert (
            d.servo.mode is ServoMode.HOLD and d.link.clock_jumps == 1 and d.link.status()["clock_jumps"] == 1
        )
        d.push(0.2, PUSH, hand.system)
        assert d.servo.mode is ServoMode.TRACK and d.fault is None and not hand.set()["limp"]
        assert np.diff([t.feedback.t for t in d.turns[n - 5 :]]).max() < 0.01, (
            "the servo's own clock does not jump"
        )
        assert abs(d.turns[-1].feedback.stamp - hand.system()) < 0.01
        assert max(np.abs(t.output.qd).max() for t in d.turns[n:]) < 20.0


def test_stop_is_immediate_and_commands_do_not_undo_it():
    hand = computer()
    with Driven(hand) as d:
        d.push(0.15)
        start = hand.t
        d.stop()
        d.limp_within(start, 0.0)
        d.push(0.1)
        assert not hand.set()["servo"]
        d.recover()


@pytest.mark.parametrize(
    ("changes", "kind", "seconds", "text"),
    [
        ({"latency": 0.04}, FaultKind.LATE, 0.6, "answers after"),
        ({"loss": 0.25}, FaultKind.FRAMES_LOST, 1.5, "incomplete"),
        ({"celsius": [40, 41, 42, 90]}, FaultKind.OVER_TEMPERATURE, 0.6, "sensor of joint 12 is at 90"),
        ({"refuses_servo": True}, FaultKind.SERVO_OFF, 0.6, "went off by itself"),
        ({"leap_joint": 3}, FaultKind.ENCODER, 0.3, "encoder of joint 3"),
    ],
)
def test_a_bus_or_hand_that_is_ill_is_switched_off(changes, kind, seconds, text):
    """Faults that take more than one look to be sure of: each within its own time."""
    hand = computer(encoder_noise=2e-4)
    with Driven(hand) as d:
        d.push(0.3, HAND.home)
        start = hand.t
        hand.set(**changes)
        while d.fault is None and hand.t < start + seconds:
            d.push(0.2, HAND.home)
        d.wait_fault(kind)
        assert text in str(d.fault)
        hand.set(latency=0.0, loss=0.0)
        d.limp_within(hand.t)
