"""Motion of the fingers that excites the quantities to identify: every joint swings about the pose in
which the object lies, at its own frequencies.

Reversals show dry friction, fast motion damping, lag the motors and the delay, and pushing the
object its mass and friction. The motion keeps the joints' limits of position and speed, begins and
ends smoothly, and is first rehearsed in simulation: no joint may saturate or lag, and the object
must not fall, also on surfaces other than the nominal one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dexstack.errors import ConfigError
from dexstack.hand.servo import ServoParams
from dexstack.hand.trajectory import Path, Waypoints
from dexstack.model.hand import HandModel
from dexstack.plants import make_plant
from dexstack.tasks.base import NOMINAL_WORLD, Task, World

SWINGS = (0.3, 0.2, 0.15, 0.1, 0.06)
"""Amplitudes that are tried, the largest first, since larger swings are more informative [rad]."""
RHYTHM = (2.0, 8.0)
"""Range of a joint's two frequencies [rad/s]: slow enough for the servo, fast enough to distinguish
lag from stiffness."""
APPROACH, EASE = 2.0, 1.0
"""Time to the first point, and to and from the full amplitude [s]."""
POINTS = 0.04
"""Time between two points [s]."""
MARGIN = 0.03
"""Margin to the joint limits [rad]."""
WORLDS = NOMINAL_WORLD, World(friction=0.4), World(mass=2.0, friction=1.3)
"""Worlds in which a motion is rehearsed."""
BEHIND, TORQUE = 0.25, 0.9
"""Largest lag of a joint [rad], and largest share of its torque limit."""


@dataclass(frozen=True)
class Rehearsal:
    """Result of a motion in simulation."""

    moved: float
    """Largest distance of the object from its start [m]."""
    behind: float
    """Largest distance of a joint from its target [rad]."""
    torque: float
    """Largest share of a joint's torque limit that its servo requested."""
    trip: str
    """Reason for a trip of the servo; empty without one."""
    dropped: bool

    @property
    def why_not(self) -> str:
        """Reason to reject the motion; empty without one."""
        if self.trip:
            return f"the servo trips: {self.trip}"
        if self.dropped:
            return "the object falls"
        if self.behind > BEHIND:
            return f"a joint stays {self.behind:.2f} rad behind"
        return f"a joint needs {100 * self.torque:.0f} % of its torque" if self.torque > TORQUE else ""


def swinging(hand: HandModel, rest: np.ndarray, swing: float, seconds: float, seed: int = 0) -> Waypoints:
    """Return the motion of all joints about a pose, each as the sum of two sines.

    Args:
        rest: (N,) [rad].
        swing: amplitude [rad], less where a joint's range is narrower.
        seconds: duration of the swings [s].
        seed: draws frequencies and phases.
    """
    rng = np.random.default_rng(seed)
    low, high = hand.lower + MARGIN, hand.upper - MARGIN
    reach = np.minimum(swing, 0.5 * (high - low))
    centre = np.clip(rest, low + reach, high - reach)
    t = np.arange(0.0, seconds + POINTS / 2, POINTS)
    rate, phase = rng.uniform(*RHYTHM, (2, len(centre))), rng.uniform(0.0, 2.0 * np.pi, (2, len(centre)))
    waves = 0.5 * np.sin(t[:, None, None] * rate + phase).sum(axis=1)
    ease = np.clip(np.minimum(t, t[-1] - t) / EASE, 0.0, 1.0)
    positions = centre + reach * (ease**2 * (3.0 - 2.0 * ease))[:, None] * waves
    velocities = np.gradient(positions, t, axis=0)
    velocities[[0, -1]] = 0.0
    return Waypoints(tuple(hand.joint_names), APPROACH + t, positions, velocities)


def rehearse(task: Task, servo: ServoParams, motion: Waypoints, world: World = NOMINAL_WORLD) -> Rehearsal:
    """Simulate a motion in MuJoCo from the task's start."""
    believed, actual = task.setup(), task.setup(world)
    plant, law = make_plant("mujoco", actual.robot, actual.obj), task.servo(believed.robot, servo)
    path = Path(believed.robot, motion, believed.rest)
    start = actual.start.pose_WO
    plant.reset(believed.rest, start)
    law.reset()
    law.enable()
    moved = behind = torque = 0.0
    dropped, ticks, tau = False, 0, np.zeros(len(believed.rest))
    for k in range(round(path.seconds / plant.dt)):
        t = k * plant.dt
        if t >= ticks * servo.period - 1e-9:
            ticks += 1
            q, target = np.array(plant.joint_position), path(t)
            law.set_command(target, t)
            tau = law.step(q, t).tau
            behind = max(behind, float(np.abs(target - q).max()))
            torque = max(torque, float(np.abs(tau / believed.robot.effort).max()))
            moved = max(moved, float(np.linalg.norm(plant.pose_WO[:3] - start[:3])))
            if dropped := task.dropped(plant.pose_WO, actual.start):
                break
        plant.step(tau)
    return Rehearsal(moved, behind, torque, str(law.trip or ""), dropped)


def excitation(
    task: Task, servo: ServoParams, seconds: float, say: Callable[[str], Any] = lambda text: None
) -> Waypoints:
    """Return the motion of the largest amplitude that passes all rehearsals.

    Args:
        seconds: duration of the swings [s].
        say: called with lines of progress.

    Raises:
        ConfigError: no amplitude passes.
    """
    scene = task.setup()
    for swing in SWINGS:
        motion = swinging(scene.robot, scene.rest, swing, seconds)
        Path(scene.robot, motion, scene.rest)
        against = next(filter(None, (rehearse(task, servo, motion, world).why_not for world in WORLDS)), "")
        say(f"joints swing by {swing:g} rad: {against or 'the rehearsal passed'}")
        if not against:
            return motion
    raise ConfigError(
        f"no swing of the joints about the start of '{scene.obj.name}' is safe: with {SWINGS[-1]:g} rad "
        f"{against}"
    )
