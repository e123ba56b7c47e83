"""Tosses: a simulator's own motion is recovered from a file, and files are checked."""

import json

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from experiments.engines.toss_simulators import COMMON, OWN, RATE, WIDTH, Toss, simulator
from experiments.engines.tosses import errors, main

START = {unknown.name: unknown.start for unknown in (*COMMON, *OWN["lcp"])}


def write_toss(path, name="lcp"):
    """Write one toss that a simulator made with the first guess of its parameters."""
    q, v = np.array([0, 0, 0.12, 1, 0, 0, 0.0]), np.array([0.5, 0, 0, 2.0, 3.0, 0])
    nothing = np.tile(q, (60, 1))
    (motion,) = simulator(name)(START, [Toss(7, nothing, v)])
    half = np.array([0, 0, 0.5 * 9.81 / RATE])
    arrays = {
        "p_WB": motion[:, :3],
        "quat_WB": motion[:, 3:],
        "v_WB": np.tile(v[:3] + half, (60, 1)),
        "omega_B": np.tile(v[3:], (60, 1)),
    }
    np.savez(path, length=[60], index=[7], **arrays)


def test_the_parameters_of_a_motion_reproduce_it(tmp_path, outcome):
    write_toss(tmp_path / "tosses.npz")
    kept = {"trained": [3], "fits": {"lcp": {"values": START, "loss": 0.0, "evaluations": 0}}}
    (tmp_path / "kept.json").write_text(json.dumps(kept))
    files = ["--data", str(tmp_path / "tosses.npz"), "--parameters", str(tmp_path / "kept.json")]
    (row,) = outcome(main, *files, "--engines", "lcp")[1]["engines"]
    assert (row["name"], row["n"], row["face_right"]) == ("lcp", 1, 1.0)
    assert row["position_percent"] < 1e-6 and row["rotation_deg"] < 1e-4


def test_errors_of_a_shifted_and_turned_motion_are_the_shift_and_the_turn():
    """A tenth of the width aside, turned by 30° about the vertical: the face is right, nothing is deep."""
    q = np.tile([0, 0, 0.5 * WIDTH, 1, 0, 0, 0.0], (5, 1))
    moved = np.array(q)
    moved[:, 0] += 0.1 * WIDTH
    moved[:, 3:] = Rotation.from_euler("z", 30, degrees=True).as_quat(scalar_first=True)
    found = errors(moved, Toss(0, q, np.zeros(6)))
    np.testing.assert_allclose(found, [10.0, 30.0, 10.0, 30.0, 1.0, 0.0], atol=1e-9)


@pytest.mark.parametrize("content", [None, {"length": [1]}])
def test_a_file_without_tosses_is_refused(tmp_path, content, capsys):
    path = tmp_path / "tosses.npz"
    if content:
        np.savez(path, **content)
    assert main(["--data", str(path)]) == 2
    assert f"no tosses in {path}" in capsys.readouterr().err
