"""The demonstrations as a user types them, the quick ones."""

import json
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from dexstack.cli.main import main
from dexstack.errors import ConfigError
from experiments.checks import Check
from experiments.lcp import rest as lcp_rest
from experiments.lcp import scenes as lcp
from experiments.lcp.scenes_command import CHECKS


def _run(tmp_path, name):
    file = tmp_path / "out.json"
    code = main(["demo", "lcp", name, "--results", str(tmp_path), "--json", str(file)])
    assert (tmp_path / f"{name}.png").stat().st_size > 1000
    return code, json.loads(file.read_text())["results"]


def test_one_ball_aims_another(tmp_path):
    _, results = _run(tmp_path, "balls")  # its exit code also depends on the time of the derivative
    assert results["position_error_m"] <= 1e-9 and results["iterations"] <= 6
    np.testing.assert_allclose(results["velocity"], [4.0369856, -0.7068662], atol=1e-6)
    assert results["polygon_balls"]["intersections"]["failed"] == 0


def test_the_closed_form_of_the_balls():
    """By hand: a straight hit passes all of the velocity on; it happens after 0.3 m."""
    np.testing.assert_allclose(lcp.two_balls_in_closed_form(np.array([3.0, 0.0])), [0.3, 0.0], atol=1e-15)


@pytest.mark.parametrize("name", ("bounce", "cubes", "plate"))
def test_quick_demonstrations_reach_their_figures(name, tmp_path):
    code, results = _run(tmp_path, name)
    assert code == 0, results


@pytest.mark.parametrize(("check", "seconds"), ((lcp_rest.rest, 0.2), (lcp_rest.tumble, 0.1)))
def test_boxes_rest_and_tumble(check, seconds):
    results = check(seconds).results
    assert results["passed"], results
    assert all(run["intersections"]["checked"] >= run["steps"] for run in results["runs"].values())


@pytest.mark.parametrize("failed", (0, 1))
def test_intersections_of_all_checks_are_added_up(failed, monkeypatch):
    run = {"intersections": {"checked": 5, "failed": failed, "worst": 1e-6 * (1 - failed)}}
    for name in CHECKS:
        if name != "intersections":
            monkeypatch.setattr(lcp, name, lambda: Check({"runs": {"first": run, "second": run}, **run}, Figure(), []))
    check = lcp_rest.intersections()
    assert set(check.results["checks"]) == set(CHECKS) - {"intersections"}
    assert all(c == {"checked": 15, "failed": 3 * failed, "worst": run["intersections"]["worst"]} for c in check.results["checks"].values())
    assert check.results["passed"] == (failed == 0)


def test_a_python_without_nimble_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot run"):
        lcp._nimble_core(tmp_path / "python", np.ones(2))
    with pytest.raises(ConfigError, match="No module named"):
        lcp._nimble_core(sys.executable, np.ones(2))
