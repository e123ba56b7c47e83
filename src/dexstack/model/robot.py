"""What contact detection, planner and closed loop need to know of a robot: a fixed base, chains of
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
        """Its body's in a scene; a base without a body of its own has another."""

    @property
    def shapes(self) -> Sequence[Shape]:
        """Collision shapes, body frame."""


@runtime_checkable
class Robot(Protocol):
    """A hand, or balls. Joints are hinges [rad] or slides [m]; they come chain by chain, and chains
    meet only in the object."""

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
    def torque(self) -> float:
        """Share of the joint torques or forces asked for that a plant's motors give."""

    @property
    def home(self) -> np.ndarray:
        """(N,) resting pose."""

    @property
    def chains(self) -> tuple[int, ...]:
        """Joints of each chain."""

    @property
    def swing_joints(self) -> np.ndarray:
        """Indices of the joints that swing a finger from side to side."""

    @property
    def bodies(self) -> Sequence[Part]:
        """The base, which bears the object with its boxes or its plane, then what moves; indexed as
        a contact's ``link``."""

    def kinematics(self) -> Kinematics: ...

    def pose(self, name: str) -> np.ndarray:
        """(N,) joint positions of a named pose."""
