"""Statistics of samples, and intervals of rates."""

import math

import pytest

from dexstack.report.statistics import errors, times, wilson


def test_times_and_errors():
    x = [1.0, 2.0, 3.0, 4.0, math.nan]
    assert times(x) == {"p50": 2.5, "p99": pytest.approx(3.97), "mean": 2.5, "n": 4}
    assert errors(iter(x)) == {
        "mean": 2.5,
        "std": pytest.approx(math.sqrt(1.25)),
        "median": 2.5,
        "max": 4.0,
        "n": 4,
    }
    assert times([]) == {"p50": None, "p99": None, "mean": None, "n": 0}
    assert errors([math.inf]) == {"mean": None, "std": None, "median": None, "max": None, "n": 0}


def test_wilsons_interval():
    """Wilson 1927, as tables have it."""
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)
