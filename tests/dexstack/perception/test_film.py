"""Films on disk, and the evaluation of `dexstack bench pose-estimator`; the nodes themselves need
ROS."""

import numpy as np
import pytest

from dexstack.bench.pose_node import WARM_UP, judge_node
from dexstack.cli.main import main
from dexstack.errors import ConfigError
from dexstack.perception.film import Film, read_film, write_film

N = 120


@pytest.fixture
def film(tmp_path) -> Film:
    """The object drifts by 1 mm from picture to picture, and is hidden in every tenth."""
    pictures = np.random.default_rng(0).integers(0, 255, (N, 16, 20), np.uint8)
    pose = np.tile([0.0, 0.0, 0.05, 1.0, 0.0, 0.0, 0.0], (N, 1))
    pose[:, 0] = 1e-3 * np.arange(N)
    shots = ((5.0 + k / 30, pictures[k], pose[k]) for k in range(N))
    write_film(tmp_path, shots, np.zeros((N, 16)), np.arange(N) % 10 == 9, np.eye(3), (16, 20))
    read = read_film(tmp_path)
    assert np.array_equal(read.pictures, pictures) and np.array_equal(read.pose_WO, pose) and len(read) == N
    return read


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


def test_a_node_that_does_everything_right(film, tmp_path):
    answer(film, tmp_path / "r.npz")
    r = judge_node(film, tmp_path / "r.npz")
    counted = int((film.t - film.t[0] >= WARM_UP).sum())
    assert (
        r.tracking.frames == counted == len(r.solves)
        and r.dropped == r.unanswered == r.tracking.wrong_jumps == 0
    )
    assert r.rate == pytest.approx(30.0, rel=0.05) and np.allclose(r.tracking.seconds, 0.004)
    assert r.tracking.occluded == len(r.tracking.predicted.shift) == counted // 10


def test_what_is_wrong_is_counted(film, tmp_path):
    pose = film.pose_WO.copy()
    pose[100, 1] += 0.02  # a jump that ends 20 mm off
    pose[105] = np.nan  # a picture without an answer
    answer(film, tmp_path / "r.npz", pose_WO=pose, processed=N - 3)
    r = judge_node(film, tmp_path / "r.npz")
    assert (r.tracking.wrong_jumps, r.unanswered, r.tracking.lost, r.dropped) == (1, 1, 1, 3)


def test_a_folder_without_a_film_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=f"no film in {tmp_path}"):
        read_film(tmp_path)


def test_the_command_refuses_what_it_cannot_do(monkeypatch, capsys):
    assert (
        main(["bench", "pose-estimator", "--core", "4096"]) == 2 and "--core 4096" in capsys.readouterr().err
    )
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    assert main(["bench", "pose-estimator"]) == 2 and "one core for the estimator" in capsys.readouterr().err
