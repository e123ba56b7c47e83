"""The first table of judged controllers, with one trial of one policy."""

import pytest

from experiments.judge.first import POLICY, main


@pytest.mark.slow
def test_a_policy_is_in_the_table(outcome):
    _, results = outcome(main, "--only", POLICY, "--trials", 1)
    assert [row["label"] for row in results["cells"]] == ["yaw, yaw", "yaw, a2", "yaw, b2"]
    assert results["passed"] == (results["cells"][0]["success_rate"] >= 0.5)
