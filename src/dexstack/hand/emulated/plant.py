"""What is behind an emulated hand, whatever it speaks: plants, the program that runs one in real
time, and its arguments."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import select
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dexstack.errors import ConfigError

LARGEST_LAG = 0.01
"""Wall time by which the emulator may run behind and still catch up [s]. After a longer pause it
goes on as if there had been none: frames of one moment that come in a burst, or a plant that makes
up for it under one torque, would look like a hand that is broken."""


class StandingPlant:
    """16 joints that turn under their torques against friction and nothing else; no object. For
    tests of the bus and the driver."""

    dt = 0.003

    def __init__(self, q: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> None:
        self.joint_position, self.joint_velocity = q.copy(), np.zeros_like(q)
        self._lower, self._upper = lower, upper
        self.time = 0.0

    def step(self, tau: np.ndarray) -> None:
        self.time += self.dt
        self.joint_velocity = tau / 0.1  # viscous friction [N·m·s/rad] outweighs inertia
        self.joint_position = np.clip(
            self.joint_position + self.dt * self.joint_velocity, self._lower, self._upper
        )


class SweptPlant(StandingPlant):
    """The same in the hands of a person who moves every joint from stop to stop while the servo is
    off."""

    rate = 0.25
    """[1/s]"""

    def step(self, tau: np.ndarray) -> None:
        super().step(tau)
        if not tau.any():
            share = 0.5 - 0.5 * np.cos(2.0 * np.pi * self.rate * self.time)
            self.joint_position = self._lower + share * (self._upper - self._lower)


def run_plant(
    loop: Any, plant: Any, until: Callable[[], bool], every: Callable[[], None] = lambda: None
) -> None:
    """Run a plant behind an emulated hand in real time, in steps of the servo's period, until
    ``until()``."""
    period = max(plant.dt, 0.003)
    t = time.monotonic()
    while not until():
        loop.run_until(t, time.monotonic, plant.joint_position)
        every()
        goal = plant.time + period
        while plant.time < goal - 1e-9:
            plant.step(loop.hand.torque)
        t += period
        if time.monotonic() - t > LARGEST_LAG:
            t = time.monotonic()


PLANTS = {"standing": StandingPlant, "swept": SweptPlant}
"""Plants of the emulator's own, without an object."""


def emulated_plant(name: str, hand_name: str, obj: str, family: str) -> tuple[Any, str]:
    """The plant of that name behind a hand, and the hand's side.

    Raises:
        ConfigError: there is no such hand or object, or the hand is of another family.
    """
    from dexstack.model.hand import load_hand

    hand = load_hand(hand_name)
    if hand.family != family:
        raise ConfigError(
            f"this emulator is of hands of the family '{family}', the hand '{hand.name}' is of '{hand.family}'"
        )
    if name in PLANTS:
        return PLANTS[name](hand.home, hand.lower, hand.upper), hand.side
    from dexstack.model.objects import load_object
    from dexstack.plants.mujoco import MujocoPlant

    return MujocoPlant(hand, load_object(obj)), hand.side


def serve(loop: Any, plant: Any, introduction: Mapping[str, Any]) -> None:
    """Say who is there, then run until standard input ends; every line there is a change of faults,
    and is answered by the state."""
    ended = False

    def look() -> None:
        nonlocal ended
        if not select.select([sys.stdin], [], [], 0.0)[0]:
            return
        line = sys.stdin.readline()
        if not line:
            ended = True
            return
        loop.change(json.loads(line), time.monotonic())
        state = {
            **loop.hand.state(),
            "time": time.monotonic(),
            "cpu_s": time.process_time(),
            "q": plant.joint_position.tolist(),
        }
        print(json.dumps(state), flush=True)

    print(json.dumps({"ready": True, **introduction}), flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        run_plant(loop, plant, lambda: ended, look)


def add_fields(cls: type, parser: argparse.ArgumentParser) -> None:
    """An argument for every parameter of a block; those that two blocks share are added once."""
    known = parser._option_string_actions
    for f in dataclasses.fields(cls):
        if f"--{f.name.replace('_', '-')}" in known:
            continue
        kind = type(f.default)
        if kind is bool:
            parser.add_argument(f"--{f.name.replace('_', '-')}", action="store_true", help=f.metadata["doc"])
        elif kind is tuple:
            parser.add_argument(
                f"--{f.name.replace('_', '-')}",
                type=type(f.default[0]),
                nargs=len(f.default),
                default=f.default,
                help=f.metadata["doc"],
            )
        else:
            parser.add_argument(
                f"--{f.name.replace('_', '-')}", type=kind, default=f.default, help=f.metadata["doc"]
            )
