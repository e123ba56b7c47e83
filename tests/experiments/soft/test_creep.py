"""Creep of a cube at rest is what the friction law says, no more and no less."""

import pytest

from experiments.soft import creep

pytestmark = pytest.mark.slow


def test_a_cube_creeps_down_a_slope_as_the_law_says_and_slower_with_a_slower_stiction_speed():
    for v_s in (1e-3, 2e-5):
        assert creep.creep(1.0, v_s, seconds=2.0) == pytest.approx(creep.formula(1.0, v_s), rel=0.02)
