"""The fault matrix: what an emulated hand does when things go wrong, each fault alone, on a driver
that commands its joints all the time.

Every fault must end in HOLD, READY or FAULT within its stated time, no torque on the bus may pass a
limit, and nothing but consent may switch the hand on again. The time runs from the fault to the
moment the motors lose their torque; where nobody can reach the hand, to the moment the driver
knows; where the hand is to hold, to the moment the target stands still.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dexstack.hand.allegro.bus import CanBus, Computer
from dexstack.hand.allegro.can_hand import CanHand
from dexstack.hand.allegro.protocol import Frame
from dexstack.hand.commissioning import check_at_rest, commission
from dexstack.hand.driver import HandDriver
from dexstack.hand.link import HandFault
from dexstack.hand.params import BusParams, CanHandParams
from dexstack.hand.servo import ServoLaw, ServoMode, ServoParams
from dexstack.hand.states import HandState, StateFile
from dexstack.model.hand import load_hand
from dexstack.report.gate import Gate

DRIVER_PRIORITY, EMULATOR_PRIORITY = 70, 60
COMMAND_PERIOD = 0.02
SETTLE = 0.4
"""Motion before the fault [s]."""
AFTERWARDS = 0.3
"""Time after a fault has gone in which nothing may switch the hand on [s]."""
SERIAL = "EMU00001"


@dataclass(frozen=True)
class Outcome:
    """How one fault ended."""

    fault: str
    ended_in: str
    """hold, ready or fault; anything else has failed."""
    seconds: float
    """NaN: it did not end."""
    limit_s: float
    torque_kept: bool = True
    """No torque on the bus was beyond a limit."""
    stayed_off: bool = True
    """Nothing but consent switched the hand on again."""

    @property
    def passed(self) -> bool:
        ended = self.ended_in in ("hold", "ready", "fault") and self.seconds <= self.limit_s
        return ended and self.torque_kept and self.stayed_off


class EmulatedHandProcess:
    """An emulated hand in a process of its own: its faults and its state.

    Args:
        bus: where it is.
        arguments: of ``python -m dexstack.hand.emulated.allegro``.
    """

    def __init__(self, bus: BusParams, *arguments: str) -> None:
        command = [
            sys.executable,
            "-m",
            "dexstack.hand.emulated.allegro",
            "--interface",
            bus.interface,
            "--channel",
            bus.channel,
        ]
        options = [
            "--plant",
            "standing",
            "--encoder-noise",
            "0.0002",
            "--emulator-priority",
            str(EMULATOR_PRIORITY),
            *arguments,
        ]
        self.process = subprocess.Popen(
            [*command, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._read()

    def set(self, **changes: Any) -> dict[str, Any]:
        """Change faults; the hand's state."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(changes) + "\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait(10.0)
            self.process.stdout.close()


class SteppedComputer(Computer):
    """This computer, its system's clock set to another time."""

    stepped = 0.0
    """By how much [s]."""

    def system(self) -> float:
        return super().system() + self.stepped

    def open_bus(self, params: BusParams) -> CanBus:
        bus = super().open_bus(params)
        receive = bus.receive

        def stamped(timeout: float) -> tuple[Frame, float] | None:
            received = receive(timeout)
            return None if received is None else (received[0], received[1] + self.stepped)

        bus.receive = stamped  # type: ignore[method-assign]
        return bus


@dataclass
class Rig:
    """A hand, a driver in its thread that moves its joints, and what a fault may do to them."""

    hand: EmulatedHandProcess
    driver: HandDriver
    bus: BusParams
    folder: str
    target: Callable[[float], Any]
    computer: SteppedComputer
    stamp_offset: float | None = None
    """Commands are stamped by a clock that is off by this [s]; None: not stamped."""
    silent: bool = False
    """No commands."""
    stamp: Callable[[float], float] | None = None
    """What stamps commands in place of a clock [s]."""

    def restamp(self, rate: float) -> None:
        """From now on stamps go on at this rate of the clock's."""
        start = time.time()
        self.stamp = lambda t: start + rate * (t - start)

    def step_clock(self, seconds: float) -> None:
        """The system's clock leaps; whoever commands still goes by the old one."""
        self.stamp_offset, self.computer.stepped = 0.0, seconds


