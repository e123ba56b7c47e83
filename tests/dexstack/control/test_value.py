"""A learned value: features, file, choice by name, and its cost at the end of a plan."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dexstack.config import numbers
from dexstack.control import value as module
from dexstack.control.base import Pull
from dexstack.control.value import (
    AUTO,
    ERROR,
    REACHED,
    LearnedValue,
    features,
    load_value,
    save_value,
    value_for,
)
from dexstack.errors import ConfigError
from dexstack.geometry.rotations import geodesic_angle, quaternion_product, yaw_quaternion
from tests.dexstack.control.planning import GOAL, SAMPLING, make

N = 16


def a_value(rng, hand="allegro_v4_right", obj="cube", n=7 + N):
    layers = [(rng.normal(size=(3, a, b)), rng.normal(size=(3, 1, b))) for a, b in ((n, 4), (4, 1))]
    return LearnedValue(obj, hand, rng.normal(size=n), rng.uniform(0.5, 1.5, n), layers, {"trials": 7})


def a_state(rng):
    pose, goal = rng.normal(size=(2, 7))
    return [jnp.asarray(a, jnp.float32) for a in (pose, rng.normal(size=N), goal)]


def test_features_do_not_depend_on_the_sign_of_a_quaternion():
    rng = np.random.default_rng(1)
    for _ in range(20):
        pose, q, goal = a_state(rng)
        x = np.asarray(features(pose, q, goal))
        assert x[ERROR] == pytest.approx(geodesic_angle(np.asarray(pose[3:]), np.asarray(goal[3:])), abs=1e-4)
        assert np.linalg.norm(x[3:6]) == pytest.approx(np.sin(x[ERROR]), abs=1e-5)
        np.testing.assert_allclose(
            x, features(pose * jnp.array([1.0, 1, 1, -1, -1, -1, -1]), q, goal), atol=1e-5
        )
        np.testing.assert_allclose(x[7:], q)


def test_a_saved_value_is_loaded_with_its_provenance(tmp_path, resting):
    rng = np.random.default_rng(2)
    value, state = a_value(rng), a_state(rng)
    save_value(tmp_path / "own" / "v.json", value)
    read = load_value(tmp_path / "own" / "v.json", resting.obj, resting.hand)
    assert read.learned == {"trials": 7}
    assert float(read(*state)) == pytest.approx(float(value(*state)), abs=2e-3)
    assert float(jax.jit(read)(*state)) == pytest.approx(float(read(*state)), abs=1e-5)


def test_a_value_of_another_hand_or_object_or_an_incomplete_file_is_rejected(tmp_path, resting):
    rng, path, documents = np.random.default_rng(3), tmp_path / "v.json", []
    for n in (7 + N, 7 + 12):
        save_value(path, a_value(rng, n=n))
        documents.append(json.loads(path.read_text()))
    whole, other = documents
    for document, wrong in (
        (whole | {"hand": "allegro_v4_left"}, "of the hand 'allegro_v4_left', not of 'allegro_v4_right'"),
        (whole | {"object": "stick"}, "of the object 'stick', not of 'cube'"),
        (other, "cannot be read"),
        *(({k: v for k, v in whole.items() if k != name}, "cannot be read") for name in whole),
        *(
            (whole | {name: whole[name][:-1]}, "networks of 23 features are needed")
            for name in ("mean", "scale")
        ),
    ):
        path.write_text(json.dumps(document))
        with pytest.raises(ConfigError, match=wrong):
            load_value(path, resting.obj, resting.hand)
    with pytest.raises(ConfigError, match="nowhere"):
        value_for("nowhere", resting.obj, resting.hand)


def test_a_name_refers_first_to_the_working_directory(tmp_path, resting, monkeypatch):
    monkeypatch.chdir(tmp_path)
    comes = value_for(AUTO, resting.obj, resting.hand)
    assert comes is not None and comes.learned["trials"] > 100
    assert value_for("", resting.obj, resting.hand) is None
    own = a_value(np.random.default_rng(4))
    save_value(module.FOLDER / "cube-allegro_v4_right.json", own)
    for name in (AUTO, "cube-allegro_v4_right", "values/cube-allegro_v4_right.json"):
        assert value_for(name, resting.obj, resting.hand).learned == {"trials": 7}
    monkeypatch.setattr(module, "data_dir", lambda: tmp_path)
    (module.FOLDER / "cube-allegro_v4_right.json").unlink()
    assert value_for(AUTO, resting.obj, resting.hand) is None


def test_the_value_of_the_end_is_a_cost_until_the_goal_is_near(tmp_path, resting):
    rng, path = np.random.default_rng(5), tmp_path / "v.json"
    save_value(path, a_value(rng))
    paid, costs = load_value(path, resting.obj, resting.hand), []
    pose_WO, q = (jnp.asarray(rng.normal(size=(3, 4, k)), jnp.float32) for k in (7, N))
    turned = [
        quaternion_product(yaw_quaternion(error), GOAL[3:]) for error in (2.0, 1.1 * REACHED, 0.9 * REACHED)
    ]
    starts = [pose_WO.at[:, 0, 3:].set(quat) for quat in turned]
    for name in ("", str(path)):
        planner = make(
            resting, planner="sampling", **SAMPLING, sampling_value=name, sampling_value_weight=70.0
        )
        rest = (q, jnp.zeros_like(q), GOAL, Pull(np.zeros(N), 0.0), numbers(planner.weights))
        costs.append([planner.costs(start, *rest) for start in starts])
    ahead = np.array(
        [70.0 * paid(pose_WO[k, -1], q[k, -1], jnp.asarray(GOAL, jnp.float32)) for k in range(3)]
    )
    np.testing.assert_allclose(np.subtract(*costs[::-1]), [ahead, ahead, 0.0 * ahead], rtol=0.02, atol=1e-3)
