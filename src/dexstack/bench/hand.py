"""Timing of the servo loop against an emulated hand, while the other cores are busy."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dexstack.hand.allegro.can_hand import CanHand
from dexstack.hand.driver import HandDriver, Turn
from dexstack.hand.emulated.process import EmulatedHandProcess, own_bus
from dexstack.hand.params import CanHandParams
from dexstack.hand.servo import ServoLaw, ServoParams
from dexstack.model.gravity import GravityCompensation
from dexstack.model.hand import load_hand

WARM_UP = 1.0
"""Time before the first sample that counts [s]."""
COMMAND_PERIOD = 0.02
"""Time between two commands [s]."""
LOAD_PERIOD = 5.0
"""Time between two readings of the load average [s]."""
DRIVER_PRIORITY, EMULATOR_PRIORITY = 70, 60
"""Real-time priorities, above the defaults of other dexstack processes."""


class HandTiming(NamedTuple):
    """Measurements after the warm-up."""

    period: np.ndarray
    """(n,) time between the arrivals of two sets [s]."""
    latency: np.ndarray
    """(n,) time from the arrival of a set's last frame (kernel time stamp) until its last torque
    frame was handed to the kernel [s]."""
    sets: int
    """Sets that the hand sent."""
    lost: int
    """Sets that never arrived complete; one may be in flight when counting starts or ends."""
    incomplete: int
    """Sets with a missing frame."""
    skipped: int
    """Complete sets that were not answered because a newer one had arrived."""
    cpu_share: float
    """Processor time of driver and guard, as a share of one core."""
    emulator_cpu_share: float
    realtime: bool
    fault: str
    largest: float
    """Largest torque on the bus, as a share of its limit."""
    over_limit: int
    load: list[float]
    """1-minute load averages of the machine."""


def time_hand(seconds: float, others: Sequence[int], *, side: str = "right", busy: bool = True) -> HandTiming:
    """Drive an emulated hand whose joints follow sines at 50 commands per second, and measure.

    Args:
        seconds: duration of the measurement after the warm-up [s].
        others: cores of the emulated hand, which stands for a separate device; the driver stays on
            the core of this process.
        side: side of the hand.
        busy: keep each of the ``others`` busy with one process at low priority.
    """
    hand = load_hand(side)
    bus = own_bus(hand)
    n = int((seconds + WARM_UP + 30.0) / 0.0025)
    arrival, answered = np.zeros(n), np.zeros(n)
    count = 0

    def note(turn: Turn) -> None:
        nonlocal count
        if count < n and driver.fault is None:
            arrival[count], answered[count] = link.arrival, link.answered
            count += 1

    plant = ("--hand", side, "--plant", "mujoco", "--emulator-priority", str(EMULATOR_PRIORITY))
    with EmulatedHandProcess(bus, *plant) as emulated, _burners(others if busy else ()):
        os.sched_setaffinity(emulated.process.pid, others)
        link = CanHand(side, bus, CanHandParams(realtime_priority=DRIVER_PRIORITY))
        driver = HandDriver(link, ServoLaw(hand, ServoParams(), GravityCompensation(hand)))
        driver.on_turn = note
        load: list[float] = []
        with driver:
            _command(driver, hand.home, WARM_UP, load)
            guard = link.status()["guard_pid"]
            before, first, sets = emulated.set(), count, (link.sets, link.missed)
            cpu, wall = time.process_time() + _cpu(guard), time.monotonic()
            _command(driver, hand.home, seconds, load)
            cpu, wall = time.process_time() + _cpu(guard) - cpu, time.monotonic() - wall
            after, last, sets = emulated.set(), count, (link.sets - sets[0], link.missed - sets[1])
            fault = str(driver.fault or "")
        end = emulated.set()
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
        if t - looked > LOAD_PERIOD:
            looked = t
            load.append(os.getloadavg()[0])
        k += 1
        time.sleep(max(0.0, start + k * COMMAND_PERIOD - time.monotonic()))


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
    """Return the processor time of a process [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
