"""Dynamixel protocol 2.0 and the motors of a LEAP hand: conversion between bytes and numbers,
without input or output.

Conventions are those of the hand's public software (LEAP_Hand_API): 4 Mbaud, motors 0 … 15 finger
by finger (index, middle, ring, thumb), the motor that swings a finger before the one that bends it
at the knuckle, and a motor at half a turn is a joint at zero. Signs agree; they were not compared
with a real left hand.

``dynamixel-sdk`` encodes and decodes packets for the driver; the codec here serves the emulated
motors and the tests.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from dexstack.errors import check_names

BROADCAST = 0xFE
COUNTS = 4096
"""Counts per turn."""
RAD_PER_COUNT = 2.0 * math.pi / COUNTS
ZERO = COUNTS // 2
"""Position of a motor at joint angle zero."""
WATCHDOG_UNIT = 0.02
"""[s]"""
WATCHDOG_FIRED = 0xFF
CURRENT_BASED_POSITION = 5
"""Operating mode."""
REVERSED = 1
"""Bit of the drive mode."""
ON_BY_GOAL = 8
"""Bit of the drive mode: writing a goal switches the torque on."""
ALERT = 0x80
"""Bit of an answer's error: HARDWARE_ERROR is set."""
MOTOR_IDS = (1, 0, 2, 3, 5, 4, 6, 7, 9, 8, 10, 11, 12, 13, 14, 15)
"""Number of the motor of each joint, in the joint order of the hand's model."""
GAINS = (200, 0, 600)
"""D, I and P of the motors' position controllers, as in LEAP_Hand_API."""
SIDE_MOTORS = (0, 4, 8)
"""Numbers of the motors that swing a finger sideways."""
SIDE_SHARE = 0.75
"""Their D and P as a share of :data:`GAINS`, as in LEAP_Hand_API."""


class Motor(NamedTuple):
    """A model of motor."""

    name: str
    model: int
    """Model number in the answer to a ping."""
    torque_constant: float
    """Stall torque over stall current at 5 V, by its data sheet [N·m/A]."""
    largest_current: float
    """Advice of the hand's makers [A]."""


MOTORS = {
    m.name: m
    for m in (Motor("XC330-M288", 1240, 0.93 / 1.80, 0.55), Motor("XL330-M288", 1200, 0.52 / 1.47, 0.35))
}


def motor_named(name: str) -> Motor:
    """Return a motor by name; raises ConfigError for an unknown one."""
    check_names("motor", [name], MOTORS)
    return MOTORS[name]


class Register(NamedTuple):
    """Address and size in a motor's control table."""

    address: int
    size: int


class Table:
    """The registers in use, and ranges that are read or written together."""

    RETURN_DELAY = Register(9, 1)
    DRIVE_MODE = Register(10, 1)
    OPERATING_MODE = Register(11, 1)
    CURRENT_LIMIT = Register(38, 2)
    TORQUE_ENABLE = Register(64, 1)
    HARDWARE_ERROR = Register(70, 1)
    GAINS = Register(80, 6)
    BUS_WATCHDOG = Register(98, 1)
    GOAL_CURRENT = Register(102, 2)
    GOAL_POSITION = Register(116, 4)
    VOLTAGE = Register(144, 2)
    TEMPERATURE = Register(146, 1)
    IDENTITY = Register(0, 12)
    GOALS = Register(102, 18)
    """Current, velocity, acceleration and speed of the profile, position: all goals take effect
    together."""
    PRESENT = Register(126, 10)
    HEALTH = Register(64, 83)
    """From TORQUE_ENABLE to TEMPERATURE."""


PRESENT = struct.Struct("<hii")
"""Current [mA], velocity, position."""
GOALS = struct.Struct("<hiiii")
_IDENTITY = struct.Struct("<HIBBBBBB")
_GAINS = struct.Struct("<HHH")


class Identity(NamedTuple):
    """Model and settings of a motor."""

    model: int
    firmware: int
    drive_mode: int


class Health(NamedTuple):
    """State of a motor."""

    torque: bool
    errors: int
    watchdog: int
    volts: float
    celsius: int


def read_identity(data: bytes) -> Identity:
    """Decode :attr:`Table.IDENTITY`."""
    model, _, firmware, _, _, _, drive, _ = _IDENTITY.unpack(data)
    return Identity(model, firmware, drive)


def read_health(data: bytes) -> Health:
    """Decode :attr:`Table.HEALTH`."""
    at = -Table.HEALTH.address
    volts = int.from_bytes(data[at + Table.VOLTAGE.address :][:2], "little")
    places = (Table.TORQUE_ENABLE, Table.HARDWARE_ERROR, Table.BUS_WATCHDOG, Table.TEMPERATURE)
    torque, errors, watchdog, celsius = (data[at + place.address] for place in places)
    return Health(torque != 0, errors, watchdog, 0.1 * volts, celsius)


