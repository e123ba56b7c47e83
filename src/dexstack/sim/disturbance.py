"""Random pushes of the object."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dexstack.config import param
from dexstack.plants.base import Plant


@dataclass(frozen=True)
class Pushes:
    """Sudden changes of the object's velocity, each in a random horizontal direction."""

    push_interval: float = param(2.0, "time between two pushes [s]", 0.01, 1e6)
    push_speed: float = param(0.0, "change of the object's velocity by a push; 0: no pushes [m/s]", 0.0, 10.0)

    def due(self, before: float, now: float) -> bool:
        """Return whether a push falls between two times of a trial [s]; never at time 0."""
        return self.push_speed > 0.0 and max(before, 0.0) // self.push_interval < now // self.push_interval

    def push(self, plant: Plant, rng: np.random.Generator) -> None:
        """Push the object: reset the plant to the same positions and the changed velocity."""
        angle, twist = rng.uniform(-np.pi, np.pi), plant.twist_WO
        twist[:2] += self.push_speed * np.array([np.cos(angle), np.sin(angle)])
        plant.reset(plant.joint_position, plant.pose_WO, np.concatenate([plant.joint_velocity, twist]))
