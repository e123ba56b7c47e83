"""Processes that die or hang: the guard takes the torque away. How soon is for ``dexstack bench
faults``, on a machine fit for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from emulated import until

from dexstack.hand.link import FaultKind, HandFault

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


def test_the_emulator_dies_and_another_one_comes(emulator, driver):
    hand = emulator()
    with driver() as d:
        d.push(0.15)
        hand.kill()
        until(lambda: d.fault, 5.0, "the fault to be reported")
        assert d.fault.kind in (
            FaultKind.FEEDBACK_LOST,
            FaultKind.NO_ANSWER,
        )  # whichever limit the machine lets pass first
        with pytest.raises(HandFault, match="no hand on"):
            d.in_thread(d.enable)
        emulator()
        d.in_thread(d.enable)
        assert d.fault is None


DRIVER = """
import sys, time
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


def test_the_driving_process_is_killed_while_the_bus_is_off(emulator, bus):
    """The guard outlives it and insists: servo off when frames pass again."""
    hand = emulator()
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, bus.channel],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    guard = int(process.stdout.readline())
    until(lambda: not hand.set()["limp"], 5.0, "the hand to be pushed")
    hand.set(bus_off=True)
    time.sleep(0.05)
    process.kill()
    process.wait()
    process.stdout.close()
    time.sleep(0.5)
    assert not hand.set()["limp"], "no frame can reach it"
    start = time.monotonic()
    hand.set(bus_off=False)
    hand.wait_limp(start)
    until(lambda: not hand.set()["servo"], 5.0, "the servo to be off")
    until(lambda: not os.path.exists(f"/proc/{guard}"), 5.0, "the guard to leave when its work is done")


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


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT])
def test_the_driving_process_is_killed_or_hangs(emulator, bus, number):
    hand = emulator()
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, bus.channel],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        guard = int(process.stdout.readline())
        until(lambda: not hand.set()["limp"], 5.0, "the hand to be pushed")
        start = time.monotonic()
        process.send_signal(number)
        hand.wait_limp(start)
        until(lambda: not hand.set()["servo"], 5.0, "the servo to be off")
        if number == signal.SIGSTOP:
            time.sleep(0.3)
            process.send_signal(signal.SIGCONT)
            assert process.stdout.readline().strip() == "guard", "the driver must learn what the guard did"
            until(lambda: not hand.set()["limp"], 5.0, "the hand to be pushed again after enable")
        else:
            process.wait(5.0)
            until(lambda: not os.path.exists(f"/proc/{guard}"), 5.0, "the guard to leave with its driver")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    until(lambda: hand.set()["limp"], 5.0, "the hand to be limp in the end")
