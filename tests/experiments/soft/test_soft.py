"""The quick experiments on soft contact, from their command lines."""

import json

import numpy as np
import pytest

from experiments.soft import gradient, growth, isosurfaces, push, speed, weights

pytestmark = pytest.mark.slow


def test_isosurfaces_are_drawn_and_judged(tmp_path):
    file = tmp_path / "out.json"
    assert isosurfaces.main(["--picture", str(tmp_path / "isosurfaces.png"), "--json", str(file)]) == 0
    results = json.loads(file.read_text())["results"]
    assert (tmp_path / "isosurfaces.png").stat().st_size > 10_000
    area = results["area"]["12 points a side"]
    assert area[0] == pytest.approx(4.0, abs=0.1) and np.ptp(area) > 0.1
    assert results["area"]["wrong normals"][0] != pytest.approx(4.0, abs=0.3)


def test_every_pushing_sequence_makes_contact_at_least_twice_and_moves_the_t():
    for sequence in push.SEQUENCES:
        track, made = push.pushed_in_mujoco(sequence, 0.002, rk4=False)
        assert made >= 2
        assert np.linalg.norm(track[-1, :2]) > 0.01 or abs(track[-1, 2]) > 0.1


def test_growth_is_measured_and_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(growth, "POINTS", (384,))
    monkeypatch.setattr(growth, "MOST_DENSE", 384)
    monkeypatch.setattr(growth, "BODIES", (1, 2))
    file = tmp_path / "out.json"
    assert growth.main(["--picture", str(tmp_path / "growth.png"), "--json", str(file)]) == 0
    results = json.loads(file.read_text())["results"]
    assert (tmp_path / "growth.png").stat().st_size > 10_000
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


@pytest.mark.parametrize("argv", [["--rounds", "0"], ["--patch", "0"], ["--core", "4096"]])
def test_unusable_arguments_exit_2(argv, capsys):
    try:
        code = speed.main(argv)
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    assert argv[0] in capsys.readouterr().err


def test_the_fastest_peer_is_timed_in_the_same_run(tmp_path):
    file = tmp_path / "out.json"
    assert speed.main(["--rounds", "1", "--json", str(file)]) in (0, 1)
    results = json.loads(file.read_text())["results"]
    assert (
        results["peers"]["mujoco"]["scan_s"]["p50"] > 0
        and results["peers"]["mujoco"]["end_difference_m"] == 0
    )
    assert all(
        case["mujoco_ratio"] > 0 and case["end_difference_m"] < 0.01 for case in results["cases"].values()
    )
