"""How a simulated sensor sees the object: late and noisy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dexstack.config import param
from dexstack.geometry.rotations import quaternion_product


@dataclass(frozen=True)
class PoseSensor:
    """The object pose a controller gets, of the pose there was."""

    pose_delay: float = param(0.0, "age of object pose and joint angles when the controller gets them [s]", 0.0, 1.0)
    pose_noise_position: float = param(0.0, "standard deviation of each coordinate of the object position [m]", 0.0, 0.1)
    pose_noise_rotation: float = param(0.0, "standard deviation of each component of the object's rotation vector [rad]", 0.0, 1.0)

    def measure(self, pose_WO: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A noisy copy of pose (7,); exactly the pose, and no number drawn, where there is no noise."""
        measured = np.array(pose_WO)
        if self.pose_noise_position > 0.0:
            measured[:3] += rng.normal(0.0, self.pose_noise_position, 3)
        if self.pose_noise_rotation > 0.0:
            half = rng.normal(0.0, self.pose_noise_rotation, 3) / 2
            angle = np.linalg.norm(half)
            measured[3:] = quaternion_product(measured[3:], np.concatenate([[np.cos(angle)], np.sinc(angle / np.pi) * half]))
        return measured
