"""Faults of the fault matrix that need no ROS: of the hand, the commands, the processes, stops.

The time of a row runs from the fault to the moment the motors lose their torque. Where the hand
cannot be reached, it ends when the driver knows of the fault; where the hand is to hold, when its
target stands still.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dexstack.bench.hand import DRIVER_PRIORITY
from dexstack.hand.allegro.bus import BusError
from dexstack.hand.commissioning import check_at_rest, commission
from dexstack.hand.driver import HandDriver
from dexstack.hand.emulated.process import own_bus
from dexstack.hand.leap.line import LineError
from dexstack.hand.leap.protocol import WATCHDOG_FIRED
from dexstack.hand.link import HandFault
from dexstack.hand.params import CanHandParams
from dexstack.hand.servo import ServoLaw, ServoParams
from dexstack.hand.states import HandState, StateFile
from dexstack.model.hand import load_hand
from dexstack.process.realtime import drop_realtime, make_realtime
from dexstack.report.gate import Gate
from tests.acceptance.commissioning import gains
from tests.acceptance.hand_rig import (
    AFTERWARDS,
    LEAP,
    SERIAL,
    SETTLE,
    FaultResult,
    FaultyComputer,
    Rig,
    emulated_hand,
    link_to,
    model_of,
    name_of,
    rig,
    state_folder,
    wait,
)
from tests.acceptance.leap_faults import HARMLESS_MOTORS, MOTOR_FAULTS, SHARED

HAND_FAULTS: dict[str, tuple[dict[str, Any], float]] = {
    "joint angles stop": ({"silent": True}, 0.1),
    **{f"the angles of finger {f} stop": ({"silent_finger": f}, 0.1) for f in range(4)},
    "over-temperature is reported": ({"over_temperature": True}, 0.1),
    "an internal communication fault is reported": ({"communication_fault": True}, 0.1),
    "a sensor is at 90 °C": ({"celsius": [40, 41, 42, 90]}, 0.3),
    "a finger is at 90 °C, the sensors of another are implausible": ({"celsius": [40, -100, 42, 90]}, 0.3),
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
    "one motor is inverted": ({"motor_gain": gains(5, -1.0)}, 1.0),
    "one encoder is inverted": ({"encoder_gain": gains(9, -1.0)}, 1.0),
    "the motors of index and middle are swapped": ({"motor_order": [1, 0, 2, 3]}, 1.0),
    "the angles of middle and ring are swapped": ({"encoder_order": [0, 2, 1, 3]}, 1.0),
    "the fingers are in the wrong order": ({"encoder_order": [1, 2, 3, 0]}, 1.0),
}
"""Changes of the emulated hand, and the time within which its torque must end [s]."""
UNREACHABLE = ("all frames are lost", "the controller goes off the bus", "30 % of the frames are lost")
"""Faults with an unreliable bus: the time ends when the driver knows of the fault."""
WIRES = {"motor_gain", "motor_order", "encoder_gain", "encoder_order", "swapped_torque_bytes"}
"""Wiring faults, present from the moment the hand is enabled. An encoder that inverted on the way would leap,
or not at all where its angle is zero."""
HARMLESS: dict[str, Any] = {
    "silent": False,
    "silent_finger": -1,
    "silent_status": False,
    "over_temperature": False,
    "communication_fault": False,
    "loss": 0.0,
    "latency": 0.0,
    "bus_off": False,
    "refuses_servo": False,
    "swapped_angle_bytes": False,
    "swapped_torque_bytes": False,
    "leap_joint": -1,
    "frozen_joint": -1,
    "motor_gain": [1.0] * 16,
    "encoder_gain": [1.0] * 16,
    "motor_order": [0, 1, 2, 3],
    "encoder_order": [0, 1, 2, 3],
    "celsius": [40, 41, 42, 43],
    "overloaded_motor": -1,
}
"""Values that end every fault."""

SILENT = ("V4", ("--silent-status",))
V5: tuple[str, tuple[str, ...]] = ("V5", ())
OTHERS: dict[str, tuple[str, tuple[str, ...], dict[str, Any], float]] = {
    "joint angles stop, a hand that never tells its status": (*SILENT, {"silent": True}, 0.1),
    "a sensor is at 90 °C, a hand that never tells its status": (*SILENT, {"celsius": [40, 41, 42, 90]}, 0.3),
    "joint angles stop, a V5": (*V5, {"silent": True}, 0.1),
    "a motor is at 90 °C, a V5": (*V5, {"celsius": [40, 41, 42, 90]}, 0.3),
    "a motor reports an overload, a V5": (*V5, {"overloaded_motor": 6}, 0.3),
}
"""Faults of other hands: hardware, arguments of the emulated hand, and as in :data:`HAND_FAULTS`."""
LEAP_FAULTS = {name: HAND_FAULTS[name] for name in SHARED} | MOTOR_FAULTS
ON_LEAP = f", a {LEAP} hand"


def parts(name: str) -> tuple[str, str]:
    """Return the fault of a row and the hardware that has it."""
    fault, on_leap, _ = name.partition(ON_LEAP)
    return fault, LEAP if on_leap else OTHERS[name][0] if name in OTHERS else "V4"


def hand_fault(name: str) -> FaultResult:
    """Run a row of :data:`HAND_FAULTS`, :data:`OTHERS` or :data:`LEAP_FAULTS`."""
    fault, hardware = parts(name)
    arguments: tuple[str, ...] = ()
    if name in OTHERS:
        _, arguments, changes, limit = OTHERS[name]
    else:
        changes, limit = (LEAP_FAULTS if hardware == LEAP else HAND_FAULTS)[fault]
    harmless = HARMLESS | HARMLESS_MOTORS if hardware == LEAP else HARMLESS
    with rig(hardware, *arguments) as r:
        if WIRES & set(changes):
            r.driver.in_thread(r.driver.stop)
            r.hand.set(**changes)
            r.driver.in_thread(r.driver.enable)
        start = r.change(**changes)
        seconds = r.fault_since(2.0 * limit + 0.5) - start
        if fault in UNREACHABLE:
            r.hand.set(**harmless)
            r.limp()
        else:
            seconds = r.limp() - start
        r.hand.set(**harmless)
        return FaultResult(name, r.driver.state.value, seconds, limit, *r.afterwards())


def _aim(target: Any) -> Callable[[Rig], None]:
    return lambda r: setattr(r, "target", lambda t: target)


COMMANDS: dict[str, Callable[[Rig], None]] = {
    "commands stop": lambda r: setattr(r, "silent", True),
    "commands are not numbers": _aim(np.full(16, np.nan)),
    "one entry of the commands is not a number": _aim(np.where(np.arange(16) == 3, np.nan, 0.5)),
    "commands are infinite": _aim(np.full(16, np.inf)),
    "commands are huge": _aim(np.full(16, 1e300)),
    "commands have 15 entries": _aim(np.zeros(15)),
    "commands are text": _aim("sixteen"),
    "commands arrive 200 ms late": lambda r: r.restamp(-0.2),
    "commands arrive in the opposite order": lambda r: r.restamp(rate=-1.0),
    "the same command arrives again and again": lambda r: r.restamp(rate=0.0),
    "commands are stamped one second late": lambda r: r.restamp(-1.0),
    "commands are stamped one second early": lambda r: r.restamp(1.0),
    "the commands' clock is 100 ppm slow for an hour": lambda r: r.restamp(-0.36),
    "the commands' clock is 100 ppm fast for an hour": lambda r: r.restamp(0.36),
    "the system clock steps by +1 s": lambda r: r.step_clock(1.0),
    "the system clock steps by -1 s": lambda r: r.step_clock(-1.0),
}
"""Faults of the commands; the hand holds, and is limp later."""


def command_fault(name: str) -> FaultResult:
    """Run a row of :data:`COMMANDS`."""
    (fault, hardware), limit = parts(name), 0.25
    with rig(hardware) as r:
        start = time.monotonic()
        COMMANDS[fault](r)
        wait(lambda: not np.isnan(r.holds_since) or r.driver.fault is not None, 2.0 * limit)
        time.sleep(AFTERWARDS)
        seconds = r.holds_since - start
        ended = "hold" if seconds > 0.0 and r.driver.fault is None else r.driver.state.value
        return FaultResult(name, ended, seconds, limit, r.hand.set()["over_limit"] == 0)


ADAPTER = {
    "the adapter is unplugged": ({"open", "send", "receive"}, False),
    "the adapter is plugged in again": ({"open", "send", "receive"}, True),
    "the bus takes no more frames": ({"send"}, False),
    "the bus takes frames again": ({"send"}, True),
}
"""Calls of the adapter that fail, and whether the time begins when they work again. A hand that cannot
be reached keeps its torque: the time ends when the driver knows of the fault."""
GONE = BusError("there is no CAN interface can0")
FULL = BusError("no device on can0 acknowledges frames")
LINE = LineError("the line failed: no such device")


def adapter_fault(name: str) -> FaultResult:
    """Run a row of :data:`ADAPTER`."""
    (fault, hardware), limit = parts(name), 0.1
    failing, again = ADAPTER[fault]
    with rig(hardware) as r:
        r.hand.set(loss=1.0)  # nor does the guard reach the hand
        start = time.monotonic()
        r.computer.trouble = LINE if hardware == LEAP else GONE if "open" in failing else FULL
        r.computer.failing = frozenset(failing)
        seconds = r.fault_since(1.0) - start
        if again:
            time.sleep(AFTERWARDS)
            r.computer.failing = frozenset()
            start = r.change(loss=0.0)
            seconds = r.off() - start
        r.computer.failing = frozenset()
        r.hand.set(loss=0.0)
        return FaultResult(name, r.driver.state.value, seconds, limit, *r.afterwards())


COMMISSIONING = {
    "commissioning, a motor inverted": {"motor_gain": gains(5, -1.0)},
    "commissioning, an encoder of double scale": {"encoder_gain": gains(0, 2.0)},
    "commissioning, a motor of double strength": {"motor_gain": gains(7, 2.0)},
    "commissioning, a motor dead": {"motor_gain": gains(3, 0.0)},
    "commissioning, a weak supply": {"motor_gain": [0.2] * 16},
    "commissioning, two fingers swapped": {"encoder_order": [1, 0, 2, 3]},
}
"""Faults that commissioning finds by moving every joint alone; the time runs from the last good
measurement to the end of the torque."""
LEAP_COMMISSIONING = {name: COMMISSIONING[name] for name in COMMISSIONING if "swapped" not in name}


def commissioning_fault(name: str) -> FaultResult:
    """Run a row of :data:`COMMISSIONING`."""
    fault_name, hardware = parts(name)
    model, limit = model_of(hardware), 0.05
    bus = own_bus(model)
    params = CanHandParams(calibration_dir="/nonexistent")
    with (
        emulated_hand(bus) as hand,
        contextlib.closing(link_to(hardware, bus, params, FaultyComputer())) as link,
    ):
        hand.set(**COMMISSIONING[fault_name])
        try:
            link.start()
            check_at_rest(link.read(0.1), model, link.rad_per_count)
            commission(link, model)
        except HandFault as fault:
            kept = hand.set()["over_limit"] == 0
            off = not np.isnan(wait(lambda: not hand.set()["servo"], 0.5))
            return FaultResult(name, "fault", getattr(fault, "seconds", 0.0), limit, kept, off)
        return FaultResult(name, "enabled", np.nan, limit)


STOPS = ("stop", "stop while enable runs")


def stop_fault(name: str) -> FaultResult:
    """Run a row of :data:`STOPS`."""
    (fault, hardware), limit = parts(name), 0.1
    racing = fault == STOPS[1]
    with rig(hardware) as r:
        enabling = threading.Thread(target=_try_to_enable, args=(r.driver,))
        if racing:
            r.driver.in_thread(r.driver.stop)
            r.hand.set(refuses_servo=True)
            enabling.start()
            time.sleep(0.1)
        start = time.monotonic()
        r.driver.ask_stop(name)
        r.hand.set(refuses_servo=False)
        wait(lambda: r.driver.stopped, 1.0)
        if racing:
            enabling.join()
        seconds = np.maximum(r.limp(), r.states.began.get(HandState.READY, np.nan)) - start
        return FaultResult(name, r.driver.state.value, seconds, limit, *r.afterwards())


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
"""Query of a request to the page's server, and its origin."""


