"""Wrong inputs are rejected before any node starts."""

import subprocess
import sys

import pytest

from dexstack.errors import ConfigError, unknown_name
from dexstack.graph.modes import MODES
from dexstack.graph.settings import Spec, check_run
from dexstack.plants import check_plant

TETRAHEDRON = "v 0 0 0\nv 0.05 0 0\nv 0 0.05 0\nv 0 0 0.05\nf 1 3 2\nf 1 2 4\nf 2 3 4\n"
FACE_LEFT_OUT = "f 3 1 4\n"
OBJECT = (
    "name: shard\nmesh: shard.obj\nmass: 0.1\nfriction: {{sliding: 0.5, torsional: 0.005, rolling: 0.0001}}\n"
    "start:\n  allegro: {{position: [0.0, 0.0, 0.03], yaw: 0.0, noise_position: 0.0, noise_yaw: 0.0{more}}}\n"
)


def shard(folder, closed=True, more=""):
    (folder / "shard.obj").write_text(TETRAHEDRON + (FACE_LEFT_OUT if closed else ""))
    (folder / "shard.yaml").write_text(OBJECT.format(more=more))
    return str(folder / "shard.yaml")


def parameters(folder, text):
    (folder / "p.yaml").write_text(f"mpc: {{ros__parameters: {{{text}}}}}")
    return str(folder / "p.yaml")


def test_the_check_of_a_good_run_needs_no_jax(tmp_path):
    check_run(Spec(object=shard(tmp_path)))
    check = f"from dexstack.graph.modes import MODES; MODES['sim'].check({{'object': {shard(tmp_path)!r}}})"
    code = f"import sys; {check}; print('jax' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
    )


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (lambda folder: {"object": shard(folder, closed=False)}, "not watertight"),
        (lambda folder: {"object": shard(folder, more=", hand_pose: fist")}, "no pose 'fist'"),
        (lambda folder: {"hand": "middle"}, "unknown hand"),
        (lambda folder: {"theta": "unknown"}, "no θ"),
        (lambda folder: {"params": parameters(folder, "model: implict")}, "did you mean 'implicit'"),
    ],
)
def test_unusable_objects_names_and_parameters_are_rejected(tmp_path, values, complaint):
    with pytest.raises(ConfigError, match=complaint):
        MODES["sim"].check(values(tmp_path))


def test_a_plant_without_its_library_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs numba: pip install 'dexstack\[engines\]'"):
        check_plant("hydroelastic")


def test_the_nearest_name_is_suggested():
    assert "did you mean 'mujoco'?" in str(unknown_name("plant", "mujoko", ["lcp", "mujoco"]))
    assert "did you mean" not in str(unknown_name("plant", "bullet", ["lcp", "mujoco"]))