def goals(milliamperes: int, position: int) -> bytes:
    """Encode :attr:`Table.GOALS`: move to ``position`` [counts] with at most this current [mA, not
    negative], without a profile."""
    return GOALS.pack(milliamperes, 0, 0, 0, position)


def gains(motor: int) -> bytes:
    """Encode :attr:`Table.GAINS` of the motor of this number."""
    share = SIDE_SHARE if motor in SIDE_MOTORS else 1.0
    return _GAINS.pack(*(round(share * gain) for gain in GAINS))


def angle_to_counts(q: np.ndarray) -> np.ndarray:
    """Convert joint angles (n,) [rad] to motor positions (n,) [counts]."""
    return np.rint(np.asarray(q) / RAD_PER_COUNT).astype(np.int64) + ZERO


def counts_to_angle(counts: np.ndarray) -> np.ndarray:
    """Convert motor positions (n,) [counts] to joint angles (n,) [rad]."""
    return (np.asarray(counts) - ZERO) * RAD_PER_COUNT


TROUBLES = {
    0: "supply voltage out of range",
    2: "overheating",
    3: "broken encoder",
    4: "electrical shock or too little power",
    5: "overload",
}
"""Bits of HARDWARE_ERROR."""
OVERHEATING = 1 << 2


def describe_errors(errors: int) -> str:
    """Return the meaning of the bits of HARDWARE_ERROR."""
    return ", ".join(TROUBLES.get(bit, f"error bit {bit}") for bit in range(8) if errors >> bit & 1)


# --- packets


class Instruction:
    PING, READ, WRITE, REBOOT, STATUS = 0x01, 0x02, 0x03, 0x08, 0x55
    SYNC_READ, SYNC_WRITE = 0x82, 0x83


class Packet(NamedTuple):
    """An instruction or an answer; ``body`` follows the instruction byte and begins, in an answer,
    with the error byte."""

    id: int
    instruction: int
    body: bytes = b""


HEADER = b"\xff\xff\xfd\x00"
_PATTERN, _STUFFED = b"\xff\xff\xfd", b"\xff\xff\xfd\xfd"
LONGEST = 1024


def _crc_of(byte: int) -> int:
    value = byte << 8
    for _ in range(8):
        value = (value << 1 ^ 0x8005 if value & 0x8000 else value << 1) & 0xFFFF
    return value


_CRC = tuple(_crc_of(byte) for byte in range(256))


def crc16(data: Iterable[int]) -> int:
    """Return the CRC-16 with the polynomial 0x8005, from zero, most significant bit first."""
    crc = 0
    for byte in data:
        crc = (crc << 8 & 0xFF00) ^ _CRC[crc >> 8 ^ byte]
    return crc


def stuff(data: bytes) -> bytes:
    """Escape headers inside a packet."""
    return data.replace(_PATTERN, _STUFFED)


def unstuff(data: bytes) -> bytes:
    """Invert :func:`stuff`."""
    return data.replace(_STUFFED, _PATTERN)


def encode(packet: Packet) -> bytes:
    """Return the bytes of a packet on the line."""
    inside = stuff(bytes((packet.instruction,)) + packet.body)
    whole = HEADER + struct.pack("<BH", packet.id, len(inside) + 2) + inside
    return whole + crc16(whole).to_bytes(2, "little")


def status(motor: int, data: bytes = b"", error: int = 0) -> bytes:
    """Return the bytes of a motor's answer on the line."""
    return encode(Packet(motor, Instruction.STATUS, bytes((error,)) + data))


class Decoder:
    """Extracts packets from a stream of bytes; broken ones are skipped and counted."""

    def __init__(self) -> None:
        self._buffer = b""
        self.broken = 0

    def feed(self, data: bytes) -> list[Packet]:
        """Add bytes; return the packets that are complete with them."""
        self._buffer += data
        packets = []
        while True:
            start = self._buffer.find(HEADER)
            if start < 0:
                self._buffer = self._buffer[-len(HEADER) + 1 :]
                return packets
            self._buffer = self._buffer[start:]
            if len(self._buffer) < 7:
                return packets
            length = int.from_bytes(self._buffer[5:7], "little")
            if not 3 <= length <= LONGEST:
                self._skip()
            elif len(self._buffer) < 7 + length:
                return packets
            elif crc16(self._buffer[: 5 + length]) != int.from_bytes(
                self._buffer[5 + length : 7 + length], "little"
            ):
                self._skip()
            else:
                inside = unstuff(self._buffer[7 : 5 + length])
                packets.append(Packet(self._buffer[4], inside[0], inside[1:]))
                self._buffer = self._buffer[7 + length :]

    def _skip(self) -> None:
        self.broken += 1
        self._buffer = self._buffer[len(HEADER) :]