def attack(name: str) -> FaultResult:
    """Run a row of :data:`ATTACKS`: a stopped hand stays READY."""
    import viser
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    query, origin = ATTACKS[name]
    limit, gate = 0.1, Gate()
    with rig() as r:
        r.driver.in_thread(r.driver.stop)
        with gate.in_front():
            server = viser.ViserServer(host="127.0.0.1", port=8600, verbose=False)
        server.gui.add_button("enable").on_click(lambda _: _try_to_enable(r.driver))
        start = time.monotonic()
        try:
            address = f"ws://127.0.0.1:{server.get_port()}/{query.format(token=gate.token)}"
            connect(address, subprotocols=[f"viser-v{viser.__version__}"], origin=origin).close()  # type: ignore[list-item, arg-type]
            return FaultResult(name, "connected", np.nan, limit)
        except InvalidStatus:
            seconds = time.monotonic() - start
            return FaultResult(name, r.driver.state.value, seconds, limit, *r.afterwards())
        finally:
            server.stop()


def _try_to_enable(driver: HandDriver) -> None:
    with contextlib.suppress(Exception):
        driver.in_thread(driver.enable)


DRIVER = """
import sys, time
import numpy as np
from dexstack.hand.driver import HandDriver
from dexstack.hand.links import Settings, link_to, wiring_of
from dexstack.hand.params import BusParams, CanHandParams
from dexstack.hand.servo import ServoLaw, ServoParams
from dexstack.hand.states import StateFile
from dexstack.hand.watch import WatchParams
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import load_hand
name, interface, channel, folder, serial = sys.argv[1:]
hand = load_hand(name)
link = link_to(hand, BusParams(interface, channel), Settings(CanHandParams(realtime_priority=70)))
watch = wiring_of(hand).watch(WatchParams())
servo = ServoLaw(hand, ServoParams(), GravityCompensation(hand), watch)
with HandDriver(link, servo, store=StateFile(folder, serial)) as d:
    print(link.status().get("guard_pid", 0), flush=True)
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
"""Signals, and the processes that get them. The state that the next driver reads from the hand's
file must make it wait for a person."""


def process_fault(name: str) -> FaultResult:
    """Run a row of :data:`PROCESSES`. A LEAP hand has no guard: its motors hold with their last current
    when their own watchdog stops them, after ``bus_watchdog`` (0.1 s).
    """
    fault, hardware = parts(name)
    number, victim = PROCESSES[fault]
    bus, off_the_bus = own_bus(model_of(hardware)), victim == "driver off the bus"
    limit = 0.15 if hardware == LEAP else 0.1
    with emulated_hand(bus) as hand, state_folder() as folder:
        command = [sys.executable, "-c", DRIVER, name_of(hardware), bus.interface, bus.channel]
        command += [folder, SERIAL]
        driver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert driver.stdout is not None
            guard = int(driver.stdout.readline())
            wait(lambda: not hand.set()["limp"], 3.0)
            time.sleep(SETTLE)
            if off_the_bus:
                hand.set(bus_off=True)
                time.sleep(0.03)
            start = _kill(guard if victim == "guard" else driver.pid, number)
            if off_the_bus:
                time.sleep(0.3)
                start = hand.set(bus_off=False)["time"]
            wait(lambda: hand.set()["limp"], 1.0)
            time.sleep(AFTERWARDS)
            state = hand.set()
            seconds = state["limp_since"] - start if state["limp"] else np.nan
            record = StateFile(folder, SERIAL).read()
            kept = None if record is None else record.state
            stopped = not state["servo"]
            if hardware == LEAP:
                stopped = stopped or set(state["watchdog"]) == {WATCHDOG_FIRED}
            held = stopped and state["servo"]
            ended = (
                "fault" if kept is HandState.FAULT else "hold" if held else "ready" if stopped else "enabled"
            )
            off = stopped and kept in (HandState.OFF, HandState.ENABLED, HandState.FAULT)
            return FaultResult(name, ended, seconds, limit, state["over_limit"] == 0, off)
        finally:
            driver.kill()
            driver.wait()
            driver.stdout.close()


def _kill(pid: int, number: int) -> float:
    """Send a signal at once, also on a busy machine; return when [s]."""
    make_realtime(DRIVER_PRIORITY)
    try:
        start = time.monotonic()
        os.kill(pid, number)
        return start
    finally:
        drop_realtime()


TICKS = 3000


def tick_cost() -> dict[str, float]:
    """Return the median time [s] of one step of the servo, and of the watch within it."""
    hand, spent = load_hand("right"), {"servo_s": [], "watch_s": []}
    servo = ServoLaw(hand, ServoParams())

    def timed(function: Callable[..., Any], times: list[float]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            begin = time.perf_counter()
            result = function(*args)
            times.append(time.perf_counter() - begin)
            return result

        return call

    servo.watch.look = timed(servo.watch.look, spent["watch_s"])  # type: ignore[method-assign]
    step = timed(servo.step, spent["servo_s"])
    for k in range(TICKS):
        servo.set_command(hand.home, 0.003 * k)
        step(hand.home + 0.01 * np.sin(0.01 * k), 0.003 * k)
    return {name: float(np.median(times)) for name, times in spent.items()}


def hand_rows() -> dict[str, Callable[[str], FaultResult]]:
    """Return the function that runs each fault, by name."""
    rows = {
        **dict.fromkeys(HAND_FAULTS, hand_fault),
        **dict.fromkeys(COMMANDS, command_fault),
        **dict.fromkeys(ADAPTER, adapter_fault),
        **dict.fromkeys(STOPS, stop_fault),
        **dict.fromkeys(PROCESSES, process_fault),
        **dict.fromkeys(COMMISSIONING, commissioning_fault),
    }
    leap = dict.fromkeys(LEAP_FAULTS, hand_fault) | dict.fromkeys(LEAP_COMMISSIONING, commissioning_fault)
    leap |= {name: run for name, run in rows.items() if run not in (hand_fault, commissioning_fault)}
    for name, (_, victim) in PROCESSES.items():
        if victim not in ("driver",):
            del leap[name]
    return {
        **rows,
        **dict.fromkeys(OTHERS, hand_fault),
        **dict.fromkeys(ATTACKS, attack),
        **{name + ON_LEAP: run for name, run in leap.items()},
    }
