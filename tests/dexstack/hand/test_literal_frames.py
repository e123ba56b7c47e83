"""The driver against a V4 and a V5 written down in bytes: the hand of these tests uses nothing of the
protocol module."""

import threading

import can
import numpy as np
import pytest

from dexstack.errors import ConfigError
from dexstack.hand.allegro.can_hand import CanHand
from dexstack.hand.link import FaultKind, HandFault
from dexstack.hand.params import BusParams, CanHandParams

INFO_OFF, INFO_ON = "0204 0504 00 36 00", "0204 0504 00 36 01"
"""Right V4, hardware 0x0402, firmware 0x0405, 54 degrees Celsius."""
SERIAL = "53 41 47 30 31 32 33 34"
POSITIONS = {
    0x080: "e803 d007 b80b a00f",
    0x084: "18fc 30f8 48f4 60f0",
    0x088: "0000 0100 ffff 0010",
    0x08C: "5c12 5c12 5c12 5c12",
}
RAW = [1000, 2000, 3000, 4000, -1000, -2000, -3000, -4000, 0, 1, -1, 4096, 4700, 4700, 4700, 4700]


class LiteralHand(threading.Thread):
    """Answers by a table of bytes, and records every frame: a V4 that reports whether its servo is on."""

    infos: tuple[str, str] | None = INFO_OFF, INFO_ON
    serial, warmth = SERIAL, "2d2e2f30"

    def __init__(self, channel: str) -> None:
        super().__init__(daemon=True)
        self.bus = can.Bus(interface="virtual", channel=channel)
        self.heard: list[tuple[int, str, bool]] = []
        self.end = threading.Event()
        self.streaming = self.servo = False
        self.start()

    def say(self, identifier: int, data: str) -> None:
        self.bus.send(can.Message(arbitration_id=identifier, data=bytes.fromhex(data), is_extended_id=False))

    def run(self) -> None:
        while not self.end.is_set():
            message = self.bus.recv(0.003)
            if message is not None:
                self.heard.append(
                    (message.arbitration_id, bytes(message.data).hex(), message.is_remote_frame)
                )
                if message.is_remote_frame and message.arbitration_id == 0x200:
                    if self.infos is not None:
                        self.say(0x200, self.infos[self.servo])
                elif message.is_remote_frame and message.arbitration_id == 0x220:
                    self.say(0x220, self.serial)
                elif message.arbitration_id in (0x100, 0x104):
                    self.servo = message.arbitration_id == 0x100
                elif message.arbitration_id == 0x204:
                    self.streaming = any(message.data)
            elif self.streaming:
                for identifier, data in POSITIONS.items():
                    self.say(identifier, data)
                self.say(0x0E4, self.warmth)


class LiteralV5(LiteralHand):
    """A geared right V5, serial number 5TBR0001, that keeps its information to itself; the motors
    of its middle finger at 45 … 48 °C."""

    infos, serial, warmth = None, "35 54 42 52 30 30 30 31", "2d2e2f30"


class LiteralV5OfTypeA(LiteralV5):
    """The same without gears: 5TAR0001."""

    serial = "35 54 41 52 30 30 30 31"


class LeftV5(LiteralV5):
    """5TBL0001"""

    serial = "35 54 42 4c 30 30 30 31"


@pytest.fixture
def hand(request):
    one = getattr(request, "param", LiteralHand)("literal")
    yield one
    one.end.set()
    one.join()
    one.bus.shutdown()


@pytest.fixture
def link(hand):
    """A link to the hand, of its generation."""
    name = "V5" if isinstance(hand, LiteralV5) else "V4"
    params = CanHandParams(hardware=name, realtime_priority=0, feedback_timeout=1.0, answer_timeout=1.0)
    one = CanHand("right", BusParams("virtual", "literal"), params)
    yield one
    one.close()


