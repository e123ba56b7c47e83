"""Emulated motors of a LEAP hand: their firmware, as far as the line can see it, in front of any
plant.

:class:`EmulatedMotors` is the firmware without input or output: bytes in, bytes out, torques. :class:`PtyLoop` connects one to a
pseudo-terminal and a plant in real time, :class:`SimulatedLine` to a driver in simulated time, where nobody waits. Run as a program it is a
hand in a process of its own; lines of JSON on standard input change its faults, and every line is answered by its state::

    python -m dexstack.hand.emulated.leap --hand leap_right --interface pty --channel /tmp/leap
    {"missing_motor": 2}                {"corrupt": 0.2}             {"power_cycle": true}
    {}

Where the manual is silent: in current-based position mode the position controller asks for
``P/128`` mA per count, and a motor that its bus watchdog stopped holds where it was.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import heapq
import math
import os
import select
import sys
import tty
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dexstack.config import make_params
from dexstack.errors import ConfigError
from dexstack.hand.emulated.plant import add_fields, emulated_plant, serve
from dexstack.hand.leap import protocol as dynamixel
from dexstack.hand.leap.line import BITS, Line, LineError
from dexstack.hand.leap.protocol import BROADCAST, MOTOR_IDS, Decoder, Instruction, Motor, Packet, Table
from dexstack.hand.params import BusParams, EmulatedHandParams, FaultParams, MotorFaultParams, MotorParams
from dexstack.model import HAND_NAMES
from dexstack.process.realtime import make_realtime

JOINTS = len(MOTOR_IDS)
TABLE = 148
"""Bytes of a control table that are emulated."""
FIRMWARE = 52
GAIN_UNIT = 128.0
"""Of P."""
RESULT_FAIL, INSTRUCTION_ERROR, RANGE_ERROR, LENGTH_ERROR, ACCESS_ERROR = 1, 2, 4, 5, 7
READ_ONLY = ((0, 7), (69, 71), (120, TABLE))
"""Addresses that nobody may write: from, to."""
GOAL_AREA = (100, 120)
FIRST_RAM = 64
BOOTED, EPOCH = 1e3, 1.7e9


class EmulatedMotors:
    """The firmware of the 16 motors.

    Args:
        motors: what they are; baud rate of the line.
        params: their zero offsets.
        seed: of jitter and loss.

    Raises:
        ConfigError: there is no such motor.
    """

    def __init__(
        self, motors: MotorParams | None = None, params: EmulatedHandParams | None = None, seed: int = 0
    ) -> None:
        self.params, motors = params or EmulatedHandParams(), motors or MotorParams()
        self.motor: Motor = dynamixel.motor_named(motors.motor)
        self.faults, self.wrong = FaultParams(), MotorFaultParams()
        self._offsets = np.array(self.params.zero_offsets)
        self._seconds_per_byte = BITS / motors.baud_rate
        self._rng = np.random.default_rng(seed)
        self._registers = np.zeros((JOINTS, TABLE), np.uint8)
        self.q = np.zeros(JOINTS)
        """Where the joints are [rad]."""
        self._frozen: np.ndarray | None = None
        self._queue: list[tuple[float, int, bytes]] = []
        self._sequence = 0
        self.over_limit = 0
        """Goal currents beyond the motors' limit, since the beginning; must stay 0."""
        self.torque_frames = self.sets = 0
        self.largest = 0.0
        """Largest share of its limit that any goal current took."""
        view = self._view
        view(Table.RETURN_DELAY)[:] = 250  # as delivered
        view(Table.OPERATING_MODE)[:] = 3
        view(Table.CURRENT_LIMIT)[:] = 2352
        self._registers[:, 0:2].view("<u2")[:, 0] = self.motor.model
        self._registers[:, 6], self._registers[:, 7], self._registers[:, 8] = FIRMWARE, MOTOR_IDS, 6
        self.power_cycle()

    def power_cycle(self, t: float = 0.0) -> None:
        """As after the power came back at time ``t`` [s]: no torque, everything in RAM
        forgotten."""
        for joint in range(JOINTS):
            self._reboot(joint)
        self._heard = np.full(JOINTS, t)
        self._decoder, self._free = Decoder(), 0.0
        self._queue.clear()
        self.limp_since: float | None = t
        """When the motors last lost their torque [s]; None while they have some."""

    @property
    def servo(self) -> bool:
        """Some motor has torque."""
        return bool(self._view(Table.TORQUE_ENABLE).any())

    @property
    def torque(self) -> np.ndarray:
        """What the motors do now (16,) [N·m]."""
        self._measure()
        on = (self._view(Table.TORQUE_ENABLE) != 0) & (
            self._view(Table.OPERATING_MODE) == dynamixel.CURRENT_BASED_POSITION
        )
        gain = self._registers[:, 84:86].view("<u2")[:, 0] / GAIN_UNIT
        wanted = gain * (self._view(Table.GOAL_POSITION).astype(float) - self._present()[2])
        most = np.abs(self._view(Table.GOAL_CURRENT).astype(float))
        current = np.where(on, np.clip(wanted, -most, most), 0.0)
        return 1e-3 * current * self.motor.torque_constant * self._sense() * self.faults.motor_gain

    def receive(self, data: bytes, t: float) -> None:
        """Bytes from the line at time ``t`` [s]."""
        for packet in self._decoder.feed(data):
            if packet.instruction == Instruction.STATUS or self._happens(self.faults.loss):
                continue
            if packet.instruction == Instruction.SYNC_READ and len(packet.body) >= 4:
                self._sync_read(packet.body, t)
            elif packet.instruction == Instruction.SYNC_WRITE and len(packet.body) >= 4:
                self._sync_write(packet.body, t)
            else:
                for joint in self._addressed([packet.id], t):
                    self._do(joint, packet, t)
        self._note_limp(t)

    def due(self, t: float) -> bytes:
        """What is on the line by time ``t`` [s]."""
        self._watch(t)
        out = b""
        while self._queue and self._queue[0][0] <= t + 1e-9:
            out += heapq.heappop(self._queue)[2]
        return b"" if self.faults.bus_off else out

    def next_due(self, t: float) -> float:
        """When :meth:`due` will next have something to say [s]; infinite when it was not asked."""
        return self._queue[0][0] if self._queue else math.inf

    def state(self) -> dict[str, Any]:
        """For those who test."""
        return {
            "servo": self.servo,
            "torque_on": self._view(Table.TORQUE_ENABLE).tolist(),
            "limp": self.limp_since is not None,
            "limp_since": self.limp_since,
            "watchdog": self._view(Table.BUS_WATCHDOG).tolist(),
            "counts": self._view(Table.GOAL_CURRENT).tolist(),
            "goals": self._view(Table.GOAL_POSITION).tolist(),
            "sets": self.sets,
            "torque_frames": self.torque_frames,
            "over_limit": self.over_limit,
            "largest": self.largest,
        }

    # --- the control table ------------------------------------------------------------------------------------------------------------

    def _view(self, register: dynamixel.Register) -> np.ndarray:
        """A register of all motors (16,), to be read and written."""
        kind = {1: "u1", 2: "<i2", 4: "<i4"}[register.size]
        return self._registers[:, register.address : register.address + register.size].view(kind)[:, 0]

    def _present(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r = self._registers
        return (
            r[:, 126:128].view("<i2")[:, 0],
            r[:, 128:132].view("<i4")[:, 0],
            r[:, 132:136].view("<i4")[:, 0],
        )

    def _sense(self) -> np.ndarray:
        return np.where(np.arange(JOINTS) == self.wrong.reversed_motor, -1.0, 1.0)

    def _measure(self) -> None:
        """Joint angles and what else is wrong into the registers."""
        f, w, r = self.faults, self.wrong, self._registers
        angles = (self.q + self._offsets) * f.encoder_gain
        if f.encoder_noise:
            angles = angles + f.encoder_noise * self._rng.standard_normal(JOINTS)
        if f.leap_joint >= 0:
            angles[f.leap_joint] += f.encoder_leap
        position = dynamixel.angle_to_counts(angles * self._sense())
        if f.frozen_joint >= 0 and self._frozen is not None:
            position[f.frozen_joint] = self._frozen[f.frozen_joint]
        self._frozen = position
        self._present()[2][:] = position
        self._view(Table.VOLTAGE)[:] = round(10.0 * w.supply)
        self._view(Table.TEMPERATURE)[:] = w.motor_celsius
        self._view(Table.DRIVE_MODE)[:] = self._sense() < 0.0
        r[:, 0:2].view("<u2")[:, 0] = np.where(np.arange(JOINTS) == w.wrong_model, 1060, self.motor.model)
        for joint, bits in ((w.failing_motor, w.motor_error), (f.overloaded_motor, 0x20)):
            if joint >= 0:
                r[joint, 70] |= bits
                r[joint, 64] = 0  # a motor with an error is off until it is rebooted

    def _reboot(self, joint: int) -> None:
        registers = self._registers[joint]
        registers[FIRST_RAM:] = 0
        registers[68] = 2
        registers[80:86] = np.frombuffer(np.array((500, 0, 1100), "<u2").tobytes(), np.uint8)
        registers[102:104] = registers[
            38:40
        ]  # the largest current there is: whoever switches the torque on should know

    def _write(self, joint: int, address: int, data: bytes) -> int:
        """One motor's registers; the error of its answer."""
        registers, end = self._registers[joint], address + len(data)
        if end > TABLE or not data or any(address < to and start < end for start, to in READ_ONLY):
            return ACCESS_ERROR
        if address < FIRST_RAM and registers[64]:
            return ACCESS_ERROR
        if address < GOAL_AREA[1] and GOAL_AREA[0] < end and registers[98] == dynamixel.WATCHDOG_FIRED:
            return RANGE_ERROR
        torque_before = registers[64]
        registers[address:end] = np.frombuffer(data, np.uint8)
        if address <= 11 < end:
            registers[102:104] = registers[38:40]
        if registers[64] and (registers[70] or self.faults.refuses_servo):
            registers[64] = 0
            return RESULT_FAIL
        if registers[64] and not torque_before:
            registers[116:120] = registers[132:136]  # torque comes on without a move
        if address <= 102 < end:
            self._check_current(int.from_bytes(registers[102:104].tobytes(), "little", signed=True))
        return 0

    def _check_current(self, milliamperes: int) -> None:
        share = abs(milliamperes) / (1e3 * self.motor.largest_current)
        self.over_limit += share > 1.0 + 1e-9
        self.largest = max(self.largest, share)

    # --- packets ----------------------------------------------------------------------------------------------------------------------

    def _addressed(self, ids: Sequence[int], t: float) -> list[int]:
        """The motors of these numbers that hear, in this order."""
        first, second = self.wrong.swapped_motors
        ids_of = list(MOTOR_IDS)
        if min(first, second) >= 0:
            ids_of[first], ids_of[second] = ids_of[second], ids_of[first]
        joints = range(JOINTS) if list(ids) == [BROADCAST] else [ids_of.index(i) for i in ids if i in ids_of]
        heard = [j for j in joints if j != self.wrong.missing_motor and not self.faults.bus_off]
        self._heard[heard] = t
        self._ids = ids_of
        return heard

    def _do(self, joint: int, packet: Packet, t: float) -> None:
        """One instruction for one motor."""
        data, error = b"", 0
        self._measure()
        if packet.instruction == Instruction.PING:
            data = self._registers[joint, [0, 1, 6]].tobytes()
        elif packet.instruction == Instruction.READ and len(packet.body) == 4:
            address, length = (
                int.from_bytes(packet.body[:2], "little"),
                int.from_bytes(packet.body[2:], "little"),
            )
            data, error = self._bytes(joint, address, length)
        elif packet.instruction == Instruction.WRITE and len(packet.body) > 2:
            error = self._write(joint, int.from_bytes(packet.body[:2], "little"), packet.body[2:])
        elif packet.instruction == Instruction.REBOOT:
            self._reboot(joint)
        else:
            error = INSTRUCTION_ERROR
        if packet.id != BROADCAST or packet.instruction == Instruction.PING:
            self._say(self._answer(joint, data, error), t, int(self._registers[joint, 9]))

    def _sync_read(self, body: bytes, t: float) -> None:
        address, length = int.from_bytes(body[:2], "little"), int.from_bytes(body[2:4], "little")
        joints = self._addressed(list(body[4:]), t)
        self._measure()
        self.sets += address <= 132 < address + length
        if self.faults.silent or not joints:
            return
        finger = self.faults.silent_finger
        answers = [self._answer(j, *self._bytes(j, address, length)) for j in joints if j // 4 != finger]
        self._say(b"".join(answers), t, int(self._registers[joints, 9].sum()))

    def _sync_write(self, body: bytes, t: float) -> None:
        address, length = int.from_bytes(body[:2], "little"), int.from_bytes(body[2:4], "little")
        parts = [body[at : at + 1 + length] for at in range(4, len(body), 1 + length)]
        self._measure()
        self.torque_frames += address == Table.GOALS.address
        for part in parts:
            for joint in self._addressed([part[0]], t):
                if len(part) == 1 + length:
                    self._write(joint, address, part[1:])

    def _bytes(self, joint: int, address: int, length: int) -> tuple[bytes, int]:
        if address + length > TABLE or not length:
            return b"", ACCESS_ERROR
        return self._registers[joint, address : address + length].tobytes(), 0

    def _answer(self, joint: int, data: bytes, error: int) -> bytes:
        if self._happens(self.faults.loss):
            return b""
        error |= dynamixel.ALERT if self._registers[joint, 70] else 0
        line = bytearray(dynamixel.status(self._ids[joint], data, error))
        if self._happens(self.wrong.corrupt):
            line[self._rng.integers(len(line))] ^= 1 << int(self._rng.integers(8))
        if self._happens(self.wrong.lost_bytes):
            del line[self._rng.integers(len(line))]
        return bytes(line)

    def _say(self, line: bytes, t: float, delay: int) -> None:
        f = self.faults
        self._free = max(t, self._free) + 2e-6 * delay + len(line) * self._seconds_per_byte
        at = self._free + f.latency + (f.jitter * self._rng.random() if f.jitter else 0.0)
        self._sequence += 1
        heapq.heappush(self._queue, (at, self._sequence, line))

    def _watch(self, t: float) -> None:
        """The bus watchdogs."""
        allowed = self._view(Table.BUS_WATCHDOG)
        running = (allowed > 0) & (allowed < 128) & (self._view(Table.TORQUE_ENABLE) != 0)
        fired = running & (t - self._heard > dynamixel.WATCHDOG_UNIT * allowed)
        if fired.any():
            self._measure()
            allowed[fired] = dynamixel.WATCHDOG_FIRED
            self._view(Table.GOAL_POSITION)[fired] = self._present()[2][fired]
        self._note_limp(t)

    def _note_limp(self, t: float) -> None:
        stopped = self._view(Table.BUS_WATCHDOG) == dynamixel.WATCHDOG_FIRED
        if ((self._view(Table.TORQUE_ENABLE) != 0) & (self._view(Table.GOAL_CURRENT) != 0) & ~stopped).any():
            self.limp_since = None
        elif self.limp_since is None:
            self.limp_since = t

    def _happens(self, share: float) -> bool:
        return share > 0.0 and self._rng.random() < share

    def change(self, changes: Mapping[str, Any], t: float) -> None:
        """Change some of what is wrong at time ``t`` [s], by the names of both fault blocks;
        ``power_cycle`` switches it off and on.

        Raises:
            ConfigError: there is no such fault, or it cannot be so large.
        """
        if changes.get("power_cycle"):
            self.power_cycle(t)
        faults = {name: value for name, value in changes.items() if name != "power_cycle"}
        own = {f.name for f in dataclasses.fields(MotorFaultParams)}
        mine = {name: faults.pop(name) for name in list(faults) if name in own}
        self.faults = make_params(FaultParams, {**dataclasses.asdict(self.faults), **faults})
        self.wrong = make_params(MotorFaultParams, {**dataclasses.asdict(self.wrong), **mine})


class PtyLoop:
    """Emulated motors between a pseudo-terminal and a plant.

    Args:
        hand: the firmware.
        path: a link to the terminal, made anew.

    Raises:
        ConfigError: it cannot be made.
    """

    def __init__(self, hand: EmulatedMotors, path: str) -> None:
        self.hand = hand
        self._path = path
        self._file, self._end = (
            os.openpty()
        )  # our own handle of the other end keeps it open while no driver is there
        tty.setraw(self._end)
        os.set_blocking(self._file, False)
        try:
            if os.path.islink(path):
                os.unlink(path)
            os.symlink(os.ttyname(self._end), path)
        except OSError as error:
            self.close()
            raise ConfigError(f"cannot make the terminal {path}: {error.strerror}") from None

    def inject(self, faults: FaultParams | MotorFaultParams) -> None:
        """Change what is wrong."""
        if isinstance(faults, MotorFaultParams):
            self.hand.wrong = faults
        else:
            self.hand.faults = faults

    def change(self, changes: Mapping[str, Any], t: float) -> None:
        """See :meth:`EmulatedMotors.change`."""
        self.hand.change(changes, t)

    def run_until(self, t: float, now: Callable[[], float], q: np.ndarray) -> None:
        """Serve the terminal until ``now()`` reaches ``t`` [s], the joints standing at ``q`` (16,)
        [rad]."""
        self.hand.q = np.array(q)
        while True:
            time_now = now()
            out = self.hand.due(time_now)
            if out:
                with contextlib.suppress(BlockingIOError):  # nobody reads: as on a line, it is lost
                    os.write(self._file, out)
            wait = max(0.0, min(t, self.hand.next_due(time_now)) - time_now)
            if select.select([self._file], [], [], wait)[0]:
                self.hand.receive(os.read(self._file, 4096), now())
            elif time_now >= t:
                return

    def close(self) -> None:
        """Never raises."""
        for file in (self._file, self._end):
            with contextlib.suppress(OSError):
                os.close(file)
        with contextlib.suppress(OSError):
            if os.path.islink(self._path) and not os.path.exists(self._path):
                os.unlink(self._path)


class SimulatedLine(Line):
    """A line in simulated time with emulated motors at its end: time goes on only while somebody
    waits for an answer or sleeps.

    Args:
        hand: the firmware.
        plant: what is behind it; see :class:`dexstack.hand.emulated.plant.StandingPlant`.
    """

    def __init__(self, hand: EmulatedMotors, plant: Any) -> None:
        super().__init__("emulated", 4_000_000, 0.0)
        self.hand, self.plant = hand, plant
        self.t = BOOTED
        self.trouble: LineError | None = None
        """What every use raises."""
        self.serial_number = "EMULATED"
        self._steps = 0
        self._inbox: deque[int] = deque()
        hand.q = plant.joint_position

    def open(self, bus: BusParams, motors: MotorParams, patience: float) -> SimulatedLine:
        """For a driver that opens a line."""
        if self.trouble is not None:
            raise self.trouble
        self._seconds_per_byte, self.patience, self.is_using = BITS / motors.baud_rate, patience, False
        return self

    def monotonic(self) -> float:
        return self.t

    def system(self) -> float:
        return self.t + EPOCH - BOOTED

    def sleep(self, seconds: float) -> None:
        end = self.t + seconds
        while self.t < end:
            self._advance(end)

    def set(self, **changes: Any) -> dict[str, Any]:
        """Change faults of the hand; its state."""
        self.hand.change(changes, self.t)
        return {**self.hand.state(), "time": self.t}

    def clearPort(self) -> None:
        self._inbox.clear()

    def writePort(self, data: Sequence[int]) -> int:
        self._check()
        self.sleep(len(data) * self._seconds_per_byte)
        self.hand.receive(bytes(data), self.t)
        return len(data)

    def readPort(self, length: int) -> bytes:
        self._check()
        while not self._inbox and self.t < self._deadline:
            self._advance(self._deadline)
            self._check()
        return bytes(self._inbox.popleft() for _ in range(min(length, len(self._inbox))))

    def _check(self) -> None:
        if self.trouble is not None:
            raise self.trouble

    def _advance(self, until: float) -> None:
        step = BOOTED + (self._steps + 1) * self.plant.dt
        self.t = max(self.t, min(until, step, self.hand.next_due(self.t)))
        if self.t >= step:
            self._steps += 1
            self.plant.step(self.hand.torque)
            self.hand.q = self.plant.joint_position
        self._inbox.extend(self.hand.due(self.t))


def from_arguments(argv: Sequence[str] | None) -> tuple[EmulatedMotors, Any, BusParams]:
    """Emulated motors, the plant behind them and their line from the arguments of the program.

    Raises:
        ConfigError: they cannot be used.
    """
    parser = argparse.ArgumentParser(
        prog="dexstack.hand.emulated.leap", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--hand", default="leap_right", help=HAND_NAMES)
    parser.add_argument(
        "--plant", default="mujoco", help="what is behind the hand: mujoco, standing or swept"
    )
    parser.add_argument("--object", default="cube", help="object of the mujoco plant")
    blocks = (BusParams, MotorParams, EmulatedHandParams, FaultParams, MotorFaultParams)
    for cls in blocks:
        add_fields(cls, parser)
    args = vars(parser.parse_args(argv))
    bus, motors, params, faults, wrong = (make_params(cls, args, ignore_unknown=True) for cls in blocks)
    hand = EmulatedMotors(motors, params)
    hand.faults, hand.wrong = faults, wrong
    return hand, emulated_plant(args["plant"], args["hand"], args["object"], "leap")[0], bus


def main(argv: list[str] | None = None) -> int:
    try:
        hand, plant, bus = from_arguments(argv)
        loop = PtyLoop(hand, BusParams("pty", bus.channel).where)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    if hand.params.emulator_priority:
        make_realtime(hand.params.emulator_priority)
    serve(loop, plant, {"bus": BusParams("pty", bus.channel).where})
    loop.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
