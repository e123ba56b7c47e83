"""Memory that a tick of the servo allocates: nothing that stays, and little that is freed again.

numpy's calls with ``out=`` allocate an iterator where arrays are broadcast, masked or reduced, a few
hundred bytes for the time of the call; results (angles, torques, target, speed) are new arrays.
python-can makes a ``can.Message`` for every frame, eight of them in a tick.
"""

import gc
import tracemalloc
from collections import deque

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


class Played(CanBus):
    """A bus that passes frames on, until it plays a recording and discards what is sent."""

    def __init__(self, bus: CanBus) -> None:
        self.bus: CanBus | None = bus
        self.frames: deque = deque()
        self.sent = 0

    def receive(self, timeout: float):
        if self.bus is not None:
            return self.bus.receive(timeout)
        return self.frames.popleft() if self.frames else None

    def send(self, frame: Frame) -> None:
        self.sent += 1
        if self.bus is not None:
            self.bus.send(frame)

    def flush(self) -> None:
        self.bus.flush()

    def pending(self) -> bool:
        return False

    def close(self) -> None:
        pass


def test_a_tick_takes_little_and_keeps_nothing():
    """From the four frames of a set of angles to the four torque frames that answer it, with
    gravity and watch."""
    on = computer(encoder_noise=1e-4)
    open_bus, opened = on.open_bus, []
    on.open_bus = lambda params: opened.append(Played(open_bus(params))) or opened[-1]
    params = CanHandParams(realtime_priority=0, calibration_dir="/nonexistent")
    link = CanHand("right", BusParams("virtual", "played"), params, on)
    driver = HandDriver(link, ServoLaw(HAND, ServoParams(), GravityCompensation(HAND)))
    driver.start()
    (played,), position = opened, []
    for _ in range(TICKS):  # as the hand answers; recorded
        on.sleep(PERIOD)
        position.append([played.receive(0.0) for _ in range(len(played.bus.inbox))])
    played.bus = None
    stamp = on.t

    def tick(k: int) -> None:
        on.t = stamp + PERIOD * k
        played.frames.extend(position[k])
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
