"""θ files: round trip, atomic writes, and rejection of unusable files in a sentence."""

import os
from dataclasses import replace

import jax
import numpy as np
import pytest
import yaml

from dexstack.control.factory import PlannerParams
from dexstack.control.theta_file import (
    ThetaFile,
    load_theta,
    make_theta,
    new_theta_path,
    save_theta,
    theta_for,
)
from dexstack.errors import ConfigError


@pytest.fixture
def content(resting):
    theta = jax.tree.map(np.asarray, make_theta(resting.hand, resting.obj, PlannerParams(), 0.1))
    data = {"transitions": 400, "sha256": "ab" * 32, "source": "on policy"}
    return ThetaFile(
        theta, "cube", resting.hand.name, "implicit", 0.1, 7, "2026-01-02T03:04:05Z", data, {"loss": 0.25}
    )


@pytest.fixture(autouse=True)
def somewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_saved_theta_is_loaded_by_name(content):
    path = new_theta_path("mine")
    save_theta(path, content)
    back = load_theta("mine", 16)
    jax.tree.map(np.testing.assert_array_equal, back.theta, content.theta)
    assert replace(back, theta=content.theta) == content
    document = yaml.safe_load(path.read_text())
    assert all("unit" in entry for entry in document["theta"].values()) and document["step"]["unit"] == "s"


def test_the_planner_takes_it_by_name(content, resting):
    learned = content.theta._replace(friction=np.float32(0.33))
    save_theta(new_theta_path("mine"), replace(content, theta=learned))
    for name in ("mine", "theta/mine.yaml"):
        theta = make_theta(resting.hand, resting.obj, PlannerParams(theta=name), 0.1)
        assert theta.friction == np.float32(0.33)


@pytest.mark.parametrize(
    ("change", "asked", "complaint"),
    [
        ({"object": "stick"}, {}, "object 'stick'"),
        ({"hand": "left"}, {}, "hand 'left'"),
        ({"step": 0.05}, {}, "step 0.05"),
        ({}, {"joints": 9}, r"'stiffness' of theta/mine.yaml has the shape \(16,\), \(9,\) expected"),
        ({}, {"name": "yours"}, r"no θ 'yours'.*known:.*mine"),
        ({}, {"name": "no/such.yaml"}, r"no file no/such\.yaml"),
    ],
)
def test_an_unknown_theta_or_one_for_something_else_is_rejected(content, change, asked, complaint):
    save_theta(new_theta_path("mine"), replace(content, **change))
    usual = {"name": "mine", "object_name": "cube", "robot_name": content.hand, "step": 0.1, "joints": 16}
    with pytest.raises(ConfigError, match=complaint):
        theta_for(**usual | asked)


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_good_file(content, where, monkeypatch):
    path = new_theta_path("mine")
    save_theta(path, content)
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, where, fail)
    with pytest.raises(ConfigError, match="No space left"):
        save_theta(path, replace(content, seed=8))
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["mine.yaml"]


def test_a_number_out_of_range_is_not_saved(content):
    path = new_theta_path("mine")
    for name, value in (
        ("mass", np.float32(np.nan)),
        ("cover", np.ones(16, np.float32)),
        ("inertia", np.ones(5, np.float32)),
    ):
        with pytest.raises(ConfigError, match=f"'{name}'"):
            save_theta(path, replace(content, theta=content.theta._replace(**{name: value})))
    assert not path.exists()


def test_every_truncation_of_a_file_is_rejected(content):
    path = new_theta_path("mine")
    save_theta(path, content)
    text = path.read_text()
    for end in range(0, len(text) - 40, 37):
        path.write_text(text[:end])
        with pytest.raises(ConfigError):
            load_theta("mine", 16)
