"""The CAN bus of the hand: frames in and out through python-can, and remedies for its failures.

Interfaces: ``socketcan`` and ``pcan`` reach a hand; ``udp_multicast`` connects processes of one
machine over the loopback interface, ``virtual`` threads of one process.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import select
import socket
import struct
import time
from typing import Any

import can
from can.interfaces.udp_multicast import UdpMulticastBus
from can.interfaces.udp_multicast.bus import SO_TIMESTAMPNS
from can.interfaces.udp_multicast.utils import pack_message, unpack_message

from dexstack.errors import ConfigError
from dexstack.hand.allegro.protocol import BITRATE, Frame
from dexstack.hand.link import Clocks, FaultKind, TransportError
from dexstack.hand.params import CAN_INTERFACES, FIRST_PORT, GROUP, INTERFACES, BusParams

BUS_OFF_ERROR = 0x40
"""Error class of the Linux kernel's error frames."""
RECEIVE_BUFFER = 1 << 20

logging.getLogger("can").setLevel(logging.CRITICAL)  # python-can also raises what it logs


class BusError(TransportError):
    """The bus cannot be used."""


class BusOffError(BusError):
    """The CAN controller went off the bus; it returns on the same handle."""

    fault_kind = FaultKind.BUS_OFF
    lost = False


class LoopbackBus(UdpMulticastBus):
    """python-can's UDP multicast bus on the loopback interface, without its own frames, as on a CAN
    controller.

    Unlike its base class it receives only its own group of a port, and works on a machine without
    network.
    """

    def __init__(self, channel: str, port: int, **kwargs: Any) -> None:
        can.BusABC.__init__(self, channel, **kwargs)
        self._can_protocol = can.CanProtocol.CAN_20
        self._address = (channel, port)
        interface = socket.inet_aton("127.0.0.1")
        self._in = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._in.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._in.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            self._in.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            self._in.bind(self._address)
            self._in.setsockopt(
                socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(channel) + interface
            )
            self._in.setblocking(False)
            self._out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
            self._out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
            self._out.bind(("127.0.0.1", 0))
        except OSError as error:
            self._in.close()
            self._out.close()
            raise can.CanInitializationError(
                f"no multicast on the loopback interface: {error.strerror}"
            ) from error
        self._own = self._out.getsockname()
        self._ancillary = socket.CMSG_SPACE(16)

    def _recv_internal(self, timeout: float | None) -> tuple[can.Message | None, bool]:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                data, ancillary, _, sender = self._in.recvmsg(4096, self._ancillary)
            except BlockingIOError:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0.0:
                    return None, False
                select.select([self._in], [], [], left)
                continue
            if sender == self._own:
                continue
            seconds, nanoseconds = struct.unpack("@ll", ancillary[0][2]) if ancillary else (time.time(), 0)
            with contextlib.suppress(Exception):  # foreign packets on this port
                return unpack_message(data, replace={"timestamp": seconds + 1e-9 * nanoseconds}), False

    def send(self, msg: can.Message, timeout: float | None = None) -> None:
        try:
            self._out.sendto(pack_message(msg), self._address)
        except OSError as error:
            raise can.CanOperationError("failed to send", error.errno) from error

    def fileno(self) -> int:
        return self._in.fileno()

    def shutdown(self) -> None:
        can.BusABC.shutdown(self)
        self._in.close()
        self._out.close()


