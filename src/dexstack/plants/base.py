"""Protocols of plants (physics engines), for the closed loop and the simulator node."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from dexengines.report import Contact as Contact, Patch as Patch


@runtime_checkable
class Plant(Protocol):
    """A robot of N joints (a hand: 16) and one free object, advanced in fixed steps by joint
    torques (or forces).

    Passive joint damping belongs to the plant; gravity compensation, PD and torque limits belong to
    the servo law. Arrays returned by the getters are copies. Twist order: linear velocity in world,
    angular velocity in body axes.
    """

    dt: float
    """Length of one step [s]."""

    @property
    def time(self) -> float:
        """Simulated time since the last reset [s]."""

    @property
    def joint_position(self) -> np.ndarray:
        """(N,) [rad or m]"""

    @property
    def joint_velocity(self) -> np.ndarray:
        """(N,) [rad/s or m/s]"""

    @property
    def pose_WO(self) -> np.ndarray:
        """(7,) object position [m] and quaternion wxyz."""

    @property
    def twist_WO(self) -> np.ndarray:
        """(6,) object velocity: linear [m/s] in world, angular [rad/s] in body axes."""

    def reset(self, q_hand: np.ndarray, pose_WO: np.ndarray, v: np.ndarray | None = None) -> None:
        """Restart at time zero from joint positions (N,), object pose (7,) and velocity (N + 6,),
        joints before twist, zero if None."""

    def step(self, tau: np.ndarray) -> None:
        """Advance by ``dt`` under the joint torques ``tau`` (N,) [N m or N]."""


@runtime_checkable
class PatchPlant(Protocol):
    """A plant whose contact surfaces can be shown."""

    def patches(self) -> list[Patch]:
        """Return the contact surfaces of the last step, at the poses it began with."""


@runtime_checkable
class WatchedPlant(Protocol):
    """A plant that reports steps that cannot be trusted."""

    def trouble(self) -> str:
        """Return a sentence on failed steps since the last reset, or an empty string."""
