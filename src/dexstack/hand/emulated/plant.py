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
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from dexstack.config import make_params
from dexstack.errors import ConfigError
from dexstack.hand.params import BusParams
from dexstack.model import HAND_NAMES
from dexstack.model.hand import HandModel, load_hand
from dexstack.model.objects import ObjectModel, load_object
from dexstack.model.scene import build_scene
from dexstack.process.realtime import make_realtime

LARGEST_LAG = 0.01
"""Wall time that the emulator may lag behind and still catch up [s]. It skips a longer pause: a
burst of frames, or a plant that catches up under one torque, would look like a broken hand."""


STEP = 0.001
"""Length of one physics step [s]."""
STIFF = (2.0 * STEP, 1.0), (0.9999, 0.9999, 1e-3, 0.5, 2.0)
"""solref and solimp of joint limits and dry friction: MuJoCo's own give way by degrees to joints as
light as these."""
ROTOR = 2e-4
"""Inertia of a motor behind backlash [kg·m²]."""


@dataclass(frozen=True)
class HandPlantParams:
    """Differences of a hand from its model; arrays are per joint (N,) or one value for all."""

    gravity: bool = True
    acceleration: Any = None
    """Gravity in the hand's world [m/s²]; None: along -z."""
    stops: bool = True
    """Joints end at their limits."""
    dry_friction: Any = 0.0
    """[N·m]"""
    backlash: float = 0.0
    """Between motor with encoder, and link [rad]."""
    damping: Any = 1.0
    """As a share of the model's."""
    strength: Any = 1.0
    """Torque of the motors as a share of the command."""


WEIGHTLESS = HandPlantParams(gravity=False)
"""A hand whose joints stay where they are without torque."""


class HandPlant:
    """A hand in MuJoCo, with weight, dry friction and backlash; optionally with an object.

    Args:
        hand: the model, whose palm mount gives the direction of gravity.
        params: the differences from the model.
        obj: an object.
        pose_WO: its initial pose (x, y, z [m], quaternion wxyz).
    """

    dt = 0.003

    def __init__(
        self,
        hand: HandModel,
        params: HandPlantParams | None = None,
        obj: ObjectModel | None = None,
        pose_WO: np.ndarray | None = None,
    ) -> None:
        p = params or HandPlantParams()
        self.lower, self.upper = hand.lower, hand.upper
        n = hand.lower.size
        spec = build_scene(hand, obj, camera=False)
        plain = obj is None and not (p.gravity or p.backlash or np.any(p.dry_friction))
        self._steps = 1 if plain else round(self.dt / STEP)
        spec.option.timestep = self.dt / self._steps
        if not p.gravity:
            spec.option.gravity = np.zeros(3)
        elif p.acceleration is not None:
            spec.option.gravity = p.acceleration
        if obj is None:
            spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
        friction, damping = (np.broadcast_to(x, n) for x in (p.dry_friction, p.damping))
        for j, name in enumerate(hand.joint_names):
            joint = spec.joint(name)
            joint.damping = (damping[j] * hand.damping[j], 0.0, 0.0)
            joint.frictionloss = friction[j]
            joint.solref_friction, joint.solimp_friction = STIFF
            joint.solref_limit, joint.solimp_limit = STIFF
            joint.limited = p.stops
            if p.backlash:
                joint.armature = ROTOR
                joint.parent.add_joint(
                    name=f"{name}/play",
                    type=mujoco.mjtJoint.mjJNT_HINGE,
                    axis=joint.axis,
                    range=(-0.5 * p.backlash, 0.5 * p.backlash),
                    damping=(1e-3, 0.0, 0.0),
                    solref_limit=STIFF[0],
                    solimp_limit=STIFF[1],
                )
        self._model = spec.compile()
        self._data = mujoco.MjData(self._model)
        joints = [self._model.joint(name) for name in hand.joint_names]
        self._q = np.array([int(j.qposadr[0]) for j in joints])
        self._v = np.array([int(j.dofadr[0]) for j in joints])
        self._strength = np.broadcast_to(p.strength, n)
        self._data.qpos[self._q] = hand.home
        if obj is not None:
            self._data.qpos[-7:] = pose_WO
        mujoco.mj_forward(self._model, self._data)

    @property
    def time(self) -> float:
        return self._data.time

    @property
    def joint_position(self) -> np.ndarray:
        """Angles of the motors (n,) [rad]."""
        return self._data.qpos[self._q]

    @joint_position.setter
    def joint_position(self, q: np.ndarray) -> None:
        self._data.qpos[self._q], self._data.qvel[self._v] = q, 0.0

    @property
    def joint_velocity(self) -> np.ndarray:
        return self._data.qvel[self._v]

    def step(self, tau: np.ndarray) -> None:
        """Advance by ``dt`` under torques (n,) [N·m]."""
        self._data.qfrc_applied[self._v] = self._strength * tau
        mujoco.mj_step(self._model, self._data, self._steps)


