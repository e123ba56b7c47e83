"""A motion of the fingers that tells what a plant has: every joint swings about the pose in which
the object lies, in its own rhythm.

A joint that turns round shows dry friction, one that is fast its damping, one that lags the motors
and the delay; what it pushes shows mass and friction. The motion keeps inside the joints' limits of
place and speed, begins and ends slowly, and is rehearsed in simulation before anybody plays it:
there no joint may need all its torque or stay behind, and the object must stay where it is held,
also on other surfaces than believed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dexstack.errors import ConfigError
from dexstack.hand.servo import ServoParams
from dexstack.hand.trajectory import Motion, Path
from dexstack.plants import make_plant
from dexstack.tasks.base import AS_BELIEVED, Task, World

if TYPE_CHECKING:
    from dexstack.model.hand import HandModel

SWINGS = (0.3, 0.2, 0.15, 0.1, 0.06)
"""Amplitudes that are tried, the largest first [rad]: the farther joints go, the more they tell."""
RHYTHM = (2.0, 8.0)
"""Of a joint's two swings [rad/s]: slow enough for the servo to follow, fast enough to tell lag
from stiffness."""
APPROACH, EASE = 2.0, 1.0
"""Time to the first point, and to full swing and from it [s]."""
POINTS = 0.04
"""Time between two points [s]."""
MARGIN = 0.03
"""From the joint limits [rad]."""
WORLDS = AS_BELIEVED, World(friction=0.4), World(mass=2.0, friction=1.3)
"""In which a motion is rehearsed."""
BEHIND, TORQUE = 0.25, 0.9
"""A joint may be so far from its target [rad], and need this share of its largest torque."""


@dataclass(frozen=True)
class Rehearsal:
    """What a motion did in simulation."""

    moved: float
    """How far the object was from its start at most [m]."""
    behind: float
    """Of the joint that was farthest from its target [rad]."""
    torque: float
    """Largest share of a joint's torque limit that its servo asked for."""
    trip: str
    """Why the servo took the torque away; empty if it did not."""
    dropped: bool

    @property
    def why_not(self) -> str:
        """Why nobody should play it; empty if nothing speaks against it."""
        if self.trip:
            return f"the servo trips: {self.trip}"
        if self.dropped:
            return "the object falls"
        if self.behind > BEHIND:
            return f"a joint stays {self.behind:.2f} rad behind"
        return f"a joint needs {100 * self.torque:.0f} % of its torque" if self.torque > TORQUE else ""


def swinging(hand: HandModel, rest: np.ndarray, swing: float, seconds: float, seed: int = 0) -> Motion:
    """All joints about a pose, each as the sum of two sines.

    Args:
        rest: (N,) [rad].
        swing: amplitude [rad], less where a joint's range is narrower.
        seconds: from the first swing to the last [s].
        seed: draws rhythms and phases.
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
    return Motion(tuple(hand.joint_names), APPROACH + t, positions, velocities)


def rehearse(task: Task, servo: ServoParams, motion: Motion, world: World = AS_BELIEVED) -> Rehearsal:
    """Play a motion in MuJoCo from the task's start."""
    believed, actual = task.scene(), task.scene(world)
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
) -> Motion:
    """The largest swing that nothing speaks against in any rehearsal.

    Args:
        seconds: how long the joints swing [s].
        say: progress.

    Raises:
        ConfigError: something speaks against all of them.
    """
    scene = task.scene()
    for swing in SWINGS:
        motion = swinging(scene.robot, scene.rest, swing, seconds)
        Path(scene.robot, motion, scene.rest)
        against = next(filter(None, (rehearse(task, servo, motion, world).why_not for world in WORLDS)), "")
        say(f"joints swing by {swing:g} rad: {against or 'rehearsed, nothing speaks against it'}")
        if not against:
            return motion
    raise ConfigError(
        f"no swing of the joints about the start of '{scene.obj.name}' is safe: with {SWINGS[-1]:g} rad {against}"
    )