class CanBus:
    """An open bus.

    Args:
        params: the bus.
        raw: an open bus of python-can; None: opened here.

    Raises:
        BusError: it cannot be opened.
    """

    def __init__(self, params: BusParams, raw: Any = None) -> None:
        self.params = params
        try:
            self._bus = raw or _open(params)
        except ConfigError:
            raise
        except (can.CanError, OSError, ImportError, ValueError, NotImplementedError) as error:
            raise _explain(params, error) from None

    def send(self, frame: Frame) -> None:
        """Put a frame on the bus.

        Raises:
            BusError: the bus does not take it.
        """
        message = can.Message(
            arbitration_id=frame.id,
            data=frame.data,
            is_remote_frame=frame.remote,
            is_extended_id=False,
            dlc=len(frame.data),
        )
        try:
            self._bus.send(message)
        except (can.CanError, OSError) as error:
            raise _explain(self.params, error) from None

    def receive(self, timeout: float) -> tuple[Frame, float] | None:
        """Return the next frame and the system time of its arrival [s], None after ``timeout`` [s].

        Raises:
            BusError: the controller went off the bus, or the interface went away.
        """
        try:
            message = self._bus.recv(timeout)
        except (can.CanError, OSError) as error:
            raise _explain(self.params, error) from None
        if message is None:
            return None
        if message.is_error_frame:
            if message.arbitration_id & BUS_OFF_ERROR:
                text = f"the CAN controller of {self.params} went off the bus"
                raise BusOffError(text, _restart(self.params))
            return None
        if message.is_extended_id:
            return None
        # PCAN's driver counts from the computer's start, which python-can knows only with the
        # package uptime
        arrival = time.time() if self.params.interface == "pcan" else message.timestamp
        return Frame(message.arbitration_id, bytes(message.data), message.is_remote_frame), arrival

    def announce_bus_off(self) -> None:
        """Send to every listener of an emulated bus the kernel's error frame for a controller that
        goes off the bus."""
        self._bus.send(
            can.Message(
                arbitration_id=BUS_OFF_ERROR, is_error_frame=True, is_extended_id=False, dlc=8, data=bytes(8)
            )
        )

    def pending(self) -> bool:
        """Return True if a frame waits to be received."""
        try:
            return bool(select.select([self._bus.fileno()], [], [], 0.0)[0])
        except (ValueError, OSError, NotImplementedError):  # a virtual bus has no file
            queue = getattr(self._bus, "queue", None)
            return queue is not None and not queue.empty()

    def flush(self) -> None:
        """Discard received frames."""
        while self.receive(0.0) is not None:
            pass

    def close(self) -> None:
        with contextlib.suppress(can.CanError, OSError):
            self._bus.shutdown()


class Computer(Clocks):
    """The clocks and the CAN buses of this computer."""

    def open_bus(self, params: BusParams) -> CanBus:
        """Raises BusError."""
        return CanBus(params)


def _open(p: BusParams) -> can.BusABC:
    if p.interface == "udp_multicast":
        group, _, port = p.where.partition(":")
        if not port.isdigit():
            raise ConfigError(
                f"the channel of udp_multicast is GROUP:PORT, e.g. {GROUP}:{FIRST_PORT}, got '{p.where}'"
            )
        return LoopbackBus(group, int(port))
    if p.interface not in CAN_INTERFACES:
        raise ConfigError(f"no CAN interface is configured; known: {', '.join(INTERFACES)}")
    # only here; the kernel's interface has a bit rate already
    settings = {"bitrate": BITRATE, "auto_reset": True} if p.interface == "pcan" else {}
    return can.Bus(interface=p.interface, channel=p.where, **settings)


def _restart(p: BusParams) -> str:
    if p.interface == "socketcan":
        return f"sudo ip link set {p.where} type can restart   (or for good: … type can restart-ms 20)"
    return "unplug the CAN adapter and plug it in again"


def _explain(p: BusParams, error: Exception) -> BusError:
    """Translate an error of python-can."""
    number = getattr(error, "error_code", None)
    number = getattr(error, "errno", None) if number is None else number
    text = " ".join(str(error).split())
    low = text.lower()
    up = f"sudo ip link set {p.where} up type can bitrate {BITRATE} restart-ms 20"
    if isinstance(error, ImportError) or "msgpack" in low:
        return BusError(f"{p}: {text}", "pip install 'dexstack[hardware]'")
    if p.interface == "pcan":
        if "busoff" in low or "bus-off" in low:
            return BusOffError(f"the CAN controller of {p} went off the bus: {text}", _restart(p))
        if "in use" in low or "hwinuse" in low or "already" in low:
            text = f"{p} is used by another program: {text}"
            return BusError(text, "fuser -v /dev/pcan*   (and end what it names)")
        if "libpcanbasic" in low or "could not be found" in low or "not found" in low or "driver" in low:
            remedy = "see 'PCAN' in hardware/README.md, or use the kernel's driver: --interface socketcan"
            return BusError(f"{p}: {text}", remedy)
        remedy = "lsusb -d 0c72: ; ls /dev/pcan*   (is the adapter plugged in?)"
        return BusError(f"{p} cannot be used: {text}", remedy)
    no_can = "this kernel has no CAN", "sudo modprobe can can_raw"
    unheard = (
        f"no device on {p.where} acknowledges frames: the hand is off, the wiring or the bit rate is wrong",
        f"switch the hand on; ip -details -statistics link show {p.where}",
    )
    known = {
        errno.ENODEV: (f"there is no CAN interface {p.where}", f"sudo modprobe peak_usb && {up}"),
        **dict.fromkeys((errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT), no_can),
        errno.ENETDOWN: (f"the CAN interface {p.where} is down", up),
        errno.ENOBUFS: unheard,  # the queue is full
    }
    look = f"ip -details link show {p.where}" if p.interface == "socketcan" else ""
    return BusError(*known.get(number, (f"{p} failed: {text}", look)))
