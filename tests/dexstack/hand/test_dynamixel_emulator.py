"""The emulated motors: their firmware, on a pseudo-terminal with dynamixel-sdk at the other end,
and when the host dies."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest

from dexstack.errors import ConfigError
from dexstack.hand.emulated.dynamixel import EmulatedMotors
from dexstack.hand.emulated.leap import PtyLoop, from_arguments
from dexstack.hand.leap import protocol as dynamixel
from dexstack.hand.leap.protocol import Decoder, Instruction, Packet, Table, encode
from tests.dexstack.hand.leap_process import Process
from tests.dexstack.hand.motors import LEAP, line


def tell(
    hand: EmulatedMotors, motor: int, instruction: int, body: bytes = b"", t: float = 0.0
) -> list[Packet]:
    """What the motors answer."""
    hand.receive(encode(Packet(motor, instruction, body)), t)
    return Decoder().feed(hand.due(t + 0.01))


def write(hand: EmulatedMotors, motor: int, register: dynamixel.Register, value: int, t: float = 0.0) -> int:
    """The error of the answer."""
    body = register.address.to_bytes(2, "little") + value.to_bytes(register.size, "little", signed=value < 0)
    return tell(hand, motor, Instruction.WRITE, body, t)[0].body[0]


def read(hand: EmulatedMotors, motor: int, register: dynamixel.Register, t: float = 0.0) -> int:
    body = register.address.to_bytes(2, "little") + register.size.to_bytes(2, "little")
    answer = tell(hand, motor, Instruction.READ, body, t)[0].body
    assert answer[0] & ~dynamixel.ALERT == 0
    return int.from_bytes(answer[1:], "little", signed=register.size > 1)


def test_registers_and_their_errors():
    hand = EmulatedMotors()
    assert write(hand, 3, Table.OPERATING_MODE, 5) == 0 and read(hand, 3, Table.OPERATING_MODE) == 5
    assert read(hand, 2, Table.OPERATING_MODE) == 3 and read(hand, 3, Table.GOAL_CURRENT) == 2352
    assert write(hand, 3, Table.TORQUE_ENABLE, 1) == 0
    assert write(hand, 3, Table.OPERATING_MODE, 0) == 7, "settings that last are locked under torque"
    assert write(hand, 3, Table.HARDWARE_ERROR, 0) == 7 and write(hand, 3, dynamixel.Register(300, 1), 0) == 7
    assert tell(hand, 3, 0x77)[0].body == b"\x02"
    assert tell(hand, 3, Instruction.REBOOT)[0].body == b"\0"
    assert tell(hand, 3, Instruction.PING, t=0.2) == [], "it starts"
    assert read(hand, 3, Table.TORQUE_ENABLE, 0.4) == 0 and read(hand, 3, Table.OPERATING_MODE, 0.4) == 5


def test_the_torque_is_what_the_goals_say():
    on = line()
    hand = on.hand
    hand.q = np.zeros(16)
    for register, value in (
        (Table.OPERATING_MODE, 5),
        (Table.TORQUE_ENABLE, 1),
        (Table.GOAL_CURRENT, 300),
        (Table.GOAL_POSITION, 3000),
    ):
        assert write(hand, 6, register, value) == 0
    constant = hand.motor.torque_constant
    np.testing.assert_allclose(hand.torque, np.where(np.arange(16) == 6, 0.3 * constant, 0.0))
    write(hand, 6, Table.GOAL_POSITION, 2048 + 12)
    assert hand.torque[6] == pytest.approx(12 * 1100 / 128 * 1e-3 * constant)
    hand.change({"motor_gain": (-1.0,) * 16}, 0.0)
    assert hand.torque[6] < 0.0


def test_a_hand_of_another_family_and_an_impossible_terminal_are_refused():
    with pytest.raises(ConfigError, match="is of the family 'allegro', this emulator is for 'leap'"):
        from_arguments(["--hand", "right", "--plant", "hand"])
    with pytest.raises(ConfigError, match="cannot make the terminal /nonexistent/leap"):
        PtyLoop(EmulatedMotors(), "/nonexistent/leap")


@pytest.fixture
def process(tmp_path) -> Iterator[Process]:
    one = Process(str(tmp_path / "leap"))
    yield one
    one.close()


def test_the_sdk_talks_to_it_through_its_own_port(process):
    sdk = pytest.importorskip("dynamixel_sdk")
    port, packets = sdk.PortHandler(process.path), sdk.PacketHandler(2.0)
    assert port.openPort() and port.setBaudRate(4_000_000)
    asked = [packets.ping(port, i) for i in range(16)]
    if not all(
        result == sdk.COMM_SUCCESS for _, result, _ in asked
    ):  # its timeouts are those of a quiet machine
        pytest.skip("this machine is too busy for the SDK's own port")
    assert {model for model, _, _ in asked} == {1240}
    group = sdk.GroupSyncRead(port, packets, 132, 4)
    assert all(group.addParam(i) for i in range(16)) and group.txRxPacket() == sdk.COMM_SUCCESS
    counts = [group.getData(i, 132, 4) for i in dynamixel.MOTOR_IDS]
    np.testing.assert_array_equal(counts, dynamixel.angle_to_counts(LEAP.home))
    assert packets.write2ByteTxRx(port, 5, 102, 77) == (sdk.COMM_SUCCESS, 0)
    assert packets.read2ByteTxRx(port, 5, 102) == (77, sdk.COMM_SUCCESS, 0)
    port.closePort()


VICTIM = """
import sys, time
import numpy as np
from dexstack.hand.leap.dynamixel_hand import LeapHand
from dexstack.hand.params import BusParams, CanHandParams, MotorParams
from dexstack.model.hand import load_hand
params = CanHandParams(realtime_priority=0, calibration_dir="/nonexistent", feedback_timeout=1.0)
motors = MotorParams(motor_timeout=0.5, bus_watchdog=1.0)
link = LeapHand(load_hand("leap_right"), BusParams("pty", sys.argv[1]), params, motors)
link.start()
print("on", flush=True)
while True:
    if link.read(0.1) is not None:
        link.write(np.full(16, 0.1))
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_the_motors_stop_when_the_host_dies_or_hangs(process, end):
    victim = subprocess.Popen([sys.executable, "-c", VICTIM, process.path], stdout=subprocess.PIPE, text=True)
    try:
        assert victim.stdout.readline() == "on\n"
        process.wait(lambda s: min(s["counts"]) > 100)
        os.kill(victim.pid, end)
        state = process.wait(lambda s: s["limp"])
        assert state["watchdog"] == [dynamixel.WATCHDOG_FIRED] * 16
        stopped = np.array(state["q"])
        time.sleep(0.3)
        np.testing.assert_allclose(process.set()["q"], stopped, atol=0.01)
    finally:
        victim.kill()
        victim.wait()
        victim.stdout.close()


def test_two_drivers_do_not_share_a_line(process):
    from dexstack.hand.leap.line import LineError, SerialLine
    from dexstack.hand.params import BusParams, MotorParams

    first = SerialLine(BusParams("pty", process.path), MotorParams(), 0.1)
    with pytest.raises(LineError, match=r"used by another program|cannot be opened"):
        SerialLine(BusParams("pty", process.path), MotorParams(), 0.1)
    first.close()
    SerialLine(BusParams("pty", process.path), MotorParams(), 0.1).close()
