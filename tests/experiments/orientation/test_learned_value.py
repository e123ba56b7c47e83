"""A learned value: what it learns from, how hands are mirrored, that it finds what times depend on, and that plans pay for it."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from dexstack.control.base import PlannedState
from dexstack.errors import ConfigError
from dexstack.geometry.rotations import geodesic_angle
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.tasks.base import Goal
from dexstack.tasks.reorient import Reorient
from dexstack.trials.keep import save_outcome
from dexstack.trials.sweep import Outcome
from experiments.orientation import fit_value, learned_value


def _poses(rng, n):
    quat = rng.normal(size=(n, 4))
    return np.hstack([0.05 * rng.normal(size=(n, 3)), quat / np.linalg.norm(quat, axis=1, keepdims=True)])


def _keep(folder, hand, states, dropped, rng, left_of):
    """A trial of one goal, ``left_of`` which the joints alone say how long it takes."""
    pose, goal, q = _poses(rng, states), np.repeat(_poses(rng, 1), states, axis=0), rng.normal(size=(states, 16))
    recording = {"t": left_of(q), "pose_WO": pose, "q": q, "goal_WO": goal, "error": np.ones(states)}
    folder.mkdir(exist_ok=True)
    (folder / "plan.json").write_text(json.dumps({"cells": [{"spec": {"hand": hand}}]}))
    values = dict(reached_at=(), orientation_error=1.0, position_error=0.0, dropped=dropped, succeeded=False, stalls=0, trouble="")
    outcome = Outcome(goal=Goal(goal[0], ""), recording=recording, wall_s=0.0, seed=0, label="", cell="", **values)
    save_outcome(folder / f"trial-{len(list(folder.glob('*.npz'))):03d}.npz", outcome)
    return recording


def test_times_are_those_to_the_next_goal_and_endless_before_a_drop():
    t, error = 0.02 * np.arange(8), np.array([1.0, 0.9, 0.3, 0.2, 1.0, 0.9, 0.8, 0.9])
    goal = np.repeat([[0.0], [1.0], [2.0]], [4, 2, 2], axis=0)
    nan, inf = np.nan, np.inf
    np.testing.assert_allclose(fit_value._left(t, error, goal, dropped=True), [0.04, 0.02, nan, nan, 0.04, 0.02, inf, inf])
    np.testing.assert_allclose(fit_value._left(t, error, goal, dropped=False), [0.04, 0.02, nan, nan, 0.04, 0.02, nan, nan])


def test_a_left_hand_s_trials_are_a_right_one_s_in_a_mirror(tmp_path):
    kept = _keep(tmp_path, "left", 40, True, np.random.default_rng(0), lambda q: 0.02 * np.arange(len(q)))
    [log] = fit_value.read_logs(tmp_path)
    left, right, mirror = load_hand("left").kinematics(), load_hand("right").kinematics(), np.array([1.0, -1.0, 1.0])
    chosen = np.isin(kept["pose_WO"][:, 0], log.pose_WO[:, 0])
    assert chosen.sum() == len(log.q) == 8
    for q, seen in zip(kept["q"][chosen], log.q, strict=True):
        tips = [np.asarray(hand.fingertips(hand.poses(jnp.asarray(x, jnp.float32)))) for hand, x in ((left, q), (right, seen))]
        np.testing.assert_allclose(tips[0] * mirror, tips[1], atol=1e-5)
    np.testing.assert_allclose(log.pose_WO[:, :3], kept["pose_WO"][chosen, :3] * mirror)
    for before, after, goal in zip(kept["pose_WO"][chosen], log.pose_WO, log.goal_WO, strict=True):
        assert geodesic_angle(after[3:], goal[3:]) == pytest.approx(geodesic_angle(before[3:], kept["goal_WO"][0, 3:]), abs=1e-7)


@pytest.mark.parametrize(("half", "alike"), [((1, 1, 1), 24), ((1, 1, 2), 8), ((1, 2, 3), 4)])
def test_a_box_looks_as_before_by_so_many_turns(half, alike):
    corners = np.array(np.meshgrid(*[(-h, h) for h in half])).reshape(3, -1).T
    assert len(fit_value.turns_alike(corners)) == alike


def test_features_know_the_error_and_not_the_sign_of_a_quaternion():
    rng = np.random.default_rng(1)
    pose, goal = _poses(rng, 2)
    x = learned_value.features(pose, np.zeros(16), goal)
    assert len(x) == learned_value.POSE_FEATURES + 16
    assert float(x[learned_value.ERROR]) == pytest.approx(geodesic_angle(pose[3:], goal[3:]), abs=1e-5)
    np.testing.assert_allclose(x, learned_value.features(pose * [1, 1, 1, -1, -1, -1, -1], np.zeros(16), goal), atol=1e-6)


def test_what_depends_on_joints_is_found_in_them(tmp_path, monkeypatch):
    monkeypatch.setattr(fit_value, "EVERY", 1)
    monkeypatch.setattr(fit_value, "_left", lambda t, error, goal_WO, dropped: t)
    rng, file = np.random.default_rng(2), tmp_path / "out.json"
    for _ in range(8):
        _keep(tmp_path / "kept", "right", 400, False, rng, lambda q: np.exp(1.0 + q[:, 3]))
    asked = [str(tmp_path / "kept"), "--to", str(tmp_path / "v.npz"), "--json", str(file)]
    assert fit_value.main([*asked, "--epochs", "30", "--picture", str(tmp_path / "v.png")]) == 0
    found = json.loads(file.read_text())["results"]
    assert found["trials"] == 8 and found["states"] == 3200 and found["drops"] == 0
    assert found["explained"]["the whole state"] > 0.7 and abs(found["explained"]["the error alone"]) < 0.1
    task = learned_value.TASK(learned_value.ValueParams(value=str(tmp_path / "v.npz")))
    pose, goal = (jnp.asarray(p, jnp.float32) for p in _poses(rng, 2))
    state = PlannedState(pose[:3], pose[3:], jnp.zeros(16).at[3].set(1.0), jnp.zeros((4, 3)))
    weights = learned_value.ValueWeights(value_weight=2.0)
    residuals, usual = task.terminal(state, goal, weights), Reorient().terminal(state, goal, weights)
    np.testing.assert_allclose(residuals[:-1], usual)
    assert float(residuals[-1]) ** 2 == pytest.approx(2.0 * (1.0 - np.exp(-np.exp(2.0) / 4.0)), abs=0.3)


def test_there_have_to_be_trials_and_a_value(tmp_path, capsys):
    assert fit_value.main([str(tmp_path)]) == 2
    assert "keeps no trials" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="file of the learned value, '', cannot be read"):
        learned_value.TASK()
    assert len(fit_value.turns_alike(np.asarray(load_object("cube").hull_vertices, float))) == 24
