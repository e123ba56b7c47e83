"""The Allegro hand's CAN protocol: conversion between bytes and numbers, without input or output.

1 Mbit/s, 11-bit identifiers, little-endian. The identifier of a frame is ``command << 2 | device``.
A command that exists per finger has the number ``command + finger``; the fingers are index, middle,
ring, thumb, and joint 0 of a finger is its abduction (of the thumb: its opposition). A remote frame
requests the data frame with the same identifier.
"""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import NamedTuple

import numpy as np

from dexstack.errors import check_names

FINGERS = 4
JOINTS = 16
BITRATE = 1_000_000
INT16 = 32767


class Command(IntEnum):
    """Command numbers; of those that exist per finger, the number of the first finger."""

    POSITION = 0x20
    IMU = 0x30
    TEMPERATURE = 0x38
    SERVO_ON = 0x40
    SERVO_OFF = 0x41
    TORQUE = 0x60
    INFO = 0x80
    PERIOD = 0x81
    SERIAL = 0x88
    ERROR = 0xEE


PER_FINGER = (Command.POSITION, Command.TEMPERATURE, Command.TORQUE)
REQUESTS = (
    Command.INFO,
    Command.SERIAL,
    Command.IMU,
    *(command + finger for command in PER_FINGER for finger in range(FINGERS)),
)
"""Every command that a hand answers when it is requested by a remote frame."""


class Status(IntFlag):
    """Bits of the status byte of a V3 or V4.

    Sources disagree. The vendor's driver has bit 1 over-temperature and bit 2 communication fault.
    Another public driver has bit 1 joint temperature fault, bit 2 joint temperature throttle, bit 3
    joint communication fault and bit 4 palm temperature fault; a hand captured while it worked
    reported 0x05, which agrees with the second source only.
    """

    SERVO_ON = 1
    OVER_TEMPERATURE = 2
    THROTTLE = 4
    COMMUNICATION = 8
    PALM_TEMPERATURE = 16


STATUS_TEXTS = {
    Status.OVER_TEMPERATURE: "over-temperature",
    Status.THROTTLE: "a temperature throttle or communication fault",
    Status.COMMUNICATION: "an internal communication fault",
    Status.PALM_TEMPERATURE: "over-temperature of the palm",
}


def describe_status(status: int) -> str:
    """Return the meaning of the status bits, SERVO_ON left out."""
    bits = (1 << k for k in range(1, 8) if status >> k & 1)
    return " and ".join(STATUS_TEXTS.get(bit, f"unknown status bit {bit.bit_length() - 1}") for bit in bits)


class ProtocolError(ValueError):
    """The content of a frame does not match its identifier."""


class Frame(NamedTuple):
    """One CAN frame with an 11-bit identifier."""

    id: int
    data: bytes = b""
    remote: bool = False


class HandInfo(NamedTuple):
    """Content of a hand's information frame."""

    hardware_version: int
    """The high byte is the generation, e.g. 0x0402 for a V4."""
    firmware_version: int
    left: bool
    temperature: int
    """[°C]"""
    status: int
    """Bits of :class:`Status`."""

    @property
    def servo_on(self) -> bool:
        return bool(self.status & Status.SERVO_ON)

    @property
    def generation(self) -> int:
        """3, 4, 5, …"""
        return self.hardware_version >> 8 or self.hardware_version


def frame_id(command: int, device: int = 0) -> int:
    """Return the identifier of a command to device 0 … 3 on the bus."""
    return command << 2 | device


def split_id(identifier: int) -> tuple[int, int]:
    """Return command and device of an identifier."""
    return identifier >> 2, identifier & 3


_FOUR = struct.Struct("<4h")
_PERIOD = struct.Struct("<3H")
_INFO = struct.Struct("<HHBBB")
_CELSIUS = struct.Struct("<4b")
_ERROR = struct.Struct("<BB")


# --- to the hand


def servo_on(device: int = 0) -> Frame:
    return Frame(frame_id(Command.SERVO_ON, device))


def servo_off(device: int = 0) -> Frame:
    return Frame(frame_id(Command.SERVO_OFF, device))


def set_torque(finger: int, counts: Sequence[int], device: int = 0) -> Frame:
    """Return the frame with the torques of one finger's four joints in counts (PWM; mA on a V5)."""
    return Frame(frame_id(Command.TORQUE + finger, device), _FOUR.pack(*counts))


def set_period(position: int, imu: int = 0, temperature: int = 0, device: int = 0) -> Frame:
    """Return the frame that sets the periods of the hand's own messages [ms]; 0 disables one."""
    return Frame(frame_id(Command.PERIOD, device), _PERIOD.pack(position, imu, temperature))


def request(command: int, device: int = 0) -> Frame:
    """Return the remote frame that requests one of :data:`REQUESTS`."""
    return Frame(frame_id(command, device), remote=True)


# --- from the hand


def _unpack(layout: struct.Struct, content: str, data: bytes) -> tuple[int, ...]:
    if len(data) < layout.size:
        raise ProtocolError(f"{len(data)} bytes of {content}, expected {layout.size}")
    return layout.unpack_from(data)


def read_four(data: bytes) -> tuple[int, ...]:
    """Return the four counts of a finger: positions or torques."""
    return _unpack(_FOUR, "a finger", data)


def read_temperatures(data: bytes) -> tuple[int, ...]:
    """Return the temperatures of a finger's four joints [°C]."""
    return _unpack(_CELSIUS, "temperatures", data)


