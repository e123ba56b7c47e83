"""Creep of a cube at rest is what the friction law says, no more and no less."""

import numpy as np
import pytest

from dexengines.soft.scene import LAW
from dexstack.plants.soft import SoftPlantParams
from experiments.soft import creep


def test_the_default_stiction_speeds_keep_the_creep_on_one_degree_below_the_limit():
    """By hand: 60 s of v_s r/√(1 − r²), r = tan 1°/μ."""
    share = np.tan(np.radians(1.0)) / creep.FRICTION
    for v_s in (LAW.v_s, SoftPlantParams().stiction_speed):
        assert 60.0 * v_s * share / np.sqrt(1.0 - share**2) <= creep.LIMIT


@pytest.mark.slow
def test_a_cube_creeps_down_a_slope_as_the_law_says_and_slower_with_a_slower_stiction_speed():
    for v_s in (1e-3, 2e-5):
        assert creep.creep(1.0, v_s, seconds=2.0) == pytest.approx(creep.formula(1.0, v_s), rel=0.02)
