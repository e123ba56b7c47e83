"""An emulated hand, the driver that moves its joints, and the means to disturb both."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dexstack.bench.hand import COMMAND_PERIOD, DRIVER_PRIORITY, EMULATOR_PRIORITY
from dexstack.hand.allegro.bus import CanBus, Computer
from dexstack.hand.allegro.can_hand import CanHand
from dexstack.hand.allegro.protocol import Frame
from dexstack.hand.bus_hand import BusHand
from dexstack.hand.driver import HandDriver, Turn
from dexstack.hand.emulated.process import EmulatedHandProcess, own_bus
from dexstack.hand.leap.dynamixel_hand import LeapHand
from dexstack.hand.leap.line import SerialLine
from dexstack.hand.link import TransportError
from dexstack.hand.links import wiring_of
from dexstack.hand.params import BusParams, CanHandParams, MotorParams
from dexstack.hand.servo import ServoLaw, ServoMode, ServoParams
from dexstack.hand.states import HandState, StateFile
from dexstack.hand.watch import WatchParams
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import HandModel, load_hand

SETTLE = 0.4
"""Motion before the fault [s]."""
AFTERWARDS = 0.3
"""Time after the end of a fault in which nothing may switch the hand on [s]."""
SERIAL = "EMU00001"
PLANT = ("--plant", "hand", "--dry-friction", "0.02", "--backlash", "0.0175", "--encoder-noise", "0.0002")
"""Arguments of every emulated hand: weight, dry friction [N·m], one degree of backlash and noise [rad]."""
NOT_STARTED = "not started"
"""End of a row whose hand did not move before the fault."""
LEAP = "LEAP"
"""The hardware that is no generation of the Allegro hand."""


@dataclass(frozen=True)
class FaultResult:
    """How one fault ended."""

    fault: str
    ended_in: str
    """"hold", "ready" or "fault"; anything else is a failure."""
    seconds: float
    """Time until then; NaN if it did not end, negative if the hand had ended before the fault."""
    limit_s: float
    torque_kept: bool = True
    """True if no torque on the bus passed a limit."""
    stayed_off: bool = True
    """True if nothing but consent switched the hand on again."""

    @property
    def passed(self) -> bool:
        ended = self.ended_in in ("hold", "ready", "fault") and 0.0 <= self.seconds <= self.limit_s
        return ended and self.torque_kept and self.stayed_off


class AdapterBus(CanBus):
    """A bus whose adapter can fail, on a computer whose clock can be stepped."""

    computer: FaultyComputer

    def send(self, frame: Frame) -> None:
        self.computer.check("send")
        super().send(frame)

    def receive(self, timeout: float) -> tuple[Frame, float] | None:
        self.computer.check("receive")
        received = super().receive(timeout)
        return None if received is None else (received[0], received[1] + self.computer.stepped)


class AdapterLine(SerialLine):
    """The same for a serial line."""

    computer: FaultyComputer

    def system(self) -> float:
        return self.computer.system()

    def writePort(self, data: Sequence[int]) -> int:
        self.computer.check("send")
        return super().writePort(data)

    def readPort(self, length: int) -> bytes:
        self.computer.check("receive")
        return super().readPort(length)


class FaultyComputer(Computer):
    """This computer with its system clock off by :attr:`stepped` and an adapter that can fail."""

    stepped = 0.0
    """Offset of the clock [s]."""
    failing: frozenset[str] = frozenset()
    """Calls of the adapter that fail: "open", "send", "receive"."""
    trouble: TransportError | None = None
    """The error of these calls."""

    def check(self, call: str) -> None:
        """Raise the error of a call that fails."""
        if call in self.failing and self.trouble is not None:
            raise self.trouble

    def system(self) -> float:
        return super().system() + self.stepped

    def open_bus(self, params: BusParams) -> CanBus:
        self.check("open")
        bus = AdapterBus(params)
        bus.computer = self
        return bus

    def open_line(self, bus: BusParams, motors: MotorParams, patience: float) -> AdapterLine:
        """As :class:`dexstack.hand.leap.line.SerialLine`."""
        self.check("open")
        line = AdapterLine(bus, motors, patience)
        line.computer = self
        return line


def name_of(hardware: str) -> str:
    """Return the name under which the model of an Allegro or LEAP hand is loaded."""
    return "leap_right" if hardware == LEAP else "right"


def model_of(hardware: str) -> HandModel:
    """Return the model of an Allegro hand of a generation, or of a LEAP hand."""
    return load_hand(name_of(hardware))


def link_to(hardware: str, bus: BusParams, params: CanHandParams, computer: FaultyComputer) -> BusHand:
    """Return a driver's link to a hand."""
    params = replace(params, realtime_priority=DRIVER_PRIORITY)
    if hardware == LEAP:
        return LeapHand(model_of(hardware), bus, params, None, computer.open_line)
    return CanHand("right", bus, replace(params, hardware=hardware), computer)