_channels = iter(range(1, 250))


@contextlib.contextmanager
def rig(hardware: str = "V4", *arguments: str) -> Iterator[Rig]:
    """A hand that is enabled and moves."""
    model = load_hand("right")
    bus = BusParams("udp_multicast", f"239.77.{os.getpid() & 255}.{next(_channels)}:6600")
    hand = EmulatedHandProcess(bus, "--emulated-hardware", hardware, *arguments)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        params = CanHandParams(hardware=hardware, realtime_priority=DRIVER_PRIORITY, calibration_dir=folder)
        computer = SteppedComputer()
        link = CanHand("right", bus, params, computer)
        driver = HandDriver(
            link, ServoLaw(model, ServoParams(command_timeout=0.1)), store=StateFile(folder, SERIAL)
        )
        middle = np.clip(model.home, model.lower + 0.25, model.upper - 0.25)
        phase = np.arange(model.home.size)
        result = Rig(
            hand, driver, bus, folder, lambda t: middle + 0.2 * np.sin(2 * np.pi * 0.7 * t + phase), computer
        )
        end = threading.Event()

        def command() -> None:
            while not end.wait(COMMAND_PERIOD):
                if not result.silent:
                    stamp = None if result.stamp_offset is None else time.time() + result.stamp_offset
                    driver.command(
                        result.target(time.monotonic()), result.stamp(time.time()) if result.stamp else stamp
                    )

        thread = threading.Thread(target=command)
        try:
            with driver:
                thread.start()
                time.sleep(SETTLE)
                yield result
                end.set()
                thread.join()
        finally:
            end.set()
            hand.close()


def _gain(joint: int, value: float) -> list[float]:
    return [value if j == joint else 1.0 for j in range(16)]


