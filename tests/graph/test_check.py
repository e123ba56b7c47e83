"""What a user has wrong is said before any node starts."""

import sys

import pytest

from dexstack.config import param, unknown_name
from dexstack.engines import check_plant
from dexstack.errors import ConfigError
from dexstack.graph.check import check_scene, check_values
from dexstack.graph.modes import MODES

TETRAHEDRON = "v 0 0 0\nv 0.05 0 0\nv 0 0.05 0\nv 0 0 0.05\nf 1 3 2\nf 1 2 4\nf 2 3 4\n"
FACE_LEFT_OUT = "f 3 1 4\n"
OBJECT = (
    "name: shard\nmesh: shard.obj\nmass: 0.1\nfriction: {{sliding: 0.5, torsional: 0.005, rolling: 0.0001}}\n"
    "start:\n  {task}: {{position: [0.0, 0.0, 0.03], yaw: 0.0, noise_position: 0.0, noise_yaw: 0.0{more}}}\n"
)


def shard(folder, closed=True, task="allegro", more=""):
    (folder / "shard.obj").write_text(TETRAHEDRON + (FACE_LEFT_OUT if closed else ""))
    (folder / "shard.yaml").write_text(OBJECT.format(task=task, more=more))
    return str(folder / "shard.yaml")


def test_a_scene_that_can_be_used_is_returned(tmp_path):
    hand, obj = check_scene("allegro", shard(tmp_path), "right", "mujoco")
    assert hand.side == "right" and obj.name == "shard"


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"closed": False}, "not watertight"),
        ({"task": "other"}, "no start pose for the task 'allegro'"),
        ({"more": ", hand_pose: fist"}, "no pose 'fist'"),
    ],
)
def test_an_object_is_refused_before_anything_starts(tmp_path, wrong, complaint):
    with pytest.raises(ConfigError, match=complaint):
        MODES["sim"].check({"object": shard(tmp_path, **wrong)})


@pytest.mark.parametrize(
    ("values", "complaint"),
    [({"hand": "middle"}, "unknown hand"), ({"theta": "none_of_that_name"}, "no θ"), ({"params": "missing.yaml"}, "no parameter file")],
)
def test_names_of_a_run_are_looked_up(values, complaint):
    with pytest.raises(ConfigError, match=complaint):
        MODES["sim"].check(values)


def test_a_plant_without_its_library_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs numba: pip install 'dexstack\[hydroelastic\]'"):
        check_plant("hydroelastic")


def test_the_nearest_name_is_offered():
    assert "did you mean 'mujoco'?" in str(unknown_name("plant", "mujoko", ["lcp", "mujoco"]))
    assert "did you mean" not in str(unknown_name("plant", "bullet", ["lcp", "mujoco"]))


def test_a_value_out_of_its_range_is_refused(tmp_path):
    from dataclasses import make_dataclass

    block = make_dataclass("Block", [("rate", float, param(1.0, "rate [Hz]", 0.0, 2.0))], frozen=True)
    file = tmp_path / "p.yaml"
    file.write_text("hand:\n  ros__parameters: {rate: 3.0, other: 1}\n")
    check_values([file], [(block, "camera")])
    with pytest.raises(ConfigError, match=r"'rate' must lie in \[0.0, 2.0\], got 3.0"):
        check_values([file], [(block, "hand")])
