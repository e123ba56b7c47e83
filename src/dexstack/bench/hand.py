"""The servo loop against an emulated hand: period, latency, missed sets, processor time, while the
other cores are busy."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dexstack.hand.allegro.can_hand import CanHand
from dexstack.hand.driver import HandDriver, Turn
from dexstack.hand.params import BusParams, CanHandParams
from dexstack.hand.servo import ServoLaw, ServoParams
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import load_hand

WARM_UP = 1.0
"""[s]"""
COMMAND_PERIOD = 0.02
LOOK_AT_LOAD = 5.0
DRIVER_PRIORITY, EMULATOR_PRIORITY = 70, 60
"""Above what other dexstack processes of this machine ask for."""


class HandTiming(NamedTuple):
    """What was measured after the warm-up."""

    period: np.ndarray
    """(n,) time between the arrivals of two sets [s]."""
    latency: np.ndarray
    """(n,) from the arrival of a set's last frame (kernel's time stamp) until its last torque frame
    was handed to the kernel [s]."""
    sets: int
    """Sets that the hand sent."""
    lost: int
    """Of these, sets the driver never had complete; one may be on its way when the counting starts
    or ends."""
    incomplete: int
    """Sets of which a frame was missing."""
    skipped: int
    """Complete sets that were not answered because a newer one had already come."""
    cpu_share: float
    """Processor time of driver and guard, as a share of one core."""
    emulator_cpu_share: float
    realtime: bool
    fault: str
    largest: float
    """Largest share of its limit that a torque on the bus took."""
    over_limit: int
    load: list[float]
    """1-minute load averages of the machine, every few seconds."""


def time_hand(seconds: float, others: Sequence[int], *, side: str = "right", busy: bool = True) -> HandTiming:
    """Drive an emulated hand for ``seconds`` [s] after a warm-up, its joints following sines at 50
    commands per second.

    The driver runs where this process runs; on the ``others`` run the emulated hand, which stands
    for a device of its own, and, if ``busy``, one process for each of them that burns every cycle
    it gets.
    """
    bus = BusParams("udp_multicast", f"239.75.{os.getpid() >> 8 & 255}.{os.getpid() & 255}:6400")
    hand = load_hand(side)
    n = int((seconds + WARM_UP + 30.0) / 0.0025)
    arrival, answered = np.zeros(n), np.zeros(n)
    count = 0

    def note(turn: Turn) -> None:
        nonlocal count
        if count < n and driver.fault is None:
            arrival[count], answered[count] = link.arrival, link.answered
            count += 1

    with _emulator(bus, side, others) as ask, _burners(others if busy else ()):
        link = CanHand(side, bus, CanHandParams(realtime_priority=DRIVER_PRIORITY))
        driver = HandDriver(link, ServoLaw(hand, ServoParams(), GravityCompensation(hand)))
        driver.on_turn = note
        load: list[float] = []
        with driver:
            _command(driver, hand.home, WARM_UP, load)
            guard = link.status()["guard_pid"]
            before, first, sets = ask(), count, (link.sets, link.missed)
            cpu, wall = time.process_time() + _cpu(guard), time.monotonic()
            _command(driver, hand.home, seconds, load)
            cpu, wall = time.process_time() + _cpu(guard) - cpu, time.monotonic() - wall
            after, last, sets = ask(), count, (link.sets - sets[0], link.missed - sets[1])
            fault = str(driver.fault or "")
        end = ask()
    period, latency = np.diff(arrival[first:last]), (answered - arrival)[first + 1 : last]
    sent = after["sets"] - before["sets"]
    return HandTiming(
        period,
        latency,
        sets=sent,
        lost=max(0, sent - sets[0] - 1),
        incomplete=sets[1],
        skipped=max(0, sets[0] - (last - first) - 1),
        cpu_share=cpu / wall,
        emulator_cpu_share=(after["cpu_s"] - before["cpu_s"]) / wall,
        realtime=link.realtime,
        fault=fault,
        largest=end["largest"],
        over_limit=end["over_limit"],
        load=load,
    )


def _command(driver: HandDriver, home: np.ndarray, seconds: float, load: list[float]) -> None:
    start = time.monotonic()
    k, looked = 0, -np.inf
    while (t := time.monotonic() - start) < seconds:
        driver.command(home + 0.05 * np.sin(2.0 * np.pi * 0.5 * t + np.arange(home.size)))
        if t - looked > LOOK_AT_LOAD:
            looked = t
            load.append(os.getloadavg()[0])
        k += 1
        time.sleep(max(0.0, start + k * COMMAND_PERIOD - time.monotonic()))


@contextlib.contextmanager
def _emulator(bus: BusParams, side: str, cores: Sequence[int]) -> Iterator[Any]:
    command = [
        sys.executable,
        "-m",
        "dexstack.hand.emulated.allegro",
        "--interface",
        bus.interface,
        "--channel",
        bus.channel,
    ]
    process = subprocess.Popen(
        [*command, "--hand", side, "--plant", "mujoco", "--emulator-priority", str(EMULATOR_PRIORITY)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None

    def ask() -> dict[str, Any]:
        process.stdin.write("{}\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    try:
        os.sched_setaffinity(process.pid, cores)
        json.loads(process.stdout.readline())
        yield ask
    finally:
        process.stdin.close()
        process.wait(10.0)
        process.stdout.close()


@contextlib.contextmanager
def _burners(cores: Sequence[int]) -> Iterator[None]:
    processes = []
    for core in cores:
        processes.append(
            subprocess.Popen([sys.executable, "-S", "-c", "import os; os.nice(10)\nwhile True: pass"])
        )
        os.sched_setaffinity(processes[-1].pid, {core})
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _cpu(pid: int) -> float:
    """Processor time a process has used [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
