"""The Allegro hand's CAN protocol: bytes to numbers and back, no input or output.

1 Mbit/s, 11-bit identifiers, little-endian. The identifier of a frame is ``command << 2 | device``.
Finger f of a command that exists per finger is ``command + f``; fingers are index, middle, ring,
thumb, and joint 0 of a finger is its abduction (the thumb's opposition). A remote frame asks for
the data frame of the same identifier.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from dexstack.errors import ConfigError

FINGERS = 4
JOINTS = 16
BITRATE = 1_000_000
INT16 = 32767


class Command(IntEnum):
    """What a frame is about; the first of four where there is one per finger (or per temperature
    sensor)."""

    POSITION = 0x20
    IMU = 0x30
    TEMPERATURE = 0x38
    SERVO_ON = 0x40
    SERVO_OFF = 0x41
    TORQUE = 0x60
    CONFIG = 0x68
    INFO = 0x80
    PERIOD = 0x81
    SERIAL = 0x88
    POSE = 0xE0
    ERROR = 0xEE


class ProtocolError(ValueError):
    """A frame that does not hold what its identifier promises; the text says why."""


class Frame(NamedTuple):
    """One CAN frame with an 11-bit identifier."""

    id: int
    data: bytes = b""
    remote: bool = False


class HandInfo(NamedTuple):
    """What a hand says about itself."""

    hardware_version: int
    """High byte: the generation, e.g. 0x0402 for a V4."""
    firmware_version: int
    left: bool
    temperature: int
    """[°C]"""
    servo_on: bool
    over_temperature: bool
    communication_fault: bool
    """Inside the hand."""

    @property
    def generation(self) -> int:
        """3, 4, 5, …"""
        return self.hardware_version >> 8 or self.hardware_version


def frame_id(command: int, device: int = 0) -> int:
    """Identifier of a command for one of the devices 0 … 3 on a bus."""
    return command << 2 | device


def split_id(identifier: int) -> tuple[int, int]:
    """Command and device of an identifier."""
    return identifier >> 2, identifier & 3


# --- to the hand ------------------------------------------------------------------------------------------------------------------

_FOUR = struct.Struct("<4h")
_THREE = struct.Struct("<3h")
_PERIOD = struct.Struct("<3H")
_INFO = struct.Struct("<HHBBB")
_CONFIG = struct.Struct("<BI")
_CELSIUS = struct.Struct("<i")
_ERROR = struct.Struct("<BB")


def servo_on(device: int = 0) -> Frame:
    return Frame(frame_id(Command.SERVO_ON, device))


def servo_off(device: int = 0) -> Frame:
    return Frame(frame_id(Command.SERVO_OFF, device))


def set_torque(finger: int, counts: Sequence[int], device: int = 0) -> Frame:
    """Torque of one finger's four joints in the hand's counts (PWM; mA on a V5)."""
    return Frame(frame_id(Command.TORQUE + finger, device), _FOUR.pack(*counts))


def set_pose(finger: int, counts: Sequence[int], device: int = 0) -> Frame:
    """Target angle of one finger's four joints in position counts, for the hand's own position
    controller (which dexstack never uses)."""
    return Frame(frame_id(Command.POSE + finger, device), _FOUR.pack(*counts))


def set_period(position: int, imu: int = 0, temperature: int = 0, device: int = 0) -> Frame:
    """How often the hand speaks by itself [ms]; 0: not at all."""
    return Frame(frame_id(Command.PERIOD, device), _PERIOD.pack(position, imu, temperature))


def set_device_id(new: int, device: int = 0) -> Frame:
    """Give the hand another device number."""
    return Frame(frame_id(Command.CONFIG, device), _CONFIG.pack(new | 0x80, 0) + b"\0")


def set_rs485_baud_rate(baud: int, device: int = 0) -> Frame:
    return Frame(frame_id(Command.CONFIG, device), _CONFIG.pack(0, baud | 0x80000000) + b"\0")


def request(command: int, device: int = 0) -> Frame:
    """Ask for INFO, SERIAL, POSITION + finger, IMU or TEMPERATURE + sensor."""
    return Frame(frame_id(command, device), remote=True)


# --- from the hand, and what an emulated hand sends -----------------------------------------------------------------------------------


def _unpack(layout: struct.Struct, what: str, data: bytes) -> tuple[int, ...]:
    if len(data) < layout.size:
        raise ProtocolError(f"{len(data)} bytes of {what}, {layout.size} expected")
    return layout.unpack_from(data)


def read_four(data: bytes) -> tuple[int, ...]:
    """Four counts: positions, torques or poses of a finger."""
    return _unpack(_FOUR, "a finger", data)


def read_period(data: bytes) -> tuple[int, ...]:
    """(position, IMU, temperature) [ms]"""
    return _unpack(_PERIOD, "periods", data)


def read_config(data: bytes) -> tuple[int | None, int | None]:
    """(device number, RS-485 baud rate), None for what does not change."""
    device, baud = _unpack(_CONFIG, "configuration", data)
    return (device & 0x7F if device & 0x80 else None), (baud & 0x7FFFFFFF if baud & 0x80000000 else None)


def read_info(data: bytes) -> HandInfo:
    """Bits of the status that have no meaning here (a V4 in the field shows 0x08) are ignored."""
    hardware, firmware, kind, temperature, status = _unpack(_INFO, "hand information", data)
    return HandInfo(
        hardware, firmware, kind != 0, temperature, bool(status & 1), bool(status & 2), bool(status & 4)
    )


def info(value: HandInfo, device: int = 0) -> Frame:
    status = value.servo_on | value.over_temperature << 1 | value.communication_fault << 2
    data = _INFO.pack(value.hardware_version, value.firmware_version, value.left, value.temperature, status)
    return Frame(frame_id(Command.INFO, device), data)


def read_serial(data: bytes) -> str:
    """The serial number; raises ProtocolError unless it is printable ASCII."""
    text = data[:8].rstrip(b"\0 ")
    if len(data) < 8 or not all(32 < c < 127 for c in text):
        raise ProtocolError(f"a serial number of the bytes {data.hex(' ')}")
    return text.decode("ascii")


def serial(text: str, device: int = 0) -> Frame:
    return Frame(frame_id(Command.SERIAL, device), text.encode("ascii").ljust(8, b"\0")[:8])


def position(finger: int, counts: Sequence[int], device: int = 0) -> Frame:
    return Frame(frame_id(Command.POSITION + finger, device), _FOUR.pack(*counts))


def imu(roll: int, pitch: int, yaw: int, device: int = 0) -> Frame:
    return Frame(frame_id(Command.IMU, device), _THREE.pack(roll, pitch, yaw))


def read_imu(data: bytes) -> tuple[int, ...]:
    """(roll, pitch, yaw) in counts"""
    return _unpack(_THREE, "IMU angles", data)


def motor_error(motor: int, code: int, device: int = 0) -> Frame:
    return Frame(frame_id(Command.ERROR, device), _ERROR.pack(motor, code))


MOTOR_ERRORS = {
    0x01: "its supply is out of range",
    0x04: "it is too hot",
    0x10: "a shock, or too little power",
    0x20: "it is overloaded",
}
"""Bits of a motor's error code."""


