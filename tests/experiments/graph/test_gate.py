"""The pace of a run, and what counts as slow, repaired and harmed."""

import numpy as np
import pytest

from experiments.graph.gate import judged, pace


def test_the_pace_is_the_rotation_towards_goals_per_second():
    """Two goals, one after the other, at 0.5 rad/s; the jump between them is no rotation."""
    t = np.arange(0.0, 8.0, 0.01)
    error = 1.6 - 0.5 * (t % 3.0)
    assert pace(t, error, 1.0) == pytest.approx(0.5, rel=0.01)
    assert pace(t, 1.6 + 0.1 * t, 0.0) == pytest.approx(-0.1)
    assert pace(t, error, 9.0) == 0.0


def row(fixed, learned, drops=(0, 0)):
    return {"fixed": {"pace": fixed, "drops": drops[0]}, "learned": {"pace": learned, "drops": drops[1]}}


def test_repaired_is_slow_without_learning_only():
    rows = [
        row(1.0, 1.0),
        row(0.5, 0.95),
        row(0.5, 0.7),
        row(0.85, 1.0),
        row(1.0, 0.6),
        row(1.0, 1.0, (0, 1)),
        row(0.01, -0.01),
    ]
    judged(rows)
    assert [r["slow"] for r in rows] == [False, True, True, False, False, False, True]
    assert [r["repaired"] for r in rows] == [False, True, False, False, False, False, False]
    assert [r["harmed"] for r in rows] == [False, False, False, False, True, True, False]
