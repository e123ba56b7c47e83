"""Tosses: a simulator's own motion is recovered from a file, and files are checked."""

import json

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from experiments.engines import toss_gradients
from experiments.engines.toss_data import RATE, WIDTH, Toss, flight_start, length_scale
from experiments.engines.toss_simulators import COMMON, OWN, simulator
from experiments.engines.tosses import errors, main

START = {unknown.name: unknown.start for unknown in (*COMMON, *OWN["lcp"])}


def write_toss(path, name="lcp"):
    """Write one toss that a simulator made with the first guess of its parameters."""
    q, v = np.array([0, 0, 0.12, 1, 0, 0, 0.0]), np.array([0.5, 0, 0, 2.0, 3.0, 0])
    nothing = np.tile(q, (60, 1))
    (motion,) = simulator(name)(START, [Toss(7, nothing, v)])
    np.savez(path, length=[60], index=[7], p_WB=motion[:, :3], quat_WB=motion[:, 3:])


def test_the_parameters_of_a_motion_reproduce_it(tmp_path, outcome):
    write_toss(tmp_path / "tosses.npz")
    kept = {"trained": [3], "fits": {"lcp": {"values": START, "loss": 0.0, "evaluations": 0}}}
    (tmp_path / "kept.json").write_text(json.dumps(kept))
    files = ["--data", str(tmp_path / "tosses.npz"), "--parameters", str(tmp_path / "kept.json")]
    (row,) = outcome(main, *files, "--engines", "lcp")[1]["engines"]
    assert (row["name"], row["n"], row["face_right"]) == ("lcp", 1, 1.0)
    assert row["position_percent_own_friction"] <= row["position_percent"] < 1.0 and row["rotation_deg"] < 1.0


def flight(rng, noise, n=24):
    """Return poses (n, 7) of a free flight from 0.4 m, and its pose and velocity at the start."""
    t = np.arange(n) / RATE
    R_WB, omega_B, v = Rotation.random(rng=rng), rng.normal(size=3) * 4.0, np.array([1.0, -0.3, 0.4])
    omega_W = R_WB.apply(omega_B)
    p = np.array([0.1, 0.2, 0.4]) + np.outer(t, v) - np.outer(0.5 * 9.81 * t**2, [0, 0, 1])
    R = Rotation.from_rotvec(rng.normal(size=(n, 3)) * noise / 0.1)
    R = R * Rotation.from_rotvec(np.outer(t, omega_W)) * R_WB
    q = np.hstack([p + rng.normal(size=(n, 3)) * noise, R.as_quat(scalar_first=True)])
    return q, np.concatenate([[0.1, 0.2, 0.4], R_WB.as_quat(scalar_first=True)]), np.concatenate([v, omega_B])


@pytest.mark.parametrize(("noise", "of_v", "of_omega"), [(0.0, 1e-9, 1e-9), (5e-5, 2e-3, 2e-2)])
def test_the_start_of_a_noisy_flight_is_recovered(noise, of_v, of_omega):
    """Differences of neighbours would be five times as far off."""
    q, pose, v = flight(np.random.default_rng(1), noise)
    found_pose, found_v = flight_start(q)
    assert abs(found_pose[3:] @ pose[3:]) == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(found_pose[:3], pose[:3], atol=2 * noise + 1e-12)
    np.testing.assert_allclose(found_v[:3], v[:3], atol=of_v)
    np.testing.assert_allclose(found_v[3:], v[3:], atol=of_omega)


def test_the_scale_of_lengths_is_that_of_the_acceleration():
    rows = [flight(np.random.default_rng(k), 0.0)[0] for k in range(3)]
    for q in rows:
        q[:, :3] *= 0.97
    assert length_scale(rows) == pytest.approx(0.97, abs=1e-9)


def test_errors_of_a_shifted_and_turned_motion_are_the_shift_and_the_turn():
    """A tenth of the width aside, turned by 30° about the vertical: the face is right, nothing is deep."""
    q = np.tile([0, 0, 0.5 * WIDTH, 1, 0, 0, 0.0], (5, 1))
    moved = np.array(q)
    moved[:, 0] += 0.1 * WIDTH
    moved[:, 3:] = Rotation.from_euler("z", 30, degrees=True).as_quat(scalar_first=True)
    found = errors(moved, Toss(0, q, np.array([-1.0, 0, 0, 0, 0, 0])))
    np.testing.assert_allclose(found, [10.0, 30.0, 10.0, 30.0, -10.0, 1.0, 0.0], atol=1e-9)


@pytest.mark.parametrize("content", [None, {"length": [1]}])
def test_a_file_without_tosses_is_refused(tmp_path, content, capsys):
    path = tmp_path / "tosses.npz"
    if content:
        np.savez(path, **content)
    assert main(["--data", str(path)]) == 2
    assert f"no tosses in {path}" in capsys.readouterr().err


@pytest.mark.slow
def test_derivatives_of_a_toss_are_those_by_differences(tmp_path, outcome):
    write_toss(tmp_path / "tosses.npz")
    found = outcome(toss_gradients.main, "--data", str(tmp_path / "tosses.npz"), "--tosses", "1")[1]
    assert found["agreeing"] == 1.0 and found["off_median"] < 1e-3
    assert all(row["loss"] < found["loss_at_start"] for row in found["rows"])
