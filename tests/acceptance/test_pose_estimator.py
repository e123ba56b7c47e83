"""Judgement of the poses that the pose_estimator node gave for a film."""

import numpy as np
import pytest

from dexstack.errors import ConfigError
from tests.acceptance import pose_estimator
from tests.acceptance.film import Film, read_film
from tests.acceptance.pose_estimator import WARM_UP, judge_node

N = 120


@pytest.fixture
def film() -> Film:
    """The object drifts by 1 mm from picture to picture, and is hidden in every tenth."""
    pose = np.tile([0.0, 0.0, 0.05, 1.0, 0.0, 0.0, 0.0], (N, 1))
    pose[:, 0] = 1e-3 * np.arange(N)
    pictures = np.zeros((N, 16, 20), np.uint8)
    return Film(5.0 + np.arange(N) / 30, np.zeros((N, 16)), pose, np.arange(N) % 10 == 9, np.eye(3), pictures)


def answer(film: Film, path, **changed) -> None:
    given = {
        "pose_WO": film.pose_WO.copy(),
        "covariance": np.tile(1e-6 * np.eye(6), (N, 1, 1)),
        "seconds": np.full(N, 0.004),
        "late": np.zeros(N),
        "processed": N,
        "solves": np.column_stack([film.t, np.full((N, 2), 0.002)]),
    }
    np.savez(path, **{**given, **changed})


def test_a_perfect_node_has_no_errors(film, tmp_path):
    answer(film, tmp_path / "r.npz")
    r = judge_node(film, tmp_path / "r.npz")
    counted = int((film.t - film.t[0] >= WARM_UP).sum())
    assert r.tracking.frames == counted == len(r.solves)
    assert r.dropped == r.unanswered == r.tracking.wrong_jumps == 0
    assert r.rate == pytest.approx(30.0, rel=0.05) and np.allclose(r.tracking.seconds, 0.004)
    assert r.tracking.occluded == len(r.tracking.predicted.shift) == counted // 10


def test_jumps_and_missing_poses_are_counted(film, tmp_path):
    pose = film.pose_WO.copy()
    pose[100, 1] += 0.02  # a jump that ends 20 mm off
    pose[105] = np.nan  # no pose
    answer(film, tmp_path / "r.npz", pose_WO=pose, processed=N - 3)
    r = judge_node(film, tmp_path / "r.npz")
    assert (r.tracking.wrong_jumps, r.unanswered, r.tracking.lost, r.dropped) == (1, 1, 1, 3)


def test_a_folder_without_a_film_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=f"no film in {tmp_path}"):
        read_film(tmp_path)


def test_cores_that_cannot_be_used_are_refused(monkeypatch, capsys):
    assert pose_estimator.main(["--core", "4096"]) == 2 and "--core 4096" in capsys.readouterr().err
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    assert pose_estimator.main([]) == 2 and "need a core each" in capsys.readouterr().err
