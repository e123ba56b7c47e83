"""What a tick of the servo takes from the heap while it runs: nothing that stays, and little that
goes.

numpy's calls with ``out=`` still take an iterator where arrays are broadcast, masked or reduced, a
few hundred bytes each for the time of the call; what is handed out (angles, torques, target, speed)
is the caller's to keep and so a new array each time. Beyond the driver python-can makes a
``can.Message`` for every frame, eight of them in a tick.
"""

from __future__ import annotations

import gc
import inspect
import statistics
import tracemalloc
from collections import deque

import can
from emulated import HAND, PUSH
from wired import PERIOD, computer

from dexstack.hand.allegro.bus import CanBus
from dexstack.hand.allegro.can_hand import CanHand
from dexstack.hand.allegro.protocol import Frame
from dexstack.hand.driver import HandDriver
from dexstack.hand.params import BusParams, CanHandParams
from dexstack.hand.servo import ServoLaw, ServoMode, ServoParams
from dexstack.model.gravity import GravityCompensation

TICKS = 600
AT_ONCE = 4096
"""Most that a tick may hold at any moment beyond what it held at its beginning [bytes]."""
STAYS = 8
"""Bytes per tick that may be left, in the mean: a counter that grows beyond a cached whole
number."""


def held(action, *arguments) -> int:
    """Most bytes that ``action`` holds at once beyond what there was before."""
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    action(*arguments)
    return tracemalloc.get_traced_memory()[1] - before


class Played(deque):
    """A bus on which a recording is played and whatever is sent is forgotten."""

    sent = 0

    def receive(self, timeout: float):
        return self.popleft() if self else None

    def send(self, frame: Frame) -> None:
        self.sent += 1

    def pending(self) -> bool:
        return False

    def close(self) -> None:
        pass


def test_a_tick_takes_little_and_keeps_nothing():
    """From the four frames of a set of angles to the four torque frames that answer it, with
    gravity and watch."""
    on = computer(encoder_noise=1e-4)
    params = CanHandParams(realtime_priority=0, calibration_dir="/nonexistent")
    link = CanHand("right", BusParams("virtual", "played"), params, on)
    driver = HandDriver(link, ServoLaw(HAND, ServoParams(), GravityCompensation(HAND)))
    driver.start()
    bus, position = link._bus, []
    for _ in range(TICKS):  # as the hand answers; recorded
        on.sleep(PERIOD)
        position.append([bus.receive(0.0) for _ in range(len(bus.inbox))])
    link._bus = played = Played()
    stamp = on.t

    def tick(k: int) -> None:
        on.t = stamp + PERIOD * k
        played.extend(position[k])
        driver.command(PUSH)
        driver.turn(0.0)

    for k in range(100):
        tick(k)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for k in range(100, 200):  # numpy keeps a few small blocks for the next array; now it has them
            tick(k)
        begin, sent = tracemalloc.get_traced_memory()[0], played.sent
        worst = 0
        for k in range(200, TICKS):
            worst = max(worst, held(tick, k))
        left = (tracemalloc.get_traced_memory()[0] - begin) / (TICKS - 200)
    finally:
        tracemalloc.stop()
        gc.enable()
    assert (
        driver.fault is None
        and driver.servo.mode is ServoMode.TRACK
        and played.sent - sent >= 4 * (TICKS - 200)
    ), "that is a tick"
    assert worst < AT_ONCE, f"{worst} bytes at once"
    assert left < STAYS, f"{left:.1f} bytes per tick are left"


def test_what_python_can_takes_for_a_frame(monkeypatch):
    """A ``can.Message`` and the bytes in it, given back when it is sent: the share of a tick that
    is not ours."""
    sent = []
    monkeypatch.setattr(
        "dexstack.hand.allegro.bus._open",
        lambda params: type("Null", (), {"send": lambda self, m: sent.append(m.dlc)})(),
    )
    bus = CanBus(BusParams("socketcan", "can0"))
    frame = Frame(0x180, bytes(8))
    send = inspect.unwrap(CanBus.send)  # the tests' check of argument types takes more than the rest
    send(bus, frame)

    def usual(action) -> float:
        """In the median: the first calls after a garbage collection also fill the interpreter's
        free lists again."""
        return statistics.median(held(action) for _ in range(21))

    tracemalloc.start()
    try:
        ours = usual(lambda: send(bus, frame))
        message = usual(lambda: can.Message(arbitration_id=0x180, data=bytes(8), is_extended_id=False, dlc=8))
    finally:
        tracemalloc.stop()
    assert sent == [8] * 22 and message < 512 and ours < message + 128, (
        f"{ours} bytes, {message} of them python-can's"
    )