HAND_FAULTS: dict[str, tuple[dict[str, Any], float]] = {
    "joint angles stop": ({"silent": True}, 0.1),
    **{f"the angles of finger {f} stop": ({"silent_finger": f}, 0.1) for f in range(4)},
    "over-temperature is reported": ({"over_temperature": True}, 0.1),
    "an internal communication fault is reported": ({"communication_fault": True}, 0.1),
    "a sensor is at 90 °C": ({"celsius": [40, 41, 42, 90]}, 0.3),
    "a sensor says what none can": ({"celsius": [40, -60, 42, 43]}, 0.3),
    "the hand is switched off and on": ({"power_cycle": True}, 0.1),
    "the supply is too weak for the servo": ({"refuses_servo": True}, 0.1),
    "all frames are lost": ({"loss": 1.0}, 0.1),
    "30 % of the frames are lost": ({"loss": 0.3}, 1.5),
    "frames are 40 ms late": ({"latency": 0.04}, 0.5),
    "frames are 60 ms late": ({"latency": 0.06}, 0.5),
    "the controller goes off the bus": ({"bus_off": True}, 0.1),
    "an encoder leaps by 0.5 rad": ({"leap_joint": 3, "encoder_leap": 0.5}, 0.1),
    "an encoder leaps by -0.5 rad": ({"leap_joint": 10, "encoder_leap": -0.5}, 0.1),
    "an encoder leaps by 0.12 rad": ({"leap_joint": 14, "encoder_leap": 0.12}, 0.1),
    "the bytes of angles are swapped": ({"swapped_angle_bytes": True}, 0.1),
    "the bytes of torques are swapped": ({"swapped_torque_bytes": True}, 0.3),
    "an encoder is dead": ({"frozen_joint": 6}, 0.6),
    "all motors are inverted": ({"motor_gain": [-1.0] * 16}, 0.6),
    "one motor is inverted": ({"motor_gain": _gain(5, -1.0)}, 1.0),
    "one encoder is inverted": ({"encoder_gain": _gain(9, -1.0)}, 0.1),
    "the motors of index and middle are swapped": ({"motor_order": [1, 0, 2, 3]}, 1.0),
    "the angles of middle and ring are swapped": ({"encoder_order": [0, 2, 1, 3]}, 1.0),
    "the fingers are in the wrong order": ({"encoder_order": [1, 2, 3, 0]}, 1.0),
}
"""What is wrong with the hand, and how soon it must have no torque [s]."""
UNREACHABLE = ("all frames are lost", "the controller goes off the bus", "30 % of the frames are lost")
"""Here the hand cannot be told for certain: what counts is when the driver knows."""
WIRES = {"motor_gain", "motor_order", "swapped_torque_bytes"}
"""Wires do not change while the hand moves: these are wrong from the moment on in which it is
enabled."""
HARMLESS = {
    "silent": False,
    "silent_finger": -1,
    "over_temperature": False,
    "communication_fault": False,
    "loss": 0.0,
    "latency": 0.0,
}
HARMLESS |= {
    "bus_off": False,
    "refuses_servo": False,
    "swapped_angle_bytes": False,
    "swapped_torque_bytes": False,
    "leap_joint": -1,
}
HARMLESS |= {
    "frozen_joint": -1,
    "motor_gain": [1.0] * 16,
    "encoder_gain": [1.0] * 16,
    "celsius": [40, 41, 42, 43],
}
HARMLESS |= {
    "motor_order": [0, 1, 2, 3],
    "encoder_order": [0, 1, 2, 3],
    "silent_status": False,
    "overloaded_motor": -1,
}


OTHERS: dict[str, tuple[str, tuple[str, ...], dict[str, Any], float]] = {
    "joint angles stop, a hand that never tells its status": (
        "V4",
        ("--silent-status",),
        {"silent": True},
        0.1,
    ),
    "a sensor is at 90 °C, a hand that never tells its status": (
        "V4",
        ("--silent-status",),
        {"celsius": [40, 41, 42, 90]},
        0.3,
    ),
    "joint angles stop, a V5": ("V5", (), {"silent": True}, 0.1),
    "a motor is at 90 °C, a V5": ("V5", (), {"celsius": [40, 41, 42, 90]}, 0.3),
    "a motor reports an overload, a V5": ("V5", (), {"overloaded_motor": 6}, 0.3),
}
"""The same with other hands: which hardware, arguments of the emulated hand, what goes wrong, and
how soon it must have no torque [s]."""


def hand_fault(name: str) -> Outcome:
    """One row of :data:`HAND_FAULTS` or of :data:`OTHERS`."""
    hardware, arguments, changes, limit = OTHERS[name] if name in OTHERS else ("V4", (), *HAND_FAULTS[name])
    with rig(hardware, *arguments) as r:
        if WIRES & set(changes):
            r.driver.in_thread(r.driver.stop)
            r.hand.set(**changes)
            r.driver.in_thread(r.driver.enable)
        start = time.monotonic()
        r.hand.set(**changes)
        known = _wait(lambda: r.driver.fault is not None, 2.0 * limit + 0.5)
        seconds = known - start
        if name in UNREACHABLE:
            r.hand.set(**HARMLESS)
        state = _limp(r)
        if name not in UNREACHABLE:
            seconds = state["limp_since"] - start if state["limp"] else np.nan
        r.hand.set(**HARMLESS)
        ended = r.driver.state.value
        return Outcome(name, ended, seconds, limit, *_afterwards(r))


