"""Worlds drawn at random, which the controller does not know."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dexstack.tasks.base import OFFSETS, World

if TYPE_CHECKING:
    from dexstack.graph.settings import Spec

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
SETTINGS = {"latency": (0.0, 0.06), "pose_noise_position": (0.0, 0.001), "pose_noise_rotation": (0.0, 0.02)}
"""Parameters outside the world that are drawn uniformly: delay of commands [s], noise of poses [m,
rad]."""


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


def randomised(spec: Spec, seed: int) -> Spec:
    """Return the spec in the world of a seed, with that seed's delay and noise where it sets none."""
    rng = np.random.default_rng(seed)
    world = drawn(rng)
    found = {name: float(rng.uniform(*between)) for name, between in SETTINGS.items()}
    return replace(spec, world=world, overrides=tuple(sorted((found | dict(spec.overrides)).items())))
