"""Worlds drawn at random."""

import dataclasses

import numpy as np

from dexstack.tasks.base import NOMINAL_WORLD, World
from dexstack.tasks.worlds import RANGES, SHIFTS, drawn


def test_a_world_follows_from_its_seed_and_lies_in_the_ranges():
    assert drawn(3) == drawn(3) != drawn(4)
    many = [drawn(seed) for seed in range(200)]
    assert {f.name for f in dataclasses.fields(World)} == {*RANGES, *SHIFTS}
    for name, (low, high) in (RANGES | SHIFTS).items():
        share = np.log if name in RANGES else np.asarray
        values = (share([getattr(world, name) for world in many]) - share(low)) / (share(high) - share(low))
        assert 0.0 <= values.min() < 0.1 and 0.9 < values.max() <= 1.0
    only = drawn(3, "mass")
    assert only == World(mass=only.mass) and only != NOMINAL_WORLD
