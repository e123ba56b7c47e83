"""Joint angles at a time between two samples."""

import numpy as np
import pytest

from dexstack.process.history import JointHistory, JointSample


def filled(*times: float, limp: tuple[bool, ...] = ()) -> JointHistory:
    history = JointHistory(seconds=1.0)
    for k, t in enumerate(times):
        history.add(JointSample(t, np.array([t, -2.0 * t]), bool(limp[k]) if limp else False))
    return history


def test_angles_are_interpolated():
    np.testing.assert_allclose(filled(0.0, 0.1, 0.3).at(0.15, 0.2).values, [0.15, -0.3])


@pytest.mark.parametrize(("t", "edge"), [(-0.02, 0.0), (0.32, 0.3)])
def test_outside_the_nearest_sample_stands_for_a_while(t, edge):
    history = filled(0.0, 0.1, 0.3)
    np.testing.assert_allclose(history.at(t, 0.05).values, [edge, -2.0 * edge])
    assert history.at(t, 0.01) is None


def test_nothing_far_from_any_sample():
    assert filled(0.0, 0.3).at(0.15, 0.05) is None and JointHistory().at(0.0, 1.0) is None


def test_limp_as_the_nearest_sample():
    history = filled(0.0, 0.1, limp=(True, False))
    assert history.at(0.04).limp and not history.at(0.06).limp


def test_what_is_old_or_from_before_a_restart_is_forgotten():
    assert [x.t for x in filled(0.0, 0.5, 1.2).samples] == [0.5, 1.2]
    assert [x.t for x in filled(5.0, 5.1, 0.0, 0.1).samples] == [0.0, 0.1]
