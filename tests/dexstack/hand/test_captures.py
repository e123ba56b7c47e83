"""Frames captured on real Allegro hands against the decoder, the driver and the emulated hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dexstack.hand.allegro import protocol
from dexstack.hand.allegro.capture import capture, contents, read_capture, write_capture
from dexstack.hand.allegro.protocol import Command, Frame, split_id
from dexstack.hand.emulated import allegro_frames as frames
from dexstack.hand.emulated.allegro import EmulatedHand
from dexstack.hand.emulated.lockstep import LockstepComputer
from dexstack.hand.emulated.plant import HandPlant
from dexstack.hand.params import BusParams, FaultParams
from dexstack.hand.servo import ServoMode
from tests.dexstack.hand.emulated import HAND
from tests.dexstack.hand.stepped import REAL
from tests.dexstack.hand.wired import Driven

FOLDER = Path(__file__).parents[2] / "fixtures" / "allegro"
V4 = FOLDER / "v4-right.log"
ANGLES = [
    *(-0.0502, -0.0286, -0.0099, -0.0044),
    *(-0.0006, -0.0270, -0.0090, -0.0059),
    *(0.0021, -0.0267, -0.0079, -0.0037),
    *(0.2316, -0.0015, 0.0155, -0.0004),
]
"""Joint angles of V4 [rad]."""
TEMPERATURES = [43, 42, 41, 37, 41, 43, 41, 39, 39, 39, 39, 36, 48, 38, 36, -10]


def four(read, command: Command, of: dict[int, list[bytes]]) -> list[int]:
    return [value for finger in range(4) for value in read(of[protocol.frame_id(command + finger)][0])]


def replayed(recorded: dict[int, list[bytes]], q: np.ndarray, **faults) -> LockstepComputer:
    """An emulated hand that answers with recorded frames."""
    hand = EmulatedHand("right", recorded=recorded)
    hand.inject(FaultParams(**faults))
    plant = HandPlant(HAND, replace(REAL, stops=False))
    plant.joint_position = q
    return LockstepComputer(hand, plant)


def test_the_values_of_a_captured_v4():
    of = contents(read_capture(V4))
    counts = four(protocol.read_four, Command.POSITION, of)
    np.testing.assert_allclose(protocol.hardware("V4").counts_to_angle(counts), ANGLES, atol=3e-4)
    assert four(protocol.read_temperatures, Command.TEMPERATURE, of) == TEMPERATURES
    info = protocol.read_info(of[0x200][0])
    assert (info.hardware_version, info.firmware_version, info.left, info.temperature, info.status) == (
        *(0x0402, 0x0406, False, 60, 5),
    )


def test_the_emulated_hand_s_layout_encodes_the_captured_values_to_the_captured_bytes():
    of = contents(read_capture(V4))
    for layout in (frames.POSITION, frames.TEMPERATURE, frames.TORQUE, frames.INFO):
        for index in range(layout.frames):
            data = of[layout.id + 4 * index][0]
            assert layout.frame(layout.values(data), index) == Frame(layout.id + 4 * index, data)
    assert [v for f in range(4) for v in frames.TEMPERATURE.values(of[0xE0 + 4 * f][0])] == TEMPERATURES


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.log")), ids=lambda path: path.stem)
def test_a_hand_that_answers_as_captured_is_driven(path):
    """Its joints move; what it reports about itself is as captured."""
    of = contents(read_capture(path))
    q = protocol.hardware("V4").counts_to_angle(four(protocol.read_four, Command.POSITION, of))
    own = (Command.INFO, *(Command.TEMPERATURE + k for k in range(4)))
    on = replayed({identifier: of[identifier] for identifier in map(protocol.frame_id, own)}, q)
    with Driven(on) as hand:
        hand.push(0.6, np.clip(HAND.home, q - 0.2, q + 0.2))
        assert hand.fault is None and hand.servo.mode is ServoMode.TRACK and on.hand.servo


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.log")), ids=lambda path: path.stem)
def test_the_driver_starts_on_the_captured_frames(path):
    on = replayed(contents(read_capture(path)), HAND.home)
    with Driven(on) as hand:
        hand.run(0.5)
        assert hand.fault is None and hand.link.on and hand.link.bad_frames == 0


def test_doubtful_values_of_a_captured_v4_warn():
    on = replayed(contents(read_capture(V4)), HAND.home)
    with Driven(on) as hand:
        hand.run(0.5)
        assert "throttle" in hand.link.warning() and "joint 15 (-10 °C)" in hand.link.warning()
        assert max(hand.link.temperatures) == 48 and hand.link.status()["temperature_15"] == -10


@pytest.mark.parametrize(
    ("status", "params", "driven"),
    [
        (0x04, {}, True),
        (0x08, {}, False),
        (0x10, {}, True),
        (0x08, {"status_faults": 0x02, "status_warnings": 0x08}, True),
        (0x04, {"status_faults": 0x06}, False),
    ],
)
def test_parameters_say_which_status_bits_are_faults(status, params, driven):
    on = replayed({}, HAND.home, further_status=status)
    hand = Driven(on, **params)
    if driven:
        with hand:
            hand.run(0.2)
            assert hand.fault is None and "the hand reports" in hand.link.warning()
    else:
        with pytest.raises(Exception, match=r"the hand reports .*\(status 0x0[48]"), hand:
            pass
        assert not on.hand.servo


def test_joint_angles_that_do_not_come_by_themselves_are_requested():
    on = replayed({}, HAND.home, silent_while_off=True)
    hand = Driven(on)
    hand.ready()
    assert hand.run(0.5, lambda: len(hand.turns) > 100), "angles with the servo off"
    with hand:
        hand.enable()
        hand.push(0.3)
        assert hand.fault is None and hand.servo.mode is ServoMode.TRACK
        on.heard = []
        hand.push(0.1)
        assert not any(f.remote and 0x20 <= f.id >> 2 < 0x24 for f in on.heard), "only while it is off"


def test_a_capture_of_an_emulated_hand_is_replayed(tmp_path):
    on = replayed({}, HAND.home)
    bus = on.open_bus(BusParams("virtual"))
    on.heard = []
    written = capture(bus, on, stream=0.1)
    assert not any(split_id(f.id)[0] == Command.SERVO_ON for f in on.heard) and not on.hand.servo
    write_capture(tmp_path / "hand.log", written, "can0")
    read = read_capture(tmp_path / "hand.log")
    assert [f.frame for f in read] == [f.frame for f in written]
    assert set(contents(read)) == {protocol.frame_id(c) for c in protocol.REQUESTS}
    on = replayed(contents(read), HAND.home)
    with Driven(on) as hand:
        hand.run(0.3)
        assert hand.fault is None


def test_a_capture_sends_requests_only():
    on = replayed({}, HAND.home)
    on.heard = []
    capture(on.open_bus(BusParams("virtual")), on)
    asked = [frame for frame in on.heard if frame.remote]
    assert [split_id(f.id)[0] for f in asked] == list(protocol.REQUESTS) and on.set()["periods"] == [0, 0, 0]
