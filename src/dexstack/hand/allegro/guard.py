"""The guard: a process that switches the hand's servo off when the process that drives it dies or
hangs.

The hand's firmware keeps the last torque indefinitely, and a killed process cannot change it.
Therefore the driver starts a guard, and never switches the servo on without one. The two share a
page of memory and a pipe:

* the driver counts its turns in the page; while it is *armed* (servo on) and the count stands still
  for ``timeout``, it counts as hung;
* the kernel marks the driver's process as exiting as soon as it ends, for whatever reason, and breaks
  the pipe only after it has freed the process's memory, which takes tens of milliseconds.

In both cases the guard sends zero torque and servo off on its own bus handle, several times; for a
dead driver it repeats until the hand confirms that its servo is off, up to :data:`PERSISTENCE`.
Time is counted in periods of :data:`LOOK`, so that a machine that was paused does not look like a
hung driver. A channel that only one process can open (PCAN's own driver) is opened after the driver
is gone; a driver that hangs there is killed first. The guard ignores SIGINT and SIGTERM, has its
own session, and ends with its driver. It does not survive SIGKILL to both processes or the end of
the container or machine, and cannot act on a bus that carries no frames. For those there is the
hand's power switch.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

from dexstack.hand.allegro import protocol
from dexstack.hand.allegro.bus import BusError, CanBus
from dexstack.hand.allegro.protocol import Command, ProtocolError
from dexstack.hand.params import BusParams

LOOK = 0.005
"""Time between two checks of the driver [s]."""
REPEATS = 5
"""Number of times that zero torque and servo off are sent in a row."""
ANSWER = 0.02
"""Time for the hand's answer whether its servo is off [s]."""
PERSISTENCE = 60.0
"""Time limit of the guard of a dead driver [s]."""
_EXITING = 0x4
"""PF_EXITING, flag of a task in field 9 of /proc/PID/stat."""
_PAGE = 64
_COUNT = struct.Struct("<Q")
_DRIVER, _GUARD, _ARMED, _FIRED, _READY, _REPORTS_STATUS = 0, 8, 16, 17, 18, 19


class Guard:
    """The driver's side.

    Args:
        bus: the bus of the hand.
        timeout: longest time without :meth:`beat` of an armed driver [s].
    """

    def __init__(self, bus: BusParams, timeout: float) -> None:
        memory = os.memfd_create("dexstack-guard", 0)
        os.ftruncate(memory, _PAGE)
        self._page = mmap.mmap(memory, _PAGE)
        theirs, self._pipe = os.pipe()  # inherited by no other child
        arguments = [str(x) for x in (bus.interface, bus.where, bus.device, memory, theirs, timeout)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dexstack.hand.allegro.guard", *arguments],
            pass_fds=(memory, theirs),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_ordinary_scheduling,
        )
        os.close(memory)
        os.close(theirs)
        self._beats = 0

    def wait_ready(self, timeout: float = 10.0) -> bool:
        """Return True as soon as the guard is ready, False after ``timeout`` [s]."""
        deadline = time.monotonic() + timeout
        while not self._page[_READY] and self.alive and time.monotonic() < deadline:
            time.sleep(LOOK)
        return bool(self._page[_READY]) and self.alive

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def fired(self) -> bool:
        """True if the guard has switched the servo off since :meth:`arm`."""
        return bool(self._page[_FIRED])

    def beat(self) -> None:
        """Signal that the driver is alive."""
        self._beats += 1
        _COUNT.pack_into(self._page, _DRIVER, self._beats)

    def arm(self, reports_status: bool) -> None:
        """Require :meth:`beat` from now on. ``reports_status``: the hand reports whether its servo is on."""
        self.beat()
        self._page[_REPORTS_STATUS] = reports_status
        self._page[_FIRED] = 0
        self._page[_ARMED] = 1

    def disarm(self) -> None:
        """Stop requiring :meth:`beat`: the hand confirmed that its servo is off."""
        self._page[_ARMED] = 0

    def close(self) -> None:
        """End the guard. One that is still armed stays until the hand confirms that its servo is
        off."""
        os.close(self._pipe)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        self._page.close()


def _ordinary_scheduling() -> None:
    """Reset scheduling in the child, whose start-up under the driver's real-time priority would
    starve other processes."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _fire(params: BusParams, bus: CanBus | None) -> CanBus | None:
    """Send zero torque and servo off several times; return the bus handle, None without one."""
    for _ in range(REPEATS):
        try:
            bus = bus or CanBus(params)
            for finger in range(protocol.FINGERS):
                bus.send(protocol.set_torque(finger, (0, 0, 0, 0), params.device))
            bus.send(protocol.servo_off(params.device))
        except BusError:  # retry with a new handle
            if bus is not None:
                bus.close()
            bus = None
        time.sleep(LOOK)
    return bus


def _confirmed(params: BusParams, bus: CanBus, reports_status: bool) -> bool:
    """Return True if the hand reports that its servo is off; one that never reports it has to
    answer another request after the command."""
    bus.flush()  # frames that arrived while the guard waited
    question = Command.INFO if reports_status else Command.SERIAL
    bus.send(protocol.request(question, params.device))
    deadline = time.monotonic() + ANSWER
    while (left := deadline - time.monotonic()) > 0.0:
        received = bus.receive(left)
        if (
            received is not None
            and received[0].id == protocol.frame_id(question, params.device)
            and not received[0].remote
        ):
            with contextlib.suppress(ProtocolError):
                return not (reports_status and protocol.read_info(received[0].data).servo_on)
    return False


def _insist(params: BusParams, bus: CanBus | None, reports_status: bool) -> None:
    """Repeat servo off until the hand confirms it."""
    deadline = time.monotonic() + PERSISTENCE
    while time.monotonic() < deadline:
        bus = _fire(params, bus)
        with contextlib.suppress(BusError):
            if bus is not None and _confirmed(params, bus, reports_status):
                return


def _exiting(process: int) -> bool:
    """Return True if the kernel is ending the process; its memory may still be there."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return bool(int(fields[6]) & _EXITING)
    except (OSError, IndexError, ValueError):  # the pipe tells
        return False


def watch(params: BusParams, page: mmap.mmap, pipe: int, timeout: float) -> None:
    """Run the guard until the driver ends."""
    driver = os.getppid()
    bus = None if params.exclusive else CanBus(params)
    page[_READY] = 1
    looks, last = 0, 0  # input is not read here: the kernel drops what does not fit its buffer
    while True:
        broken = select.select([pipe], [], [], LOOK)[0]  # never written to: readable means broken
        gone = bool(broken) or _exiting(driver)
        _COUNT.pack_into(page, _GUARD, _COUNT.unpack_from(page, _GUARD)[0] + 1)
        count = _COUNT.unpack_from(page, _DRIVER)[0]
        looks = looks + 1 if count == last and page[_ARMED] else 0
        last = count
        if gone:
            if page[_ARMED]:
                page[_FIRED] = 1
                _insist(params, bus, bool(page[_REPORTS_STATUS]))
            return
        if looks * LOOK >= timeout:
            page[_FIRED] = 1
            if params.exclusive:
                os.kill(driver, signal.SIGKILL)
            bus = _fire(params, bus)
            looks = 0  # again after another timeout


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    interface, channel, device, memory, pipe, timeout = sys.argv[1:]
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    try:
        watch(
            BusParams(interface, channel, int(device)),
            mmap.mmap(int(memory), _PAGE),
            int(pipe),
            float(timeout),
        )
    except BusError as error:
        print(f"the hand's guard cannot start: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
