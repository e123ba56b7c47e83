"""A vector of environments is compared with plants that do the same."""

import pytest

from experiments.judge import vector


@pytest.mark.slow
def test_plants_alone_repeat_the_motion_of_the_environments(outcome):
    once = ("--envs", "1", "--steps", "5", "--rounds", "1")
    code, results = outcome(vector.main, "--plants", "mujoco", *once)
    (row,) = results["rows"]
    assert row["same_motion"] and row["plants_per_s"] > 0.0 and row["vector_per_s"] > 0.0
    assert code == (0 if row["share"]["median"] >= results["required_share"] else 1)
