"""Memory of a tick: it keeps nothing, and the servo law takes little.

numpy's calls with ``out=`` allocate an iterator where arrays are broadcast, masked or reduced, a few
hundred bytes for the time of the call; results (angles, torques, target, speed) are new arrays.
"""

import gc
import sys
import tracemalloc

import numpy as np

from dexstack.hand.servo import ServoLaw, ServoMode, ServoParams
from dexstack.hand.watch import UNWATCHED, WatchParams
from dexstack.model.gravity import GravityCompensation
from tests.dexstack.hand.emulated import HAND, PUSH
from tests.dexstack.hand.stepped import PERIOD
from tests.dexstack.hand.wired import Driven, computer

AT_ONCE = 4096
"""Most that a step may hold at any moment beyond what it held at its beginning [bytes]."""


def test_a_turn_keeps_no_memory():
    """Nothing grows, and nothing is left to a garbage collection."""
    with Driven(computer()) as d:
        d.push(0.3)
        gc.collect()
        gc.disable()
        try:
            blocks = []
            for _ in range(3):
                for _ in range(100):
                    d.command(PUSH)
                    d.turn(PERIOD)
                blocks.append(sys.getallocatedblocks())
            assert max(np.diff(blocks)) < 20, f"{np.diff(blocks)} blocks more after 100 turns"
        finally:
            gc.enable()


def test_a_step_of_the_servo_takes_little():
    servo = ServoLaw(HAND, ServoParams(), GravityCompensation(HAND), WatchParams(frozen_ticks=UNWATCHED))
    servo.step(HAND.home, 0.0)
    worst = 0
    tracemalloc.start()
    try:
        for k in range(1, 400):
            servo.set_command(PUSH, k * PERIOD)
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            servo.step(HAND.home, k * PERIOD)
            if k > 200:  # numpy keeps a few small blocks for the next array; now it has them
                worst = max(worst, tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    assert servo.mode is ServoMode.TRACK and worst < AT_ONCE, f"{worst} bytes at once"