def read_motor_error(data: bytes) -> tuple[int, str]:
    """Index of the motor, and what is wrong with it in words; empty when nothing is."""
    motor, code = _unpack(_ERROR, "a motor's error", data)
    known = [text for bit, text in MOTOR_ERRORS.items() if code & bit]
    unknown = code & ~sum(MOTOR_ERRORS)
    return motor, " and ".join(known + [f"unknown bits 0x{unknown:02x}"] * bool(unknown))


# --- what differs between the generations -------------------------------------------------------------------------------------------

_FINGER_PWM = (375, 675, 450, 285)
_THUMB_PWM = (525, 405, 270, 270)


@dataclass(frozen=True, eq=False)
class Hardware:
    """How one generation of the hand counts torque and angle, and what it says about itself. This
    class: V3 and V4."""

    name: str
    generation: int
    counts_per_Nm: np.ndarray
    """(16,)"""
    limit: np.ndarray
    """(16,) largest torque count of each joint, whole numbers."""
    rad_per_count: float
    missing: str = ""
    """What has to be known or written before a real one may be driven; empty: nothing."""
    sensors = FINGERS
    """Temperature sensors."""

    def of(self, serial: str) -> Hardware:
        """This generation as the hand of that serial number is."""
        return self

    def side(self, serial: str, info: HandInfo | None) -> str:
        """``"right"``, ``"left"``, or empty when a hand that says no more does not tell."""
        return "" if info is None else "left" if info.left else "right"

    def trouble(self, info: HandInfo) -> tuple[bool, bool]:
        """Whether the status reports over-temperature, and a fault of the communication inside the
        hand."""
        return info.over_temperature, info.communication_fault

    def temperature(self, sensor: int, celsius: int, device: int = 0) -> Frame:
        return Frame(frame_id(Command.TEMPERATURE + sensor, device), _CELSIUS.pack(celsius))

    def read_temperatures(self, frame: int, data: bytes) -> list[tuple[int, int]]:
        """Sensors and what they say [°C] in temperature frame 0 … 3."""
        return [(frame, _unpack(_CELSIUS, "a temperature", data)[0])]

    def read_motor_error(self, data: bytes) -> tuple[int, str]:
        """See :func:`read_motor_error`; a generation that has no such frames reports nothing."""
        return 0, ""

    def torque_to_counts(self, tau: np.ndarray) -> np.ndarray:
        """Torques (16,) [N·m] to int16 counts (16,), rounded towards zero and never beyond the
        limit; not a number becomes zero."""
        counts = np.nan_to_num(np.array(tau, float), copy=False, nan=0.0)
        np.clip(counts, -INT16, INT16, out=counts)
        counts *= self.counts_per_Nm
        np.clip(counts, -self.limit, self.limit, out=counts)
        return counts.astype(np.int16)  # towards zero

    def counts_to_torque(self, counts: Sequence[int] | np.ndarray) -> np.ndarray:
        """Counts (16,) to torques (16,) [N·m]."""
        return np.asarray(counts, float) / self.counts_per_Nm

    def counts_to_angle(self, counts: Sequence[int] | np.ndarray) -> np.ndarray:
        """Position counts to angles [rad], of the same shape."""
        return np.asarray(counts, float) * self.rad_per_count

    def angle_to_counts(self, q: np.ndarray) -> np.ndarray:
        """Angles [rad] to the nearest position counts, within int16."""
        return np.clip(np.rint(np.asarray(q, float) / self.rad_per_count), -INT16 - 1, INT16).astype(np.int16)


