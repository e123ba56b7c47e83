"""A hand that a program drives without ROS: its targets, its limits, its consent and its end."""

import subprocess
import sys
import time

import numpy as np
import pytest

from dexstack.errors import ConfigError
from dexstack.hand.commissioning import JointResult, save_commissioning
from dexstack.hand.link import FaultKind, HandFault
from dexstack.hand.session import HandSession
from tests.dexstack.hand.emulated import HAND, PATIENT, PUSH, until

# in real time: another process may take the core for longer than a driver waits
pytestmark = pytest.mark.flaky(reruns=3)

SLOW = {
    **PATIENT,
    **{"command_timeout": 1.0, "bad_in_row": 20, "tremble": 3.2, "runaway": 3.2, "doubtful_runaway": 3.2},
    **{"overspeed": 100.0, "following_error": 3.2},
}
"""Parameters for which a busy machine does not look like a broken hand."""
AT_REST = 0.02
"""Largest distance of joints at rest from their targets [rad]."""


def reach(session: HandSession, target: np.ndarray) -> None:
    """Send a target until the joints are there."""

    def there() -> bool:
        sent = session.send(target)
        np.testing.assert_array_equal(sent, np.clip(target, HAND.lower, HAND.upper))
        return bool(np.abs(session.q() - sent).max() < AT_REST)

    until(there, 10.0, "the joints at their targets")


@pytest.fixture(scope="module")
def session():
    with HandSession(SLOW) as opened:
        yield opened


def test_joints_go_where_they_are_sent(session):
    """The servo balances the weight of the links, so that joints rest at their targets."""
    assert session.is_open and session.model.joint_names == HAND.joint_names
    reach(session, PUSH)


def test_targets_outside_the_limits_are_clipped(session):
    reach(session, np.where(np.arange(16) == 2, HAND.upper + 1.0, PUSH))


def test_what_is_not_finite_is_not_sent(session):
    before = session.send(PUSH)
    np.testing.assert_array_equal(session.send(np.where(np.arange(16) == 2, np.nan, HAND.home)), before)
    with pytest.raises(ConfigError, match="16 joints"):
        session.send(PUSH[:4])


def test_a_fault_ends_the_motion_until_the_session_is_opened_again(bus, emulator, tmp_path):
    hand = emulator()
    on_bus = {"interface": bus.interface, "channel": bus.channel, "calibration_dir": str(tmp_path)}
    session = HandSession(SLOW | on_bus)
    with session:
        session.send(PUSH)
        until(lambda: not hand.set()["limp"], 5.0, "torque")
        hand.set(silent_finger=1)
        with pytest.raises(HandFault) as fault:
            until(lambda: session.send(PUSH) is None, 10.0, "a fault")
        assert fault.value.remedy
        until(lambda: hand.set()["limp"], 2.0, "the torque to go")
        hand.set(silent_finger=-1)
        with pytest.raises(HandFault):
            session.send(PUSH)
    with session:
        session.send(PUSH)
        until(lambda: not hand.set()["limp"], 5.0, "torque")


def test_a_hand_that_can_injure_moves_with_the_consent_of_a_person(bus, emulator, tmp_path):
    hand, asked, answers = emulator(), [], [False, True, True]

    def person(question: str) -> bool:
        asked.append(question)
        return answers.pop(0)

    on_bus = {"interface": bus.interface, "channel": bus.channel, "consent": "person"}
    folders = {"calibration_dir": str(tmp_path), "state_dir": str(tmp_path)}
    session = HandSession(SLOW | on_bus | folders, person)
    with pytest.raises(ConfigError, match="never commissioned"):
        session.open()
    results = [JointResult(0, 0.0, 0.0, 10.0, 0.0)] * 16
    save_commissioning(tmp_path, "EMU00001", results, measured="today", hardware="V4")
    with pytest.raises(HandFault) as refused:
        session.open()
    assert refused.value.kind is FaultKind.STOPPED and not session.is_open and not hand.set()["servo"]
    for times in (2, 3):
        with session:
            assert len(asked) == times and "EMU00001" in asked[-1] and hand.set()["servo"]
        until(lambda: not hand.set()["servo"], 2.0, "the servo to go off")


def test_what_does_not_exist_is_refused():
    for parameters, name in (
        ({"comand_timeout": 1.0}, "command_timeout"),
        ({"interface": "serial"}, "socketcan"),
        ({"interface": "socketcan", "consent": "mode"}, "only a person"),
        ({"gravity_frame": "map"}, "gravity"),
    ):
        with pytest.raises(ConfigError, match=name):
            HandSession(parameters)
    with pytest.raises(HandFault, match="not open"):
        HandSession().q()


FORGETS = """
import sys, time
from dexstack.hand.session import HandSession
on_bus = {"interface": "udp_multicast", "channel": sys.argv[1], "calibration_dir": "/nonexistent"}
session = HandSession(on_bus)
session.open()
session.send(session.model.home)
time.sleep(0.1)
"""


@pytest.mark.slow
def test_a_program_that_ends_without_closing_leaves_the_hand_limp(bus, emulator):
    hand = emulator()
    subprocess.run([sys.executable, "-c", FORGETS, bus.channel], timeout=60.0, check=True)
    hand.wait_limp(time.monotonic())
    assert not hand.set()["servo"]
