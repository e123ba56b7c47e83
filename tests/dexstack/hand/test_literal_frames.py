"""The driver against a V4 and a V5 that are written down in bytes here and nowhere else: nothing of
the protocol module plays the hand."""

from __future__ import annotations

import threading

import can
import numpy as np
import pytest
from emulated import HAND

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
    """Answers by a table of bytes, and writes down every frame it hears: a V4 that says whether its
    servo is on."""

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


def driver(hardware="V4"):
    params = CanHandParams(hardware=hardware, realtime_priority=0, feedback_timeout=1.0, answer_timeout=1.0)
    return CanHand("right", BusParams("virtual", "literal"), params)


def test_start_angles_torques_and_end_byte_by_byte(hand):
    link = driver()
    try:
        link.start()
        assert (link.serial, link.side) == ("SAG01234", "right") and link.info.temperature == 54
        for _ in range(3):
            feedback = link.read(0.5)
        np.testing.assert_allclose(feedback.q, np.radians(np.array(RAW) * 333.3 / 65536.0), atol=1e-12)
        assert link.temperatures[4:8] == [45, 46, 47, 48] and link.temperatures[0] == 0
        hand.heard.clear()
        tau = np.zeros(16)
        tau[[0, 5, 12, 15]] = (
            0.1,
            -0.2,
            1.0,
            -1.0,
        )  # 120, -240; the last two are beyond the limits 525 and 270
        link.write(tau)
    finally:
        link.close()
    frames = [frame for frame in hand.heard if not frame[2]]
    assert frames[:4] == [
        (0x180, "7800000000000000", False),
        (0x184, "000010ff00000000", False),
        (0x188, "0000000000000000", False),
        (0x18C, "0d0200000000f2fe", False),
    ]
    assert (0x204, "000000000000", False) in frames and frames[-1][0] == 0x104, (
        "period 0, and the servo is off at the end"
    )


def test_the_start_in_the_order_of_the_fact_sheet(hand):
    link = driver()
    try:
        link.start()
    finally:
        link.close()
    order = [identifier for identifier, _, _ in hand.heard]
    first = {identifier: order.index(identifier) for identifier in (0x180, 0x104, 0x200, 0x220, 0x204, 0x100)}
    assert sorted(first, key=first.__getitem__) == [0x180, 0x104, 0x200, 0x220, 0x204, 0x100]
    assert (0x204, "03000000c800", False) in hand.heard, "angles every 3 ms, temperatures every 200 ms"
    assert all(
        data == "0000000000000000" for identifier, data, _ in hand.heard if 0x180 <= identifier <= 0x18C
    )


@pytest.mark.parametrize(
    ("hand", "middle"),
    [(LiteralV5, "0000b9ff47000000"), (LiteralV5OfTypeA, "000071ff47000000")],
    indirect=["hand"],
    ids=["geared", "type A"],
)
def test_a_v5_byte_by_byte(hand, middle):
    """Its currents are 1.43 mA per N·mm, half of that on the joints 1, 5 and 9 where these are
    geared, and at most 240 mA."""
    link = driver("V5")
    try:
        link.start()
        assert link.serial[:2] == "5T" and link.side == "right" and link.info is None
        for _ in range(3):
            feedback = link.read(0.5)
        np.testing.assert_allclose(feedback.q, np.radians(np.array(RAW) * 0.088), atol=1e-12)
        assert link.temperatures[4:8] == [45, 46, 47, 48] and link.temperatures[:4] == [0] * 4
        hand.heard.clear()
        tau = np.zeros(16)
        tau[[0, 5, 6, 12, 15]] = (
            0.1,
            -0.1,
            0.05,
            1.0,
            -1.0,
        )  # 143, -71 or -143, 71; the last two are beyond the limit 240
        link.write(tau)
    finally:
        link.close()
    frames = [frame for frame in hand.heard if not frame[2]]
    assert frames[0] == (0x180, "8f00000000000000", False) and frames[3] == (0x18C, "f0000000000010ff", False)
    assert frames[1] == (0x184, middle, False)
    assert (0x204, "000000000000", False) in frames and frames[-1][0] == 0x104, (
        "period 0, and the servo is off at the end"
    )
    assert not any(remote for identifier, _, remote in hand.heard if identifier == 0x200), (
        "its information is not polled"
    )


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
def test_an_error_of_a_v5s_motor_is_a_fault(hand, data, trouble):
    link = driver("V5")
    try:
        link.start()
        hand.say(0x3B8, "0500")  # no error
        assert link.read(0.5) is not None
        hand.say(0x3B8, data)
        with pytest.raises(HandFault) as caught:
            for _ in range(50):
                link.read(0.5)
        assert caught.value.kind is FaultKind.MOTOR and str(caught.value) == trouble and caught.value.remedy
        assert not link.on
    finally:
        link.close()


@pytest.mark.parametrize("hand", [LeftV5], indirect=True)
def test_a_left_v5_is_known_by_its_serial_number(hand):
    link = driver("V5")
    try:
        with pytest.raises(HandFault, match=r"a left hand \(5TBL0001\), a right one is configured"):
            link.start()
    finally:
        link.close()
    assert not any(identifier == 0x100 for identifier, _, _ in hand.heard), "never on"


def test_a_real_v5_is_refused_with_what_is_missing():
    with pytest.raises(
        ConfigError,
        match=r"V5 on socketcan is not driven; missing: a model of its own",
    ):
        CanHand(HAND.side, BusParams("socketcan", "can0"), CanHandParams(hardware="V5"))
