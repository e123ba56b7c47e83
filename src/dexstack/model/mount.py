"""Direction of gravity in the world, in which the palm is fixed; a hand at another angle sees another
gravity.

The world's z axis points out of the palm and its x axis along the fingers, however the palm is
mounted. Everything that knows a robot takes gravity from it
(:attr:`dexstack.model.robot.Robot.gravity`); the value comes from the parameters of
:class:`GravityParams`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dexstack.config import param
from dexstack.errors import ConfigError

STANDARD = 9.81
"""Magnitude of gravity [m/s²]."""
DOWN = (0.0, 0.0, -STANDARD)
"""Gravity (3,) of a level palm [m/s²]."""
AXES = {"x": (1.0, 0.0), "y": (0.0, 1.0), "-x": (-1.0, 0.0), "-y": (0.0, -1.0)}
"""Axes in the plane of the palm by their names."""
INCLINE = (
    "turn of the palm from level about an axis in its plane, DEG or DEG,AXIS with x (along the fingers), y, "
    "-x or -y; about y, the default, the fingers sink; gives the parameter gravity"
)
"""Help of the argument that :func:`read_incline` parses."""


@dataclass(frozen=True)
class GravityParams:
    """Direction of gravity."""

    gravity: tuple[float, ...] = param(
        DOWN,
        "gravity in the hand's world, in which the palm is fixed [m/s²]; for a palm mounted at another angle",
        -20.0,
        20.0,
    )
    gravity_frame: str = param(
        "",
        "frame on /tf whose z axis points up, which gives the direction of gravity for a hand that turns; "
        "empty: gravity",
    )


def inclined(degrees: float, axis: str = "y") -> tuple[float, float, float]:
    """Return gravity (3,) in the world of a palm that is turned from level about one of its axes
    [m/s²].

    Args:
        degrees: turn by the right-hand rule [deg].
        axis: of :data:`AXES`.
    """
    x, y = AXES[axis]
    s, c = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    # R(axis, angle)ᵀ (0, 0, -g); + 0.0: no negative zero
    return STANDARD * s * y + 0.0, -STANDARD * s * x + 0.0, -STANDARD * c


def read_incline(text: str) -> tuple[float, float, float]:
    """Return :func:`inclined` of ``DEG`` or ``DEG,AXIS``.

    Raises:
        ConfigError: the text is neither.
    """
    number, _, axis = text.partition(",")
    try:
        degrees = float(number)
    except ValueError:
        degrees = math.nan
    axis = axis.strip() or "y"
    if not abs(degrees) <= 180.0 or axis not in AXES:
        raise ConfigError(
            f"an incline must be DEG or DEG,AXIS with degrees in [-180, 180] and an axis of "
            f"{', '.join(AXES)}, got '{text}'"
        )
    return inclined(degrees, axis)


def upright(gravity: np.ndarray) -> np.ndarray:
    """Return the smallest rotation (3, 3) that takes the z axis to the direction against gravity (3,);
    the identity for a level palm or without gravity."""
    size = float(np.linalg.norm(gravity))
    x, y, z = -np.asarray(gravity, float) / size if size else (0.0, 0.0, 1.0)
    if z < -1.0 + 1e-9:
        return np.diag([1.0, -1.0, -1.0])
    k = 1.0 / (1.0 + z)
    return np.array([[1.0 - k * x * x, -k * x * y, x], [-k * x * y, 1.0 - k * y * y, y], [-x, -y, z]])
