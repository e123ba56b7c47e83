"""The demonstrations as a user types them, the quick ones."""

import json

import numpy as np
import pytest

from dexstack.cli.main import main
from dexstack.demo import lcp


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


@pytest.mark.parametrize("name", ("bounce", "cubes"))
def test_quick_demonstrations_reach_their_figures(name, tmp_path):
    code, results = _run(tmp_path, name)
    assert code == 0, results
