"""Fixtures of the hand tests: a bus, emulated hands and drivers on it."""

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dexstack.hand.allegro.can_hand import CanHand
from dexstack.hand.params import BusParams, CanHandParams
from dexstack.hand.servo import ServoLaw
from dexstack.hand.watch import WatchParams
from dexstack.model.gravity import GravityCompensation
from dexstack.process.realtime import drop_realtime
from tests.dexstack.hand.emulated import HAND, PATIENT, SERVO, Emulator, Watch

_channels = itertools.count()


@pytest.fixture(autouse=True)
def ordinary_scheduling() -> Iterator[None]:
    """A driver puts its process under real-time scheduling where it may; the other tests of this
    process need not know."""
    yield
    drop_realtime()


@pytest.fixture
def bus() -> BusParams:
    """A bus that no other test uses."""
    return BusParams(
        "udp_multicast", f"239.{74 + os.getpid() % 100}.{os.getpid() // 100 % 250}.{1 + next(_channels)}:6300"
    )


@pytest.fixture
def emulator(bus: BusParams) -> Iterator[Callable[..., Emulator]]:
    """Starts emulated hands on the test's bus; every torque frame they saw was within its limit."""
    started: list[Emulator] = []

    def make(*arguments: str) -> Emulator:
        started.append(Emulator(bus, *arguments))
        return started[-1]

    yield make
    for one in started:
        one.close()


@pytest.fixture
def driver(bus: BusParams) -> Callable[..., Watch]:
    """Makes drivers on the test's bus; use them in a with statement."""

    def make(**params: Any) -> Watch:
        link = CanHand(
            "right", bus, CanHandParams(**{"calibration_dir": "/nonexistent", **PATIENT, **params})
        )
        return Watch(
            link, ServoLaw(HAND, SERVO, GravityCompensation(HAND), WatchParams(frozen_ticks=1_000_000))
        )

    return make