COMMANDS: dict[str, Callable[[Rig], None]] = {
    "commands stop": lambda r: setattr(r, "silent", True),
    "commands are not numbers": lambda r: setattr(r, "target", lambda t: np.full(16, np.nan)),
    "one entry of the commands is not a number": lambda r: setattr(
        r, "target", lambda t: np.where(np.arange(16) == 3, np.nan, 0.5)
    ),
    "commands are infinite": lambda r: setattr(r, "target", lambda t: np.full(16, np.inf)),
    "commands are huge": lambda r: setattr(r, "target", lambda t: np.full(16, 1e300)),
    "commands have 15 entries": lambda r: setattr(r, "target", lambda t: np.zeros(15)),
    "commands are text": lambda r: setattr(r, "target", lambda t: "sixteen"),
    "commands arrive 200 ms late": lambda r: setattr(r, "stamp_offset", -0.2),
    "commands arrive in the opposite order": lambda r: r.restamp(-1.0),
    "the same command arrives again and again": lambda r: r.restamp(0.0),
    "commands are stamped one second late": lambda r: setattr(r, "stamp_offset", -1.0),
    "commands are stamped one second early": lambda r: setattr(r, "stamp_offset", 1.0),
    "the commands' clock is 100 ppm slow for an hour": lambda r: setattr(r, "stamp_offset", -0.36),
    "the commands' clock is 100 ppm fast for an hour": lambda r: setattr(r, "stamp_offset", 0.36),
    "the system clock steps by +1 s": lambda r: r.step_clock(1.0),
    "the system clock steps by -1 s": lambda r: r.step_clock(-1.0),
}
"""What is wrong with the commands; the hand holds, and is limp later."""


def command_fault(name: str) -> Outcome:
    """One row of :data:`COMMANDS`."""
    limit = 0.25
    with rig() as r:
        start = time.monotonic()
        COMMANDS[name](r)
        seconds = (
            _wait(lambda: r.driver.servo.mode is ServoMode.HOLD or r.driver.fault is not None, 2.0 * limit)
            - start
        )
        time.sleep(AFTERWARDS)
        ended = (
            "hold"
            if r.driver.servo.mode is ServoMode.HOLD and r.driver.fault is None
            else r.driver.state.value
        )
        return Outcome(name, ended, seconds, limit, r.hand.set()["over_limit"] == 0)


COMMISSIONING = {
    "commissioning, a motor inverted": {"motor_gain": _gain(5, -1.0)},
    "commissioning, an encoder of double scale": {"encoder_gain": _gain(0, 2.0)},
    "commissioning, a motor of double strength": {"motor_gain": _gain(7, 2.0)},
    "commissioning, a motor dead": {"motor_gain": _gain(3, 0.0)},
    "commissioning, a weak supply": {"motor_gain": [0.2] * 16},
    "commissioning, two fingers swapped": {"encoder_order": [1, 0, 2, 3]},
}
"""Found when every joint is moved alone; the time is that from the last good measurement to the end
of the torque."""


def commissioning_fault(name: str) -> Outcome:
    """One row of :data:`COMMISSIONING`."""
    model, limit = load_hand("right"), 0.05
    bus = BusParams("udp_multicast", f"239.77.{os.getpid() & 255}.{next(_channels)}:6600")
    hand = EmulatedHandProcess(bus)
    hand.set(**COMMISSIONING[name])
    link = CanHand(
        "right", bus, CanHandParams(realtime_priority=DRIVER_PRIORITY, calibration_dir="/nonexistent")
    )
    try:
        link.start()
        feedback = link.read(0.1)
        assert feedback is not None
        check_at_rest(feedback, model, link.hardware.rad_per_count)
        commission(link, model)
        return Outcome(name, "enabled", np.nan, limit)
    except HandFault as fault:
        state = hand.set()
        _wait(lambda: not hand.set()["servo"], 0.5)
        return Outcome(
            name,
            "fault",
            getattr(fault, "seconds", 0.0),
            limit,
            state["over_limit"] == 0,
            not hand.set()["servo"],
        )
    finally:
        link.close()
        hand.close()