class TimedStates(StateFile):
    """A hand's state file that notes when each state began [s, monotonic]."""

    def __init__(self, folder: str, name: str) -> None:
        super().__init__(folder, name)
        self.began: dict[HandState, float] = {}

    def note(self, state: HandState, why: str) -> None:
        self.began[state] = time.monotonic()
        super().note(state, why)


@dataclass
class Rig:
    """A hand, a driver in its thread, and the commands it receives.

    Times are taken where they arise: in the emulated hand's process and in the driver's thread.
    """

    hand: EmulatedHandProcess
    driver: HandDriver
    states: TimedStates
    target: Callable[[float], Any]
    """Joint angles to command at a time [s]."""
    computer: FaultyComputer
    silent: bool = False
    """Send no commands."""
    stamp: Callable[[float], float] | None = None
    """Stamp of a command sent at a system time [s]; None: no stamps."""
    holds_since: float = np.nan
    """When the servo began to hold [s]; NaN while it does not."""

    def note(self, turn: Turn) -> None:
        """Note a turn of the driver."""
        if turn.output.mode is not ServoMode.HOLD:
            self.holds_since = np.nan
        elif np.isnan(self.holds_since):
            self.holds_since = time.monotonic()

    def change(self, **changes: Any) -> float:
        """Change faults of the hand; return when it has them [s]."""
        return self.hand.set(**changes)["time"]

    def fault_since(self, timeout: float) -> float:
        """Wait until the driver has found a fault; return when it did [s], NaN without one."""
        found = wait(lambda: HandState.FAULT in self.states.began, timeout)
        return np.nan if np.isnan(found) else self.states.began[HandState.FAULT]

    def restamp(self, offset: float = 0.0, rate: float = 1.0) -> None:
        """Stamp commands by a clock that is off by ``offset`` [s] and advances at this rate."""
        start = time.time()
        self.stamp = lambda t: start + offset + rate * (t - start)

    def step_clock(self, seconds: float) -> None:
        """Step the driver's system clock; the commands keep the old one."""
        self.restamp()
        self.computer.stepped = seconds

    def limp(self) -> float:
        """Wait until the motors have no torque; return since when [s], NaN if they still have."""
        wait(lambda: self.hand.set()["limp"], 1.0)
        state = self.hand.set()
        return state["limp_since"] if state["limp"] else np.nan

    def off(self) -> float:
        """Wait until the hand's servo is off; return when it reported that [s], NaN if it is on."""
        states = iter(self.hand.set, None)
        end = time.monotonic() + 1.0
        state = next(s for s in states if not s["servo"] or s["time"] > end)
        return np.nan if state["servo"] else state["time"]

    def afterwards(self) -> tuple[bool, bool]:
        """Return whether, with the fault gone and commands continuing, torques kept their limits
        and the hand stayed off."""
        time.sleep(AFTERWARDS)
        state = self.hand.set()
        return state["over_limit"] == 0, not state["servo"]


def emulated_hand(bus: BusParams, *arguments: str) -> EmulatedHandProcess:
    """Start an emulated hand; see :data:`PLANT`."""
    return EmulatedHandProcess(bus, *PLANT, "--emulator-priority", str(EMULATOR_PRIORITY), *arguments)


def state_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder for the hand's state, in memory where there is such a file system."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)


@contextlib.contextmanager
def rig(hardware: str = "V4", *arguments: str) -> Iterator[Rig]:
    """Run a hand that is enabled and moves."""
    model = model_of(hardware)
    bus = own_bus(model)
    middle = np.clip(model.home, model.lower + 0.25, model.upper - 0.25)
    phase = np.arange(model.home.size)
    end = threading.Event()
    if hardware != LEAP:
        arguments = ("--emulated-hardware", hardware, *arguments)
    with emulated_hand(bus, *arguments) as hand, state_folder() as folder:
        computer = FaultyComputer()
        link = link_to(hardware, bus, CanHandParams(calibration_dir=folder), computer)
        watch = wiring_of(model).watch(WatchParams())
        servo = ServoLaw(model, ServoParams(), GravityCompensation(model), watch)
        states = TimedStates(folder, SERIAL)
        driver = HandDriver(link, servo, store=states)
        target = lambda t: middle + 0.2 * np.sin(2 * np.pi * 0.7 * t + phase)  # noqa: E731
        result = Rig(hand, driver, states, target, computer)
        driver.on_turn = result.note

        def command() -> None:
            while not end.wait(COMMAND_PERIOD):
                if not result.silent:
                    stamp = result.stamp and result.stamp(time.time())
                    driver.command(result.target(time.monotonic()), stamp)

        with driver, ThreadPoolExecutor(1) as pool:
            commands = pool.submit(command)
            try:
                time.sleep(SETTLE)
                yield result
            finally:
                end.set()
            commands.result()


def wait(condition: Callable[[], bool], timeout: float) -> float:
    """Return the monotonic time [s] at which ``condition`` became true; NaN if it did not."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if condition():
            return time.monotonic()
        time.sleep(0.002)
    return float("nan")
