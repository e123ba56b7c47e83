"""The guard: a process of its own that takes the hand's torque away when the process that drives it
dies or hangs.

The hand's firmware keeps the last torque it was told, for ever; no code of a process that was
killed can tell it otherwise. So the driver starts a guard, and never switches the servo on without
one. The two share a page of memory and a pipe:

* the driver counts its turns there; while it is *armed* (servo on) and the count stands still for
    ``timeout``, it counts as hung;
* the pipe breaks in the moment the driver's process ends, whatever ended it.

In both cases the guard sends zero torque and servo off on a bus handle of its own, several times;
for a dead driver it goes on until the hand says that its servo is off, up to :data:`PERSISTENCE`.
Time is counted in looks of :data:`LOOK`, so that a machine that was paused does not look like a
driver that hangs. A channel that only one process can open (PCAN's own driver) is opened after the
driver is gone; a driver that hangs there is killed first. The guard is deaf to SIGINT and SIGTERM,
lives in a session of its own, and ends with its driver. What it cannot outlive: SIGKILL to both
processes, the end of the container or machine, and a bus that carries no frames. For those there is
the hand's power switch.
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

from dexstack.hand.allegro import protocol
from dexstack.hand.allegro.bus import BusError, CanBus
from dexstack.hand.allegro.protocol import Command, ProtocolError
from dexstack.hand.params import BusParams

LOOK = 0.005
"""Time between two looks at the driver [s]."""
REPEATS = 5
"""How often the last word is said in one go."""
ANSWER = 0.02
"""Time the hand gets to say whether its servo is off [s]."""
PERSISTENCE = 60.0
"""How long the guard of a dead driver tries [s]."""
_PAGE = 64
_COUNT = struct.Struct("<Q")
_DRIVER, _GUARD, _ARMED, _FIRED, _READY, _TELLS = 0, 8, 16, 17, 18, 19


class Guard:
    """The driver's end.

    Args:
        bus: which bus the guard is to speak on.
        timeout: how long an armed driver may go without :meth:`beat` [s].
    """

    def __init__(self, bus: BusParams, timeout: float) -> None:
        memory = os.memfd_create("dexstack-guard", 0)
        os.ftruncate(memory, _PAGE)
        self._page = mmap.mmap(memory, _PAGE)
        theirs, self._pipe = os.pipe()  # neither end is inherited by any other child
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
        """Whether the guard stands there."""
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
        """Whether the guard took the torque away since :meth:`arm`."""
        return bool(self._page[_FIRED])

    def beat(self) -> None:
        """The driver is alive."""
        self._beats += 1
        _COUNT.pack_into(self._page, _DRIVER, self._beats)

    def arm(self, tells: bool) -> None:
        """From now on the driver has to :meth:`beat`. ``tells``: the hand says whether its servo is
        on."""
        self.beat()
        self._page[_TELLS] = tells
        self._page[_FIRED] = 0
        self._page[_ARMED] = 1

    def disarm(self) -> None:
        """The hand said that its servo is off."""
        self._page[_ARMED] = 0

    def close(self) -> None:
        """Dismiss the guard. One that is still armed stays as long as it takes to have the hand
        confirm that its servo is off."""
        os.close(self._pipe)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        self._page.close()


def _ordinary_scheduling() -> None:
    """Runs in the child: what it inherits from a driver under real-time scheduling would let its
    start-up starve everybody else."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _fire(params: BusParams, bus: CanBus | None) -> CanBus | None:
    """Zero torque and servo off, several times; the bus handle, None when there is none to be
    had."""
    for _ in range(REPEATS):
        try:
            bus = bus or CanBus(params)
            for finger in range(protocol.FINGERS):
                bus.send(protocol.set_torque(finger, (0, 0, 0, 0), params.device))
            bus.send(protocol.servo_off(params.device))
        except BusError:  # try again with a new handle, until the driver's is free or the bus is back
            if bus is not None:
                bus.close()
            bus = None
        time.sleep(LOOK)
    return bus


def _confirmed(params: BusParams, bus: CanBus, tells: bool) -> bool:
    """Whether the hand says that its servo is off; of one that never says so, whether it answers
    now, after it was told."""
    bus.flush()  # what the guard did not read while it stood there
    question = Command.INFO if tells else Command.SERIAL
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
                return not (tells and protocol.read_info(received[0].data).servo_on)
    return False


def _insist(params: BusParams, bus: CanBus | None, tells: bool) -> None:
    """Nobody else is there: until the hand confirms."""
    deadline = time.monotonic() + PERSISTENCE
    while time.monotonic() < deadline:
        bus = _fire(params, bus)
        with contextlib.suppress(BusError):
            if bus is not None and _confirmed(params, bus, tells):
                return


def watch(params: BusParams, page: mmap.mmap, pipe: int, timeout: float) -> None:
    """The guard's whole life."""
    driver = os.getppid()
    bus = None if params.exclusive else CanBus(params)
    page[_READY] = 1
    looks, last = 0, 0  # nobody reads this handle's input: the kernel drops what does not fit its buffer
    while True:
        gone = bool(select.select([pipe], [], [], LOOK)[0])  # nobody ever writes: readable is broken
        _COUNT.pack_into(page, _GUARD, _COUNT.unpack_from(page, _GUARD)[0] + 1)
        count = _COUNT.unpack_from(page, _DRIVER)[0]
        looks = looks + 1 if count == last and page[_ARMED] else 0
        last = count
        if gone:
            if page[_ARMED]:
                page[_FIRED] = 1
                _insist(params, bus, bool(page[_TELLS]))
            return
        if looks * LOOK >= timeout:
            page[_FIRED] = 1
            if params.exclusive:
                os.kill(driver, signal.SIGKILL)
            bus = _fire(params, bus)
            looks = 0  # and again after another timeout, as long as the driver hangs


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
        print(f"the hand's guard cannot stand: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
