"""Plants behind emulated hands, and the program that runs one in real time."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import select
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dexstack.config import make_params
from dexstack.errors import ConfigError
from dexstack.hand.params import BusParams
from dexstack.model import HAND_NAMES
from dexstack.model.hand import HandModel, load_hand
from dexstack.process.realtime import make_realtime

LARGEST_LAG = 0.01
"""Wall time that the emulator may lag behind and still catch up [s]. It skips a longer pause: a
burst of frames, or a plant that catches up under one torque, would look like a broken hand."""


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


PLANTS = {"standing": StandingPlant, "swept": SweptPlant}
"""Plants without an object."""


def emulated_plant(name: str, hand: HandModel, obj: str) -> Any:
    """Return the plant of that name behind a hand; raises ConfigError for an unknown object."""
    if name in PLANTS:
        return PLANTS[name](hand.home, hand.lower, hand.upper)
    from dexstack.plants.mujoco import MujocoPlant
    from dexstack.model.objects import load_object

    return MujocoPlant(hand, load_object(obj))


def run_plant(
    loop: Any, plant: Any, until: Callable[[], bool], every: Callable[[], None] = lambda: None
) -> None:
    """Run a plant behind an emulated hand in real time, in steps of the servo's period, until
    ``until()``; ``every`` is called once per step."""
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


def start_arguments(
    family: str, default: str, blocks: Sequence[type], argv: Sequence[str] | None
) -> tuple[list[Any], HandModel, Any]:
    """Parse the arguments of an emulator's program.

    Args:
        family: of the hands that it emulates.
        default: name of the default hand.
        blocks: parameter blocks whose fields are arguments.
        argv: the arguments; None: those of the process.

    Returns:
        The filled blocks, the hand's model and the plant.

    Raises:
        ConfigError: invalid arguments, an unknown hand or object, or a hand of another family.
    """
    parser = argparse.ArgumentParser(prog=f"dexstack.hand.emulated.{family}")
    parser.add_argument("--hand", default=default, help=HAND_NAMES)
    parser.add_argument("--plant", default="mujoco", choices=("mujoco", *PLANTS), help="behind the hand")
    parser.add_argument("--object", default="cube", help="object of the mujoco plant")
    for f in {f.name: f for block in blocks for f in dataclasses.fields(block)}.values():
        parser.add_argument(f"--{f.name.replace('_', '-')}", **_argument(f), help=f.metadata["doc"])
    args = vars(parser.parse_args(argv))
    filled = [make_params(block, args, ignore_unknown=True) for block in blocks]
    hand = load_hand(args["hand"])
    if hand.family != family:
        raise ConfigError(
            f"the hand '{hand.name}' is of the family '{hand.family}', this emulator is for '{family}'"
        )
    return filled, hand, emulated_plant(args["plant"], hand, args["object"])


def _argument(f: dataclasses.Field) -> dict[str, Any]:
    if isinstance(f.default, bool):
        return {"action": "store_true"}
    if isinstance(f.default, tuple):
        return {"type": type(f.default[0]), "nargs": len(f.default), "default": f.default}
    return {"type": type(f.default), "default": f.default}


def run_program(
    start: Callable[[], tuple[Any, Any, BusParams]],
    connect: Callable[[Any, BusParams], Any],
    introduce: Callable[[Any, BusParams], Mapping[str, Any]],
) -> int:
    """Run an emulated hand as a program until standard input ends. Each line of JSON there changes
    its faults and is answered by its state.

    Args:
        start: returns firmware, plant and bus.
        connect: returns the loop between firmware and bus.
        introduce: returns values of the first line of output.

    Returns:
        The exit code of the process.
    """
    try:
        hand, plant, bus = start()
        loop = connect(hand, bus)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    if hand.params.emulator_priority:
        make_realtime(hand.params.emulator_priority)
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
            **hand.state(),
            "time": time.monotonic(),
            "cpu_s": time.process_time(),
            "q": plant.joint_position.tolist(),
        }
        print(json.dumps(state), flush=True)

    print(json.dumps({"ready": True, **introduce(hand, bus)}), flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        run_plant(loop, plant, lambda: ended, look)
    loop.close()
    return 0
