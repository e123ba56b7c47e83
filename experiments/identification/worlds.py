"""Runs in worlds drawn at random, which the controller does not know."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dexstack.tasks.worlds import drawn

if TYPE_CHECKING:
    from dexstack.graph.settings import Spec

SETTINGS = {"latency": (0.0, 0.06), "pose_noise_position": (0.0, 0.001), "pose_noise_rotation": (0.0, 0.02)}
"""Parameters outside the world that are drawn uniformly: delay of commands [s], noise of poses [m,
rad]."""


def randomised(spec: Spec, seed: int) -> Spec:
    """Return the spec in the world of a seed, with that seed's delay and noise where it sets none."""
    rng = np.random.default_rng(seed)
    world = drawn(rng)
    found = {name: float(rng.uniform(*between)) for name, between in SETTINGS.items()}
    return replace(spec, world=world, overrides=tuple(sorted((found | dict(spec.overrides)).items())))
