"""The quick experiments on soft contact, from their command lines."""

import numpy as np
import pytest

from experiments.soft import gradient, growth, isosurfaces, push, speed, weights

pytestmark = pytest.mark.slow


def test_isosurfaces_are_drawn_and_judged(tmp_path, outcome):
    picture = tmp_path / "isosurfaces.png"
    code, results = outcome(isosurfaces.main, "--picture", picture)
    assert code == 0 and picture.stat().st_size > 10_000
    area = results["area"]["12 points a side"]
    assert area[0] == pytest.approx(4.0, abs=0.1) and np.ptp(area) > 0.1
    assert results["area"]["wrong normals"][0] != pytest.approx(4.0, abs=0.3)


def test_every_pushing_sequence_makes_contact_at_least_twice_and_moves_the_t():
    for sequence in push.SEQUENCES:
        track, made = push.pushed_in_mujoco(sequence, 0.002, rk4=False)
        assert made >= 2
        assert np.linalg.norm(track[-1, :2]) > 0.01 or abs(track[-1, 2]) > 0.1


def test_growth_is_measured(monkeypatch, outcome):
    """One body twice, which is compiled once."""
    monkeypatch.setattr(growth, "POINTS", (384,))
    monkeypatch.setattr(growth, "MOST_DENSE", 384)
    monkeypatch.setattr(growth, "BODIES", (1, 1))
    code, results = outcome(growth.main)
    assert code == 0
    near, dense = results["cases"][:2]
    assert results["memory_ratio"] == dense["temporaries_bytes"] / near["temporaries_bytes"] >= 20
    assert near["contact_s"] < dense["contact_s"]


def test_the_gradient_is_that_of_whole_rollouts_and_so_is_mujocos_where_nothing_comes_or_goes():
    scene = gradient.LIMITS[0]
    assert gradient.error(gradient.Ours(scene), scene.count, 1) < 1e-3
    peer = gradient.Chained(scene, 1e-6)
    peer.both()
    q, v, path = gradient.begin(scene.count)
    value, path[-1, 1] = peer.exactly(), path[-1, 1] + 1e-5
    moved = value(q, v, path) - peer.value()
    assert abs(moved) > 1e-10
    assert moved == pytest.approx(1e-5 * peer.gradient()[2][-1, 1], rel=1e-3)


def test_soft_choices_among_equals_are_their_mean():
    corners = np.array([[1.0, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]])
    np.testing.assert_allclose(weights.picked(corners, np.zeros(4), 4), 0.0, atol=1e-6)
    np.testing.assert_allclose(weights.picked(corners, np.array([0.0, -1, -2, -3]), 4), corners, atol=1e-6)


def test_the_fastest_peer_is_timed_in_the_same_run(monkeypatch, outcome):
    monkeypatch.setattr(speed, "LIMITS", {"26": speed.LIMITS["26"]})
    _, results = outcome(speed.main, "--rounds", 1, "--states", 4)
    assert (
        results["peers"]["mujoco"]["scan_s"]["p50"] > 0
        and results["peers"]["mujoco"]["end_difference_m"] == 0
    )
    assert all(
        case["mujoco_ratio"] > 0 and case["end_difference_m"] < 0.01 for case in results["cases"].values()
    )