def stop_fault(name: str) -> Outcome:
    """A stop, alone or against somebody else."""
    limit = 0.1
    with rig() as r:
        if name == "stop while enable runs":
            r.driver.in_thread(r.driver.stop)
            r.hand.set(refuses_servo=True)
            enabling = threading.Thread(target=_quietly, args=(r.driver,))
            enabling.start()
            time.sleep(0.1)
        start = time.monotonic()
        r.driver.ask_stop(name)
        r.hand.set(refuses_servo=False)
        stopped = _wait(lambda: r.driver.stopped and not r.hand.set()["servo"], 1.0)
        if name == "stop while enable runs":
            enabling.join()
        return Outcome(name, r.driver.state.value, stopped - start, limit, *_afterwards(r))


ATTACKS: dict[str, tuple[str, str | None]] = {
    "a page without the token wants to enable": ("", None),
    "a page that guesses the token wants to enable": ("?token=guess", None),
    "another site's page that knows the token wants to enable": ("?token={token}", "http://evil.example"),
    "another page of this machine that knows the token wants to enable": (
        "?token={token}",
        "http://127.0.0.1:8601",
    ),
    "a page of no address that knows the token wants to enable": ("?token={token}", "null"),
}
"""What is asked of the page's server, and the origin of who asks."""


def attack(name: str) -> Outcome:
    """One row of :data:`ATTACKS`: a stopped hand stays READY."""
    import viser
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    query, origin = ATTACKS[name]
    limit, gate = 0.1, Gate()
    with rig() as r:
        r.driver.in_thread(r.driver.stop)
        with gate.in_front():
            server = viser.ViserServer(host="127.0.0.1", port=8600, verbose=False)
        server.gui.add_button("enable").on_click(lambda _: _quietly(r.driver))
        start = time.monotonic()
        try:
            address = f"ws://127.0.0.1:{server.get_port()}/{query.format(token=gate.token)}"
            connect(address, subprotocols=[f"viser-v{viser.__version__}"], origin=origin).close()  # type: ignore[list-item, arg-type]
            return Outcome(name, "connected", np.nan, limit)
        except InvalidStatus:
            seconds = time.monotonic() - start
            return Outcome(name, r.driver.state.value, seconds, limit, *_afterwards(r))
        finally:
            server.stop()


def _quietly(driver: HandDriver) -> None:
    with contextlib.suppress(Exception):
        driver.in_thread(driver.enable)


DRIVER = """
import sys, time
import numpy as np
from dexstack.hand.allegro.can_hand import CanHand
from dexstack.hand.driver import HandDriver
from dexstack.hand.params import BusParams, CanHandParams
from dexstack.hand.servo import ServoLaw, ServoParams
from dexstack.hand.states import StateFile
from dexstack.model.hand import load_hand
hand = load_hand("right")
link = CanHand("right", BusParams("udp_multicast", sys.argv[1]), CanHandParams(realtime_priority=70))
with HandDriver(link, ServoLaw(hand, ServoParams()), store=StateFile(sys.argv[2], sys.argv[3])) as d:
    print(link.status()["guard_pid"], flush=True)
    while True:
        d.command(np.clip(hand.home + 0.3 * np.sin(3.0 * time.monotonic()), hand.lower, hand.upper))
        time.sleep(0.02)
"""
PROCESSES = {
    "the driver is killed": (signal.SIGKILL, "driver"),
    "the driver hangs": (signal.SIGSTOP, "driver"),
    "the driver is ended": (signal.SIGTERM, "driver"),
    "the guard is killed": (signal.SIGKILL, "guard"),
    "the driver is killed while the bus is off": (signal.SIGKILL, "driver off the bus"),
}
"""Signals to the processes that drive a hand. What the next driver reads in the hand's file tells
it to wait for a person."""


