"""Interface of a robot for contact detection, planner and closed loop: a fixed base, chains of
joints, shapes, fingertips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from dexstack.model.kinematics import Kinematics
    from dexstack.model.urdf import Shape


@runtime_checkable
class Part(Protocol):
    """One body of a robot."""

    @property
    def name(self) -> str:
        """Name of its body in a scene, if it has one there."""

    @property
    def parent(self) -> int:
        """Index of the body that carries it."""

    @property
    def shapes(self) -> Sequence[Shape]:
        """Collision shapes, body frame."""


@runtime_checkable
class Robot(Protocol):
    """A hand, or balls. Joints are hinges [rad] or slides [m], ordered chain by chain; chains meet
    only in the object."""

    @property
    def name(self) -> str: ...

    @property
    def joint_names(self) -> tuple[str, ...]: ...

    @property
    def lower(self) -> np.ndarray:
        """(N,) joint limits [rad or m]."""

    @property
    def upper(self) -> np.ndarray: ...

    @property
    def damping(self) -> np.ndarray:
        """(N,) passive viscous damping of the joints [N m s/rad or N s/m]."""

    @property
    def effort(self) -> np.ndarray:
        """(N,) largest torque or force of the joints [N m or N]."""

    @property
    def torque(self) -> float:
        """Share of the requested joint torques or forces that a plant's motors apply."""

    @property
    def gravity(self) -> tuple[float, ...]:
        """(3,) gravity in the world, in which the base is fixed [m/s²]."""

    @property
    def home(self) -> np.ndarray:
        """(N,) resting pose."""

    @property
    def chains(self) -> tuple[int, ...]:
        """Number of joints of each chain."""

    @property
    def swing_joints(self) -> np.ndarray:
        """Indices of the joints that swing a finger from side to side."""

    @property
    def bodies(self) -> Sequence[Part]:
        """The base, whose boxes or plane support the object, then the moving bodies; indexed as a
        contact's ``link``."""

    def kinematics(self) -> Kinematics: ...

    def pose(self, name: str) -> np.ndarray:
        """Return the joint positions (N,) of a named pose."""
