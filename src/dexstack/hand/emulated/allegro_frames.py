"""Frames of an Allegro hand, as the emulated hand sends and receives them.

The table follows frames captured on a V4 (``tests/fixtures/allegro``) and not
:mod:`dexstack.hand.allegro.protocol`, so that the driver and the emulated hand can disagree. A test
encodes the captured values with it and compares the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from dexstack.hand.allegro.protocol import Frame


class Layout(NamedTuple):
    """Identifier and content of one message of device 0."""

    id: int
    """Identifier of the first frame; the next ones are 4 apart."""
    frames: int
    format: str
    """Format of :mod:`struct`."""

    def frame(self, values: Iterable[int | bytes], index: int = 0, device: int = 0) -> Frame:
        """Return the frame number ``index`` with these values."""
        return Frame(self.id + 4 * index + device, struct.pack(self.format, *values))

    def index(self, identifier: int) -> int | None:
        """Return the number of the frame with this identifier, None if it is another message."""
        index = (identifier >> 2) - (self.id >> 2)
        return index if 0 <= index < self.frames else None

    def values(self, data: bytes) -> tuple[int, ...] | None:
        """Return the content of a frame, None if it is too short."""
        size = struct.calcsize(self.format)
        return struct.unpack_from(self.format, data) if len(data) >= size else None


POSITION = Layout(0x080, 4, "<4h")
"""333.3°/65536"""
IMU = Layout(0x0C0, 1, "<3h")
TEMPERATURE = Layout(0x0E0, 4, "<4b")
"""[°C] of the four joints of a finger."""
SERVO_ON = Layout(0x100, 1, "<")
SERVO_OFF = Layout(0x104, 1, "<")
TORQUE = Layout(0x180, 4, "<4h")
INFO = Layout(0x200, 1, "<HHBBB")
"""Hardware and firmware version, left, °C, status."""
PERIOD = Layout(0x204, 1, "<3H")
"""[ms] of positions, IMU, temperatures."""
SERIAL = Layout(0x220, 1, "<8s")
ERROR = Layout(0x3B8, 1, "<BB")
"""Motor and code."""
