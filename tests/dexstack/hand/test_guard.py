"""Processes that die or hang: the guard takes the torque away. How soon is for ``dexstack bench
faults``, on a machine fit for it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from dexstack.hand.link import FaultKind
from tests.dexstack.hand.emulated import Emulator, until

pytestmark = pytest.mark.slow


def test_the_guard_dies(emulator, driver):
    hand = emulator()
    with driver() as d:
        d.push(0.15)
        start, guard = time.monotonic(), d.link.status()["guard_pid"]
        os.kill(guard, signal.SIGKILL)
        hand.wait_limp(start)
        until(lambda: d.fault, 2.0, "the fault to be reported")
        assert d.fault.kind is FaultKind.GUARD and d.fault.remedy
        d.in_thread(d.enable)
        assert d.fault is None and d.link.status()["guard_pid"] not in (0, guard)


DRIVER = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs inherit as ignored
from dexstack.hand.allegro.can_hand import CanHand
from dexstack.hand.driver import HandDriver
from dexstack.hand.params import BusParams, CanHandParams
from dexstack.hand.servo import ServoLaw, ServoParams
from dexstack.model.hand import load_hand
hand = load_hand("right")
link = CanHand("right", BusParams("udp_multicast", sys.argv[1]), CanHandParams())
with HandDriver(link, ServoLaw(hand, ServoParams())) as d:
    print(d.link.status()["guard_pid"], flush=True)
    while True:
        d.command(hand.home + 0.3 * (hand.home < hand.upper - 0.31))
        time.sleep(0.02)
        if d.fault is not None:
            print(d.fault.kind.value, flush=True)
            while d.fault is not None:
                try:
                    time.sleep(0.1)
                    d.in_thread(d.enable)
                except Exception:
                    pass
"""


class Driving(NamedTuple):
    """A process that pushes an emulated hand, and its guard."""

    hand: Emulator
    process: subprocess.Popen
    guard: int

    def wait_end(self) -> None:
        """The servo must go off, and the guard leave when its work is done."""
        until(lambda: not self.hand.set()["servo"], 5.0, "the servo to be off")
        until(lambda: not os.path.exists(f"/proc/{self.guard}"), 5.0, "the guard to leave")


@pytest.fixture
def driving(emulator, bus) -> Iterator[Driving]:
    hand = emulator()
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, bus.channel],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    guard = int(process.stdout.readline())
    until(lambda: not hand.set()["limp"], 5.0, "the hand to be pushed")
    yield Driving(hand, process, guard)
    process.kill()
    process.wait()
    process.stdout.close()
    until(lambda: hand.set()["limp"], 5.0, "the hand to be limp in the end")


def test_the_driving_process_is_killed_while_the_bus_is_off(driving):
    """The guard outlives it: servo off when frames pass again."""
    driving.hand.set(bus_off=True)
    time.sleep(0.05)
    driving.process.kill()
    time.sleep(0.5)
    assert not driving.hand.set()["limp"], "no frame can reach it"
    start = time.monotonic()
    driving.hand.set(bus_off=False)
    driving.hand.wait_limp(start)
    driving.wait_end()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_driving_process_is_killed(driving, number):
    start = time.monotonic()
    driving.process.send_signal(number)
    driving.hand.wait_limp(start)
    driving.process.wait(60.0)
    driving.wait_end()


def test_the_driving_process_hangs(driving):
    start = time.monotonic()
    driving.process.send_signal(signal.SIGSTOP)
    driving.hand.wait_limp(start)
    until(lambda: not driving.hand.set()["servo"], 5.0, "the servo to be off")
    time.sleep(0.3)
    driving.process.send_signal(signal.SIGCONT)
    assert driving.process.stdout.readline().strip() == "guard", "the driver must learn what the guard did"
    until(lambda: not driving.hand.set()["limp"], 5.0, "the hand to be pushed again after enable")


KEEPS_THE_PIPE = """
    import os
    if os.fork() == 0:  # the child has the pipe to the guard, too
        time.sleep(20.0)
        os._exit(0)
"""


def test_a_killed_driver_is_noticed_before_its_files_are_closed(emulator, bus):
    """The kernel frees the memory of a killed process before its pipes break; here one never breaks."""
    hand = emulator()
    head, loop, tail = DRIVER.partition("    while True:")
    process = subprocess.Popen(
        [sys.executable, "-c", head + KEEPS_THE_PIPE + loop + tail, bus.channel],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        guard = int(process.stdout.readline())
        until(lambda: not hand.set()["limp"], 5.0, "the hand to be pushed")
        start = time.monotonic()
        process.kill()
        hand.wait_limp(start)
        until(lambda: not os.path.exists(f"/proc/{guard}"), 5.0, "the guard to leave with its driver")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