def read_info(data: bytes) -> HandInfo:
    hardware, firmware, kind, temperature, status = _unpack(_INFO, "hand information", data)
    return HandInfo(hardware, firmware, kind != 0, temperature, status)


def read_serial(data: bytes) -> str:
    """Return the serial number; raises ProtocolError unless it is printable ASCII."""
    text = data[:8].rstrip(b"\0 ")
    if len(data) < 8 or not all(32 < c < 127 for c in text):
        raise ProtocolError(f"a serial number with the bytes {data.hex(' ')}")
    return text.decode("ascii")


MOTOR_ERRORS = {
    0x01: "supply voltage out of range",
    0x04: "overheating",
    0x10: "electrical shock or insufficient power",
    0x20: "overload",
}
"""Bits of the error code of a V5's motor."""


def read_motor_error(data: bytes) -> tuple[int, str]:
    """Return the joint of a motor and a description of its error, empty without one."""
    motor, code = _unpack(_ERROR, "a motor's error", data)
    known = [text for bit, text in MOTOR_ERRORS.items() if code & bit]
    unknown = code & ~sum(MOTOR_ERRORS)
    return motor, " and ".join(known + [f"unknown bits 0x{unknown:02x}"] * bool(unknown))


# --- differences between the generations

_FINGER_PWM = (375, 675, 450, 285)
_THUMB_PWM = (525, 405, 270, 270)


@dataclass(frozen=True, eq=False)
class Hardware:
    """Scales and identity of one generation of the hand; this class: V3 and V4."""

    name: str
    generation: int
    counts_per_Nm: np.ndarray
    """(16,)"""
    limit: np.ndarray
    """Largest torque count of each joint (16,), whole numbers."""
    rad_per_count: float
    missing: str = ""
    """Missing knowledge or code without which a real one is not driven; empty: none."""
    has_status = True
    """The meaning of the status bits is known."""
    has_motor_errors = False
    """Motors report errors in frames of their own."""

    def of(self, serial: str) -> Hardware:
        """Return the variant of the hand with this serial number."""
        return self

    def side(self, serial: str, info: HandInfo | None) -> str:
        """Return ``"right"``, ``"left"``, or an empty string if unknown."""
        return "" if info is None else "left" if info.left else "right"

    def torque_to_counts(self, tau: np.ndarray) -> np.ndarray:
        """Convert torques (16,) [N·m] to int16 counts (16,), rounded towards zero and clipped to
        the limit; NaN becomes zero."""
        counts = np.nan_to_num(np.array(tau, float), copy=False, nan=0.0)
        np.clip(counts, -INT16, INT16, out=counts)
        counts *= self.counts_per_Nm
        np.clip(counts, -self.limit, self.limit, out=counts)
        return counts.astype(np.int16)

    def counts_to_torque(self, counts: Sequence[int] | np.ndarray) -> np.ndarray:
        """Convert counts (16,) to torques (16,) [N·m]."""
        return np.asarray(counts, float) / self.counts_per_Nm

    def counts_to_angle(self, counts: Sequence[int] | np.ndarray) -> np.ndarray:
        """Convert position counts to angles [rad] of the same shape."""
        return np.asarray(counts, float) * self.rad_per_count

    def angle_to_counts(self, q: np.ndarray) -> np.ndarray:
        """Convert angles [rad] to the nearest position counts, clipped to int16."""
        return np.clip(np.rint(np.asarray(q, float) / self.rad_per_count), -INT16 - 1, INT16).astype(np.int16)


@dataclass(frozen=True, eq=False)
class CurrentHardware(Hardware):
    """V5: torques are currents, the serial number encodes type and side, every motor has an error
    code, and the meaning of the status bits was not published.

    From public drivers: 0.088° per position count, 1.43 mA per N·mm, half of that on the joints 1,
    5 and 9 of a hand of the geared type B, at most 240 mA; the third letter of the serial number is
    the type, the fourth the side.
    """

    has_status = False
    has_motor_errors = True

    def of(self, serial: str) -> Hardware:
        """Return the variant; every type but A counts as geared, as in the vendor's driver, which
        halves the current where the type is unknown."""
        if serial[2:3] != "A":
            return self
        return dataclasses.replace(self, counts_per_Nm=np.full(JOINTS, MA_PER_NM))

    def side(self, serial: str, info: HandInfo | None) -> str:
        return "right" if serial[3:4] == "R" else "left"


MA_PER_NM = 1430.0


def _pwm(name: str, generation: int, counts_per_Nm: float, limit: float) -> Hardware:
    limits = np.minimum(np.array([*(_FINGER_PWM * 3), *_THUMB_PWM], float), limit)
    return Hardware(name, generation, np.full(JOINTS, counts_per_Nm), limits, math.radians(333.3 / 65536.0))


def _geared() -> Hardware:
    scale = np.full(JOINTS, MA_PER_NM)
    scale[[1, 5, 9]] *= 0.5
    missing = "a model of its own (its links, joint limits and zeros differ from the V4's)"
    return CurrentHardware("V5", 5, scale, np.full(JOINTS, 240.0), math.radians(0.088), missing)


HARDWARE = {h.name: h for h in (_pwm("V3", 3, 800.0, 800.0), _pwm("V4", 4, 1200.0, 1200.0), _geared())}
"""Supported generations: V3 (8 V), V4 (12 V), and V5 (from public sources, emulated only)."""


def hardware(name: str) -> Hardware:
    """Return a generation by name; raises ConfigError for an unknown name."""
    check_names("hardware", [name], HARDWARE)
    return HARDWARE[name]
