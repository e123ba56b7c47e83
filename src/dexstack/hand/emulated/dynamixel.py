"""Firmware of the emulated motors of a LEAP hand, in front of any plant.

:class:`EmulatedMotors` has no input or output: bytes in, bytes out, torques. Where the manual is
silent: in current-based position mode the position controller asks for ``P/128`` mA per count, and
a motor stopped by its bus watchdog holds its position.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from dexstack.hand.emulated.firmware import Firmware
from dexstack.hand.leap import protocol as dynamixel
from dexstack.hand.leap.line import BITS
from dexstack.hand.leap.protocol import BROADCAST, MOTOR_IDS, Decoder, Instruction, Motor, Packet, Table
from dexstack.hand.params import EmulatedHandParams, MotorFaultParams, MotorParams

JOINTS = len(MOTOR_IDS)
TABLE = 148
"""Bytes of a control table that are emulated."""
FIRMWARE = 52
GAIN_UNIT = 128.0
"""Unit of the gain P."""
RESULT_FAIL, INSTRUCTION_ERROR, RANGE_ERROR, LENGTH_ERROR, ACCESS_ERROR = 1, 2, 4, 5, 7
READ_ONLY = ((0, 7), (69, 71), (120, TABLE))
"""Ranges of addresses: from, to."""
GOAL_AREA = (100, 120)
FIRST_RAM = 64
BOOT_TIME = 0.3
"""Time for which a motor is silent after a reboot [s]."""


class EmulatedMotors(Firmware):
    """The firmware of the 16 motors.

    Args:
        motors: their model and the baud rate of the line.
        params: their zero offsets.
        seed: of jitter and loss.

    Raises:
        ConfigError: unknown motor.
    """

    def __init__(
        self, motors: MotorParams | None = None, params: EmulatedHandParams | None = None, seed: int = 0
    ) -> None:
        super().__init__(params, seed)
        motors = motors or MotorParams()
        self.motor: Motor = dynamixel.motor_named(motors.motor)
        self.wrong = MotorFaultParams()
        self._seconds_per_byte = BITS / motors.baud_rate
        self._registers = np.zeros((JOINTS, TABLE), np.uint8)
        self.q = np.zeros(JOINTS)
        """Joint angles [rad]."""
        self._frozen: np.ndarray | None = None
        view = self._view
        view(Table.RETURN_DELAY)[:] = 250  # as delivered
        view(Table.OPERATING_MODE)[:] = 3
        view(Table.CURRENT_LIMIT)[:] = 2352
        self._registers[:, 0:2].view("<u2")[:, 0] = self.motor.model
        self._registers[:, 6], self._registers[:, 7], self._registers[:, 8] = FIRMWARE, MOTOR_IDS, 6
        self.power_cycle()

    def power_cycle(self, t: float = 0.0) -> None:
        super().power_cycle(t)
        for joint in range(JOINTS):
            self._reboot(joint)
        self._heard, self._awake = np.full(JOINTS, t), np.full(JOINTS, t)
        self._decoder, self._free = Decoder(), 0.0

    @property
    def servo(self) -> bool:
        """True if a motor has torque."""
        return bool(self._view(Table.TORQUE_ENABLE).any())

    @property
    def torque(self) -> np.ndarray:
        """Torques of the motors (16,) [N·m]."""
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
        """Process bytes from the line at time ``t`` [s]."""
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
        self._note_current(t)

    def due(self, t: float) -> bytes:
        """Return the bytes on the line by time ``t`` [s]."""
        self._run_watchdogs(t)
        return b"".join(self._sent(t))

    def next_due(self, t: float) -> float:
        """Return when :meth:`due` has something to send next [s]; infinite without a request."""
        return self._queue[0][0] if self._queue else math.inf

    def state(self) -> dict[str, Any]:
        return {
            **super().state(),
            "servo": self.servo,
            "torque_on": self._view(Table.TORQUE_ENABLE).tolist(),
            "watchdog": self._view(Table.BUS_WATCHDOG).tolist(),
            "counts": self._view(Table.GOAL_CURRENT).tolist(),
            "goals": self._view(Table.GOAL_POSITION).tolist(),
        }

    # --- the control table

    def _view(self, register: dynamixel.Register) -> np.ndarray:
        """Return a writable view of a register of all motors (16,)."""
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
        """Write joint angles and faults to the registers."""
        f, w, r = self.faults, self.wrong, self._registers
        position = dynamixel.angle_to_counts(self._angles(self.q) * self._sense())
        if f.frozen_joint >= 0 and self._frozen is not None:
            position[f.frozen_joint] = self._frozen[f.frozen_joint]
        self._frozen = position
        self._present()[2][:] = position
        self._view(Table.VOLTAGE)[:] = round(10.0 * w.supply)
        self._view(Table.TEMPERATURE)[:] = w.motor_celsius
        mode = self._view(Table.DRIVE_MODE)
        mode[:] = mode & (0xFF ^ dynamixel.REVERSED) | (self._sense() < 0.0)
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
        registers[102:104] = registers[38:40]  # the largest current

    def _write(self, joint: int, address: int, data: bytes) -> int:
        """Write registers of one motor; return the error of its answer."""
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
        self._note_torque(abs(milliamperes) / (1e3 * self.motor.largest_current))

    # --- packets

    def _addressed(self, ids: Sequence[int], t: float) -> list[int]:
        """Return the joints whose motors have these numbers and receive, in this order."""
        first, second = self.wrong.swapped_motors
        ids_of = list(MOTOR_IDS)
        if min(first, second) >= 0:
            ids_of[first], ids_of[second] = ids_of[second], ids_of[first]
        joints = range(JOINTS) if list(ids) == [BROADCAST] else [ids_of.index(i) for i in ids if i in ids_of]
        heard = [
            j
            for j in joints
            if j != self.wrong.missing_motor and not self.faults.bus_off and t >= self._awake[j]
        ]
        self._heard[heard] = t
        self._ids = ids_of
        return heard

    def _do(self, joint: int, packet: Packet, t: float) -> None:
        """Execute one instruction for one motor."""
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
            self._awake[joint] = t + BOOT_TIME
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
        self._free = max(t, self._free) + 2e-6 * delay + len(line) * self._seconds_per_byte
        self._send(line, self._free)

    def _run_watchdogs(self, t: float) -> None:
        allowed = self._view(Table.BUS_WATCHDOG)
        running = (allowed > 0) & (allowed < 128) & (self._view(Table.TORQUE_ENABLE) != 0)
        fired = running & (t - self._heard > dynamixel.WATCHDOG_UNIT * allowed)
        if fired.any():
            self._measure()
            allowed[fired] = dynamixel.WATCHDOG_FIRED
            self._view(Table.GOAL_POSITION)[fired] = self._present()[2][fired]
        self._note_current(t)

    def _note_current(self, t: float) -> None:
        stopped = self._view(Table.BUS_WATCHDOG) == dynamixel.WATCHDOG_FIRED
        on = (self._view(Table.TORQUE_ENABLE) != 0) & (self._view(Table.GOAL_CURRENT) != 0)
        self._note_limp(bool((on & ~stopped).any()), t)

    def change(self, changes: Mapping[str, Any], t: float) -> None:
        """Change faults by the names of both blocks; see :meth:`Firmware.change`."""
        names = {f.name for f in fields(MotorFaultParams)}
        self.wrong = self._changed(self.wrong, {k: v for k, v in changes.items() if k in names})
        super().change({k: v for k, v in changes.items() if k not in names}, t)

    def inject(self, faults: Any) -> None:
        super().inject(faults)
        if isinstance(faults, MotorFaultParams):
            self.wrong = faults
