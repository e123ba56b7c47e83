"""Worlds drawn at random: what a controller has to cope with that knows none of it."""

from __future__ import annotations

import numpy as np

from dexstack.tasks.base import World

RANGES = {
    "mass": (0.3, 3.0), "friction": (0.25, 1.0), "size": (0.9, 1.1), "torque": (0.5, 1.0), "joint_damping": (0.5, 1.5),
    "joint_friction": (0.002, 0.02),
}  # fmt: skip
"""Fields of a :class:`~dexstack.tasks.base.World`; their logarithms are drawn evenly."""


def drawn(seed: int | np.random.Generator, *names: str) -> World:
    """The world of a seed; fields that are not named stay as believed. Without names all vary."""
    rng = np.random.default_rng(seed)  # a generator stays itself
    return World(**{name: float(np.exp(rng.uniform(*np.log(RANGES[name])))) for name in names or RANGES})
