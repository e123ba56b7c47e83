"""The quick experiments that move bodies, from their command lines."""

import sys
from argparse import Namespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from dexstack.errors import ConfigError
from experiments.harness import Findings
from experiments.lcp import balls, bounce, cubes, intersections, plate, rest


@pytest.mark.slow
def test_one_ball_aims_another(outcome):
    code, results = outcome(balls.main)
    assert code == 0 and results["position_error_m"] <= 1e-9 and results["iterations"] <= 6
    np.testing.assert_allclose(results["velocity"], [4.0369856, -0.7068662], atol=1e-6)
    assert results["polygon_balls"]["intersections"]["failed"] == 0


def test_the_closed_form_of_the_balls():
    """By hand: a straight hit passes all of the velocity on; it happens after 0.3 m."""
    np.testing.assert_allclose(balls.two_balls_in_closed_form(np.array([3.0, 0.0])), [0.3, 0.0], atol=1e-15)


@pytest.mark.parametrize("module", (bounce, cubes, plate))
def test_quick_experiments_reach_their_figures(module):
    assert module.main([]) == 0


def test_boxes_rest():
    results = rest.rest(0.2).results
    assert results["passed"], results
    assert all(run["intersections"]["checked"] >= run["steps"] for run in results["runs"].values())


@pytest.mark.parametrize("failed", (0, 1))
def test_intersections_of_all_checks_are_added_up(failed, monkeypatch):
    run = {"intersections": {"checked": 5, "failed": failed, "worst": 1e-6 * (1 - failed)}}
    outcome = Findings({"runs": {"first": run, "second": run}, **run}, Figure())
    monkeypatch.setattr(intersections, "CHECKS", {"one": lambda: outcome, "other": lambda: outcome})
    check = intersections.intersections(Namespace(configurations=0, seed=0))
    assert set(check.results["checks"]) == {"one", "other"}
    expected = {"scenes": 3, "checked": 15, "failed": 3 * failed, "worst": run["intersections"]["worst"]}
    assert all(c == expected for c in check.results["checks"].values())
    assert check.results["passed"] == (failed == 0)


def test_random_scenes_are_simulated_until_enough_are_checked(monkeypatch):
    monkeypatch.setattr(intersections, "CHECKS", {})
    results = intersections.intersections(Namespace(configurations=150, seed=0)).results
    assert results["passed"] and results["configurations"] >= 150
    assert set(results["checks"]) == {"random boxes", "random cylinders"}
    assert all(0.0 < c["worst"] < 0.01 for c in results["checks"].values())


def test_a_python_without_nimble_is_reported(tmp_path):
    with pytest.raises(ConfigError, match="cannot run"):
        balls.nimble_core(tmp_path / "python", np.ones(2))
    with pytest.raises(ConfigError, match="No module named"):
        balls.nimble_core(sys.executable, np.ones(2))
