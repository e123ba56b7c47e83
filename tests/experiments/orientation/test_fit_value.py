"""A value fitted to logged trials: what it learns from, how hands are mirrored, and that it finds
what times depend on."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from dexstack.control.value import load_value
from dexstack.geometry.rotations import geodesic_angle
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.tasks.base import Goal
from dexstack.trials.keep import save_outcome
from dexstack.trials.sweep import BatchTrial
from experiments.orientation import fit_value

CUBE = ("cube", load_hand("right"))


def _poses(rng, n):
    quat = rng.normal(size=(n, 4))
    return np.hstack([0.05 * rng.normal(size=(n, 3)), quat / np.linalg.norm(quat, axis=1, keepdims=True)])


def _keep(folder, hand, states, dropped, rng, t):
    """A trial of one goal at times ``t`` of joints (S, 16)."""
    pose, goal, q = (
        _poses(rng, states),
        np.repeat(_poses(rng, 1), states, axis=0),
        rng.normal(size=(states, 16)),
    )
    recording = {"t": t(q), "pose_WO": pose, "q": q, "goal_WO": goal, "error": np.ones(states)}
    folder.mkdir(exist_ok=True)
    (folder / "plan.json").write_text(json.dumps({"cells": [{"spec": {"hand": hand, "object": "cube"}}]}))
    values = dict(
        reached_at=(),
        orientation_error=1.0,
        position_error=0.0,
        dropped=dropped,
        succeeded=False,
        stalls=0,
        trouble="",
    )
    outcome = BatchTrial(
        goal=Goal(goal[0], ""), recording=recording, wall_s=0.0, seed=0, label="", cell="", **values
    )
    save_outcome(folder / f"trial-{len(list(folder.glob('*.npz'))):03d}.npz", outcome)
    return recording


def test_times_are_those_to_the_next_goal_and_endless_before_a_drop():
    t, error = 0.02 * np.arange(9), np.array([1.0, 0.9, 0.3, 0.3, 1.0, 1.0, 0.9, 0.8, 0.9])
    goal = np.repeat([[0.0], [1.0], [2.0]], [5, 2, 2], axis=0)
    ends = {True: np.inf, False: np.nan}
    for dropped, end in ends.items():
        left = fit_value.time_left(t, error, goal, dropped)
        np.testing.assert_allclose(left, [0.04, 0.02, 0.0, 0.0, 0.02, 0.04, 0.02, end, end], atol=1e-12)


def test_a_left_hand_s_trials_are_a_right_one_s_in_a_mirror(tmp_path):
    kept = _keep(tmp_path, "left", 40, True, np.random.default_rng(0), lambda q: 0.02 * np.arange(len(q)))
    [log] = fit_value.read_logs(tmp_path, *CUBE)
    assert np.isinf(log.left_s).all()
    left, right, mirror = (
        load_hand("left").kinematics(),
        load_hand("right").kinematics(),
        np.array([1.0, -1.0, 1.0]),
    )
    kept = {name: a[:: fit_value.EVERY] for name, a in kept.items()}
    for q, seen in zip(kept["q"], log.q, strict=True):
        tips = [
            np.asarray(hand.fingertips(hand.poses(jnp.asarray(x, jnp.float32))))
            for hand, x in ((left, q), (right, seen))
        ]
        np.testing.assert_allclose(tips[0] * mirror, tips[1], atol=1e-5)
    np.testing.assert_allclose(log.pose_WO[:, :3], kept["pose_WO"][:, :3] * mirror)
    angles = [
        [geodesic_angle(a, b) for a, b in zip(x[:, 3:], y[:, 3:], strict=True)]
        for x, y in ((log.pose_WO, log.goal_WO), (kept["pose_WO"], kept["goal_WO"]))
    ]
    np.testing.assert_allclose(*angles, atol=1e-7)


@pytest.mark.slow
def test_what_depends_on_joints_is_found_in_them(tmp_path, monkeypatch, outcome):
    monkeypatch.setattr(fit_value, "EVERY", 1)
    monkeypatch.setattr(fit_value, "time_left", lambda t, error, goal_WO, dropped: t)
    rng, saved = np.random.default_rng(2), tmp_path / "v.json"
    for _ in range(8):
        _keep(tmp_path / "kept", "right", 400, False, rng, lambda q: np.exp(1.0 + q[:, 3]))
    code, found = outcome(fit_value.main, tmp_path / "kept", "--save", saved, "--epochs", 30)
    assert code == 0 and found["trials"] == 8 and found["states"] == 3200 and found["drops"] == 0
    assert found["explained"]["the whole state"] > 0.7 and abs(found["explained"]["the error alone"]) < 0.1
    value, (pose, goal) = load_value(saved, load_object("cube"), load_hand("right")), _poses(rng, 2)
    for third in (-1.0, 1.0):
        left = np.exp(1.0 + third)
        said = value(*(jnp.asarray(a, jnp.float32) for a in (pose, third * np.eye(16)[3], goal)))
        assert float(said) == pytest.approx(1.0 - np.exp(-left / 4.0), abs=0.15)


def test_there_have_to_be_trials_of_that_object(tmp_path, capsys):
    assert fit_value.main([str(tmp_path)]) == 2
    assert "has no trials" in capsys.readouterr().err
    _keep(tmp_path / "kept", "right", 40, True, np.random.default_rng(0), lambda q: 0.02 * np.arange(len(q)))
    assert fit_value.main([str(tmp_path / "kept"), "--object", "stick"]) == 2
    assert "has trials of cube in allegro_v4_right, not of stick" in capsys.readouterr().err
    assert fit_value.main([str(tmp_path / "kept")]) == 2
    assert "1 trials are too few" in capsys.readouterr().err
