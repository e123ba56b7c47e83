"""The serial line to a hand's motors, a port for ``dynamixel-sdk`` that waits where the SDK's own
polls.

:class:`Line` has the methods that the SDK's packet handler calls, and the clocks of the line;
:class:`SerialLine` is one of this computer. A line in simulated time is
:class:`dexstack.hand.emulated.leap.SimulatedLine`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
from collections.abc import Sequence

from dexstack.hand.link import Clocks, TransportError
from dexstack.hand.params import BusParams, MotorParams

BITS = 10
"""Bits of a byte on the line."""
READ = 4096
WRITE_TIMEOUT = 0.1
"""[s]"""


class LineError(TransportError):
    """The line cannot be used."""


class Line(Clocks):
    """See the module's docstring.

    Args:
        where: its name, for messages.
        baud_rate: [bit/s]
        patience: how long an answer may take beyond the time of its bytes [s].
    """

    def __init__(self, where: str, baud_rate: int, patience: float) -> None:
        self.where = where
        self.is_using = False  # the SDK's
        self._seconds_per_byte = BITS / baud_rate
        self.patience, self._deadline = patience, 0.0

    serial_number = ""
    """Serial number of the adapter; empty without one."""

    def setPacketTimeout(self, packet_length: int) -> None:
        self._deadline = self.monotonic() + packet_length * self._seconds_per_byte + self.patience

    def isPacketTimeout(self) -> bool:
        return self.monotonic() >= self._deadline

    def clearPort(self) -> None:
        """Discard received bytes."""
        raise NotImplementedError

    def writePort(self, data: Sequence[int]) -> int:
        """Send bytes; return their number. Raises LineError."""
        raise NotImplementedError

    def readPort(self, length: int) -> bytes:
        """Return up to ``length`` bytes as soon as some are there, none after the time of
        :meth:`setPacketTimeout`. Raises LineError."""
        raise NotImplementedError

    def close(self) -> None:
        """Never raises."""


class SerialLine(Line):
    """A serial port, or the pseudo-terminal of emulated motors.

    Raises:
        LineError: it cannot be opened.
    """

    def __init__(self, bus: BusParams, motors: MotorParams, patience: float) -> None:
        super().__init__(str(bus), motors.baud_rate, patience)
        try:
            import serial
        except ImportError as error:
            raise LineError(
                f"{error}; the extra 'hardware' is missing", "pip install 'dexstack[hardware]'"
            ) from None
        try:
            self._port = serial.Serial(bus.where, motors.baud_rate, timeout=0, exclusive=True)
        except (serial.SerialException, OSError, ValueError) as error:
            raise _explain(bus, error) from None
        with contextlib.suppress(Exception):  # not on a pseudo-terminal; 1 ms instead of 16
            self._port.set_low_latency_mode(True)
        self._file = self._port.fileno()
        self._received = b""
        self.serial_number = _adapter(bus.where)

    def clearPort(self) -> None:
        self._received = b""
        try:
            self._port.reset_input_buffer()
        except Exception as error:  # termios.error is not an OSError
            raise self._gone(error) from None

    def writePort(self, data: Sequence[int]) -> int:
        left = memoryview(bytes(data))
        try:
            while left:
                if not select.select([], [self._file], [], WRITE_TIMEOUT)[1]:
                    raise OSError(f"it takes no bytes for {WRITE_TIMEOUT:g} s")
                left = left[os.write(self._file, left) :]
        except (OSError, ValueError) as error:
            raise self._gone(error) from None
        return len(data)

    def readPort(self, length: int) -> bytes:
        left = self._deadline - self.monotonic()
        if len(self._received) < length:
            try:
                if select.select([self._file], [], [], 0.0 if self._received else max(left, 0.0))[0]:
                    data = os.read(self._file, READ)
                    if not data:
                        raise OSError("its other end is closed")
                    self._received += data
            except (OSError, ValueError) as error:
                raise self._gone(error) from None
        out, self._received = self._received[:length], self._received[length:]
        return out

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._port.close()

    def _gone(self, error: Exception) -> LineError:
        return LineError(
            f"{self.where} failed: {error}",
            "is the adapter plugged in, and the hand's supply on? Then enable again",
        )


def _adapter(channel: str) -> str:
    """Return the serial number of the USB adapter of a channel; empty without one."""
    from serial.tools import list_ports

    real = os.path.realpath(channel)
    return next((port.serial_number or "" for port in list_ports.comports() if port.device == real), "")


def _explain(bus: BusParams, error: Exception) -> LineError:
    number, text = getattr(error, "errno", None), " ".join(str(error).split())
    start = (
        "start the emulated hand" if bus.interface == "pty" else "plug the adapter in; ls /dev/serial/by-id"
    )
    busy = f"{bus.where} is used by another program", f"fuser -v {bus.where}   (and end what it names)"
    known = {
        errno.ENOENT: (f"there is no {bus.where}", start),
        errno.EACCES: (f"{bus.where} may not be used", "sudo usermod -aG dialout $USER   (and log in again)"),
        **dict.fromkeys((errno.EAGAIN, errno.EBUSY), busy),
    }
    return LineError(*known.get(number, (f"{bus} cannot be opened: {text}", f"ls -l {bus.where}")))