@dataclass(frozen=True, eq=False)
class CurrentHardware(Hardware):
    """V5: torques are currents, the serial number tells type and side, every motor has a
    temperature and an error code.

    Public drivers are all that is known of it: 0.088° per position count, 1.43 mA per N·mm, half of
    that on the joints 1, 5 and 9 of a hand of the geared type B, at most 240 mA; the third letter
    of the serial number is the type, the fourth the side.
    """

    sensors = JOINTS

    def of(self, serial: str) -> Hardware:
        """Anything but type A counts as geared, as in the vendor's driver: half the current where
        it is not known."""
        return (
            dataclasses.replace(self, counts_per_Nm=np.full(JOINTS, MA_PER_NM))
            if serial[2:3] == "A"
            else self
        )

    def side(self, serial: str, info: HandInfo | None) -> str:
        return "right" if serial[3:4] == "R" else "left"

    def trouble(self, info: HandInfo) -> tuple[bool, bool]:
        """Nobody published what those bits mean here; motors report their own errors."""
        return False, False

    def temperature(self, sensor: int, celsius: int, device: int = 0) -> Frame:
        """All motors of a finger at one temperature."""
        return Frame(frame_id(Command.TEMPERATURE + sensor, device), bytes([celsius & 0xFF] * 4))

    def read_temperatures(self, frame: int, data: bytes) -> list[tuple[int, int]]:
        if len(data) < 4:
            raise ProtocolError(f"{len(data)} bytes of temperatures, 4 expected")
        return [(4 * frame + k, celsius) for k, celsius in enumerate(data[:4])]

    def read_motor_error(self, data: bytes) -> tuple[int, str]:
        return read_motor_error(data)


MA_PER_NM = 1430.0


def _pwm(name: str, generation: int, counts_per_Nm: float, limit: float) -> Hardware:
    limits = np.minimum(np.array([*(_FINGER_PWM * 3), *_THUMB_PWM], float), limit)
    return Hardware(name, generation, np.full(JOINTS, counts_per_Nm), limits, math.radians(333.3 / 65536.0))


def _geared() -> Hardware:
    scale = np.full(JOINTS, MA_PER_NM)
    scale[[1, 5, 9]] *= 0.5
    missing = "a model of its own (its links, joint limits and zeros are not the V4's), and a start-up for a hand that sends no angles "
    missing += "before its servo is on"
    return CurrentHardware("V5", 5, scale, np.full(JOINTS, 240.0), math.radians(0.088), missing)


HARDWARE = {h.name: h for h in (_pwm("V3", 3, 800.0, 800.0), _pwm("V4", 4, 1200.0, 1200.0), _geared())}
"""Supported generations: V3 (8 V), V4 (12 V), and V5 (currents; from public sources, emulated
only)."""


def hardware(name: str) -> Hardware:
    """A generation by name.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in HARDWARE:
        raise ConfigError(f"unknown hardware '{name}'; known: {', '.join(HARDWARE)}")
    return HARDWARE[name]
