"""Worlds drawn at random, which the controller does not know."""

from __future__ import annotations

import numpy as np

from dexstack.tasks.base import OFFSETS, World

RANGES = {
    "mass": (0.3, 3.0),
    "friction": (0.25, 1.0),
    "size": (0.9, 1.1),
    "torque": (0.5, 1.0),
    "joint_damping": (0.5, 1.5),
    "joint_friction": (0.002, 0.02),
    "joint_armature": (2e-5, 5e-4),
    "contact_stiffness": (0.3, 3.0),
}
"""Fields of a :class:`~dexstack.tasks.base.World` that are drawn log-uniformly."""
SHIFTS = dict.fromkeys(OFFSETS, (-0.005, 0.005))
"""Fields that are drawn uniformly [m]."""


def drawn(seed: int | np.random.Generator, *names: str) -> World:
    """Draw the named fields of a world, all of them without names; the others stay nominal.

    A generator is used as given, so that consecutive calls continue its sequence.
    """
    rng = np.random.default_rng(seed)
    chosen = names or (*RANGES, *SHIFTS)
    return World(
        **{
            n: float(np.exp(rng.uniform(*np.log(RANGES[n]))) if n in RANGES else rng.uniform(*SHIFTS[n]))
            for n in chosen
        }
    )