@pytest.mark.parametrize(
    ("hand", "serial", "rad_per_count", "tau", "torques"),
    [
        (
            LiteralHand,
            "SAG01234",
            np.radians(333.3 / 65536.0),
            # 120, -240; the last two are beyond the limits 525 and 270
            {0: 0.1, 5: -0.2, 12: 1.0, 15: -1.0},
            ["7800000000000000", "000010ff00000000", "0000000000000000", "0d0200000000f2fe"],
        ),
        (
            LiteralV5,
            "5TBR0001",
            np.radians(0.088),
            # 143, half of that on the geared joint, 71; the last two are beyond the limit 240
            {0: 0.1, 5: -0.1, 6: 0.05, 12: 1.0, 15: -1.0},
            ["8f00000000000000", "0000b9ff47000000", "0000000000000000", "f0000000000010ff"],
        ),
        (
            LiteralV5OfTypeA,
            "5TAR0001",
            np.radians(0.088),
            {0: 0.1, 5: -0.1, 6: 0.05, 12: 1.0, 15: -1.0},
            ["8f00000000000000", "000071ff47000000", "0000000000000000", "f0000000000010ff"],
        ),
    ],
    ids=["V4", "geared V5", "V5 of type A"],
    indirect=["hand"],
)
def test_start_angles_torques_and_end_byte_by_byte(hand, link, serial, rad_per_count, tau, torques):
    """In the order of the fact sheet. The currents of a V5 are 1.43 mA per N·mm, half of that on the
    joints 1, 5 and 9 where these are geared, and at most 240 mA."""
    link.start()
    order = [identifier for identifier, _, _ in hand.heard]
    first = [order.index(identifier) for identifier in (0x180, 0x104, 0x200, 0x220, 0x204, 0x100)]
    assert first == sorted(first)
    assert (0x204, "03000000c800", False) in hand.heard, "angles every 3 ms, temperatures every 200 ms"
    assert all(data == "0" * 16 for identifier, data, _ in hand.heard if 0x180 <= identifier <= 0x18C)
    assert (link.serial, link.side) == (serial, "right")
    assert link.info is None if hand.infos is None else link.info.temperature == 54
    for _ in range(3):
        feedback = link.read(0.5)
    np.testing.assert_allclose(feedback.q, np.array(RAW) * rad_per_count, atol=1e-12)
    assert link.temperatures[4:8] == [45, 46, 47, 48] and link.temperatures[0] == 0
    hand.heard.clear()
    link.write(np.array([tau.get(joint, 0.0) for joint in range(16)]))
    link.close()
    frames = [(identifier, data) for identifier, data, remote in hand.heard if not remote]
    assert frames[:4] == [(0x180 + 4 * finger, data) for finger, data in enumerate(torques)]
    zero, off = [(0x180 + 4 * finger, "0" * 16) for finger in range(4)], (0x104, "")
    assert frames[4:] == [*zero, off, (0x204, "0" * 12), off]
    if hand.infos is None:
        assert not any(identifier == 0x200 for identifier, _, _ in hand.heard), "it is not asked again"


@pytest.mark.parametrize("hand", [LiteralV5], indirect=True)
@pytest.mark.parametrize(
    ("data", "trouble"),
    [
        ("0620", "the motor of joint 6 reports: overload"),
        ("0005", "the motor of joint 0 reports: supply voltage out of range and overheating"),
        ("0f10", "the motor of joint 15 reports: electrical shock or insufficient power"),
        ("0302", "the motor of joint 3 reports: unknown bits 0x02"),
    ],
)
def test_an_error_of_a_v5s_motor_is_a_fault(hand, link, data, trouble):
    link.start()
    hand.say(0x3B8, "0500")  # no error
    assert link.read(0.5) is not None
    hand.say(0x3B8, data)
    with pytest.raises(HandFault) as caught:
        for _ in range(50):
            link.read(0.5)
    assert caught.value.kind is FaultKind.MOTOR and str(caught.value) == trouble and caught.value.remedy
    assert not link.on


@pytest.mark.parametrize("hand", [LeftV5], indirect=True)
def test_a_left_v5_is_known_by_its_serial_number(hand, link):
    with pytest.raises(HandFault, match=r"a left hand \(5TBL0001\), a right one is configured"):
        link.start()
    assert not any(identifier == 0x100 for identifier, _, _ in hand.heard), "never on"


def test_a_real_v5_is_refused_with_what_is_missing():
    with pytest.raises(ConfigError, match=r"V5 on socketcan is not driven; missing: a model of its own"):
        CanHand("right", BusParams("socketcan", "can0"), CanHandParams(hardware="V5"))
