"""What every plant (physics engine) offers to the closed loop and to the simulator node."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Plant(Protocol):
    """A hand and one free object, advanced in fixed steps by joint torques.

    Passive joint damping belongs to the plant; gravity compensation, PD and torque limits belong to the servo law. Arrays returned
    by the getters are copies. Twist order: linear velocity in world, angular velocity in body axes.
    """

    dt: float
    """Length of one step [s]."""

    @property
    def time(self) -> float:
        """Simulated time since the last reset [s]."""

    @property
    def joint_position(self) -> np.ndarray:
        """(16,) [rad]"""

    @property
    def joint_velocity(self) -> np.ndarray:
        """(16,) [rad/s]"""

    @property
    def pose_WO(self) -> np.ndarray:
        """(7,) object position [m] and quaternion wxyz."""

    @property
    def twist_WO(self) -> np.ndarray:
        """(6,) object velocity: linear [m/s] in world, angular [rad/s] in body axes."""

    def reset(self, q_hand: np.ndarray, pose_WO: np.ndarray, v: np.ndarray | None = None) -> None:
        """Start again at time zero from joint angles (16,), object pose (7,) and, unless at rest, velocity (22,): joints, then twist."""

    def step(self, tau: np.ndarray) -> None:
        """Advance by ``dt`` under the joint torques ``tau`` (16,) [N m]."""
