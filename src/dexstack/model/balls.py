"""Balls as a robot: spheres that slide along the world's axes over a floor, each one finger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dexstack.errors import ConfigError
from dexstack.model.mount import DOWN
from dexstack.model.urdf import Shape

if TYPE_CHECKING:
    from dexstack.model.kinematics import BallKinematics

DENSITY = 1000.0
"""Density of a ball [kg/m³]."""


@dataclass(frozen=True)
class Ball:
    """A point finger: a sphere on three sliding joints along the world's axes."""

    p_W: tuple[float, float, float]
    """Centre at the start [m]."""
    radius: float = 0.01
    """[m]"""
    mass: float = 0.00419
    """[kg]"""
    friction: float = 0.5
    """Sliding friction [-]."""
    damping: float = 0.0
    """Damping of each joint [N s/m]."""


@dataclass(frozen=True)
class BallPart:
    """The floor, or one ball: collision shapes in the body's frame, whose axes are the world's."""

    name: str
    shapes: tuple[Shape, ...]
    parent: int = 0
    """Balls move against the floor."""


@dataclass(frozen=True)
class BallsModel:
    """Balls over a floor at height zero, as a :class:`~dexstack.model.robot.Robot`; joint order x,
    y, z of ball 0, then of ball 1 …"""

    balls: tuple[Ball, ...]
    reach: float = 0.3
    """Largest distance of a centre from the world's origin along x and y, and largest height [m];
    the lowest is on the floor."""
    gravity: tuple[float, ...] = DOWN
    """(3,) in the world, in which the floor is fixed [m/s²]."""

    def __post_init__(self) -> None:
        if len({ball.radius for ball in self.balls}) != 1:
            raise ConfigError("a robot of balls needs at least one, all of the same radius")

    @property
    def name(self) -> str:
        return f"{len(self.balls)} balls"

    @property
    def joint_names(self) -> tuple[str, ...]:
        return tuple(f"ball_{i}_{axis}" for i in range(len(self.balls)) for axis in "xyz")

    @property
    def lower(self) -> np.ndarray:
        """(N,) [m]"""
        return np.array([[-self.reach, -self.reach, ball.radius] for ball in self.balls]).ravel()

    @property
    def upper(self) -> np.ndarray:
        """(N,) [m]"""
        return np.full(3 * len(self.balls), self.reach)

    @property
    def damping(self) -> np.ndarray:
        """(N,) [N s/m]"""
        return np.repeat([ball.damping for ball in self.balls], 3)

    @property
    def effort(self) -> np.ndarray:
        """(N,) unlimited."""
        return np.full(3 * len(self.balls), np.inf)

    @property
    def torque(self) -> float:
        """Share of the requested force that is applied: all of it."""
        return 1.0

    @property
    def weight(self) -> np.ndarray:
        """(N,) joint forces that balance gravity [N]."""
        return np.concatenate([-ball.mass * np.array(self.gravity) for ball in self.balls])

    @property
    def home(self) -> np.ndarray:
        """(N,) joint positions at the start [m]."""
        return np.array([ball.p_W for ball in self.balls]).ravel()

    @property
    def chains(self) -> tuple[int, ...]:
        return (3,) * len(self.balls)

    @property
    def swing_joints(self) -> np.ndarray:
        """Empty: no joint of a ball swings a finger."""
        return np.zeros(0, int)

    @property
    def bodies(self) -> tuple[BallPart, ...]:
        """The floor, then the balls."""
        floor = Shape("plane", np.zeros(0), np.zeros(3), np.eye(3))
        spheres = (Shape("sphere", np.array([ball.radius]), np.zeros(3), np.eye(3)) for ball in self.balls)
        return (
            BallPart("floor", (floor,)),
            *(BallPart(f"ball_{i}", (sphere,)) for i, sphere in enumerate(spheres)),
        )

    def kinematics(self) -> BallKinematics:
        """Return the kinematics for JAX, which is imported only here."""
        from dexstack.model.kinematics import BallKinematics

        return BallKinematics(len(self.balls))

    def pose(self, name: str) -> np.ndarray:
        """Return the joint positions (N,) at the start [m].

        Raises:
            ConfigError: the name is not "home".
        """
        if name != "home":
            raise ConfigError(f"balls have no pose '{name}'; they have home")
        return self.home