def process_fault(name: str) -> Outcome:
    """One row of :data:`PROCESSES`."""
    number, victim = PROCESSES[name]
    limit = 0.1
    bus = BusParams("udp_multicast", f"239.77.{os.getpid() & 255}.{next(_channels)}:6600")
    hand = EmulatedHandProcess(bus)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER, bus.channel, folder, SERIAL], stdout=subprocess.PIPE, text=True
        )
        try:
            assert driver.stdout is not None
            guard = int(driver.stdout.readline())
            _wait(lambda: not hand.set()["limp"], 3.0)
            time.sleep(SETTLE)
            if victim == "driver off the bus":
                hand.set(bus_off=True)
                time.sleep(0.03)
            start = time.monotonic()
            os.kill(guard if victim == "guard" else driver.pid, number)
            if victim == "driver off the bus":
                time.sleep(0.3)
                start = time.monotonic()
                hand.set(bus_off=False)
            _wait(lambda: hand.set()["limp"], 1.0)
            time.sleep(AFTERWARDS)
            state = hand.set()
            seconds = state["limp_since"] - start if state["limp"] else np.nan
            kept = _kept_by_child(folder)
            orderly = kept is HandState.OFF
            ended = "fault" if kept is HandState.FAULT else "ready" if not state["servo"] else "enabled"
            waits = orderly or kept in (HandState.ENABLED, HandState.FAULT)
            return Outcome(
                name, ended, seconds, limit, state["over_limit"] == 0, not state["servo"] and waits
            )
        finally:
            driver.kill()
            driver.wait()
            driver.stdout.close()
            hand.close()


def _kept_by_child(folder: str) -> HandState | None:
    """What a driver that this process started, and starts again, would find."""
    kept = StateFile(folder, SERIAL).read()
    return None if kept is None else kept.state


def _wait(condition: Callable[[], bool], timeout: float) -> float:
    """When it became true; NaN if it did not."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if condition():
            return time.monotonic()
        time.sleep(0.002)
    return float("nan")


def _limp(r: Rig) -> dict[str, Any]:
    _wait(lambda: r.hand.set()["limp"], 1.0)
    return r.hand.set()


def _afterwards(r: Rig) -> tuple[bool, bool]:
    """With the fault gone and commands going on: torque kept within its limits, and the hand still
    off."""
    time.sleep(AFTERWARDS)
    state = r.hand.set()
    return state["over_limit"] == 0, not state["servo"]


TICKS = 3000


def tick_cost() -> dict[str, float]:
    """Processor time of one tick of the servo, and of the watch over the joints in it, in the
    median [s]."""
    hand, spent, watched = load_hand("right"), [], []
    servo = ServoLaw(hand, ServoParams())
    look = servo.watch.look

    def timed(*args: Any) -> Any:
        begin = time.perf_counter()
        trip = look(*args)
        watched.append(time.perf_counter() - begin)
        return trip

    servo.watch.look = timed  # type: ignore[method-assign]
    for k in range(TICKS):
        q = hand.home + 0.01 * np.sin(0.01 * k)
        servo.set_command(hand.home, 0.003 * k)
        begin = time.perf_counter()
        servo.step(q, 0.003 * k)
        spent.append(time.perf_counter() - begin)
    return {"servo_s": float(np.median(spent)), "watch_s": float(np.median(watched))}


def all_faults() -> dict[str, Callable[[str], Outcome]]:
    """Every fault of the matrix, and what makes it happen."""
    rows: dict[str, Callable[[str], Outcome]] = dict.fromkeys((*HAND_FAULTS, *OTHERS), hand_fault)
    rows |= dict.fromkeys(COMMANDS, command_fault)
    rows |= dict.fromkeys(("stop", "stop while enable runs"), stop_fault)
    rows |= dict.fromkeys(ATTACKS, attack)
    rows |= dict.fromkeys(PROCESSES, process_fault)
    rows |= dict.fromkeys(COMMISSIONING, commissioning_fault)
    return rows