class SweptPlant(HandPlant):
    """A hand whose joints a person moves from stop to stop while the servo is off."""

    rate = 0.25
    """[1/s]"""

    def step(self, tau: np.ndarray) -> None:
        super().step(tau)
        if not tau.any():
            share = 0.5 - 0.5 * np.cos(2.0 * np.pi * self.rate * self.time)
            self.joint_position = self.lower + share * (self.upper - self.lower)


PLANTS: dict[str, type[HandPlant]] = {"hand": HandPlant, "swept": SweptPlant}
"""Plants without an object."""


def emulated_plant(name: str, hand: HandModel, obj: str, params: HandPlantParams | None = None) -> Any:
    """Return the plant of that name behind a hand.

    Raises:
        ConfigError: an unknown object, or ``params`` for the plant ``mujoco``, which has none.
    """
    params = params or HandPlantParams()
    if name in PLANTS:
        return PLANTS[name](hand, params)
    if params != HandPlantParams():
        raise ConfigError(f"the plant '{name}' has no dry friction or backlash; use --plant hand")
    from dexstack.plants.mujoco import MujocoPlant

    return MujocoPlant(hand, load_object(obj))


def run_plant(loop: Any, plant: Any, goes_on: Callable[[], bool]) -> None:
    """Run a plant behind an emulated hand in real time, in steps of the servo's period, as long as
    ``goes_on()``."""
    period = max(plant.dt, 0.003)
    t = time.monotonic()
    while goes_on():
        loop.run_until(t, time.monotonic, plant.joint_position)
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
    parser.add_argument(
        "--dry-friction", type=float, default=0.0, help="of every joint of the plant hand [N·m]"
    )
    parser.add_argument(
        "--backlash", type=float, default=0.0, help="between motor and link of the plant hand [rad]"
    )
    for f in {f.name: f for block in blocks for f in dataclasses.fields(block)}.values():
        parser.add_argument(f"--{f.name.replace('_', '-')}", **_argument(f), help=f.metadata["doc"])
    args = vars(parser.parse_args(argv))
    filled = [make_params(block, args, ignore_unknown=True) for block in blocks]
    hand = load_hand(args["hand"])
    if hand.family != family:
        raise ConfigError(
            f"the hand '{hand.name}' is of the family '{hand.family}', this emulator is for '{family}'"
        )
    params = HandPlantParams(dry_friction=args["dry_friction"], backlash=args["backlash"])
    return filled, hand, emulated_plant(args["plant"], hand, args["object"], params)


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

    def answer() -> bool:
        """Answer a line of standard input; return False at its end."""
        if not select.select([sys.stdin], [], [], 0.0)[0]:
            return True
        line = sys.stdin.readline()
        if not line:
            return False
        now = time.monotonic()
        hand.change(json.loads(line), now)
        state = {
            **hand.state(),
            "time": now,
            "cpu_s": time.process_time(),
            "q": plant.joint_position.tolist(),
        }
        print(json.dumps(state), flush=True)
        return True

    print(json.dumps({"ready": True, **introduce(hand, bus)}), flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        run_plant(loop, plant, answer)
    loop.close()
    return 0
