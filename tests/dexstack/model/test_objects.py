"""Objects: sizes, masses and inertias, and rejection of malformed files."""

from pathlib import Path

import numpy as np
import pytest
import trimesh

from dexstack.errors import ConfigError
from dexstack.model.objects import load_object, load_start, object_names, scaled

FACTS = {
    "cube": ((0.056, 0.056, 0.056), 0.2),
    "foambrick": ((0.052, 0.075, 0.047), 0.05),
    "stick": ((0.130, 0.035, 0.030), 0.1),
}


@pytest.mark.parametrize("name", object_names())
def test_size_mass_and_frame(name):
    obj = load_object(name)
    size, mass = FACTS[name]
    np.testing.assert_allclose(obj.size, size, atol=1e-6)
    assert obj.mass == mass
    assert obj.friction[0] == 0.5
    np.testing.assert_allclose(obj.mesh.center_mass, 0.0, atol=1e-9)
    assert obj.mesh.is_watertight and obj.mesh.is_convex
    assert obj.mesh_path.stat().st_size < 20_000
    assert np.linalg.norm(obj.start("allegro").pose_WO[3:]) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ("foambrick", "stick"))
def test_inertia_by_sampling_the_inside(name):
    """Uniform density, checked by points thrown into the bounding box (200,000 points: within 1
    %)."""
    obj = load_object(name)
    low, high = obj.mesh.bounds
    points = np.random.default_rng(0).uniform(low, high, (200_000, 3))
    hull = obj.mesh.convex_hull
    inside = points[
        (
            (points @ hull.face_normals.T) <= np.einsum("ij,ij->i", hull.face_normals, hull.triangles[:, 0])
        ).all(axis=1)
    ]
    squares = np.einsum("ki,kj->ij", inside, inside) / len(inside)
    expected = obj.mass * (np.trace(squares) * np.eye(3) - squares)
    np.testing.assert_allclose(obj.inertia, expected, atol=0.01 * np.trace(expected) / 3)


GOOD = """\
name: box
mesh: box.obj
mass: 0.1
friction: {sliding: 0.5, torsional: 0.005, rolling: 0.0001}
start:
  allegro: {position: [0.0, 0.0, 0.04], yaw: 1.5707963267948966, noise_position: 0.0, noise_yaw: 0.0}
"""


def write_object(folder: Path, old: str = "", new: str = "", mesh: trimesh.Trimesh | None = None) -> Path:
    assert old in GOOD
    (mesh or trimesh.creation.box((0.02, 0.04, 0.06))).export(folder / "box.obj")
    path = folder / "box.yaml"
    path.write_text(GOOD.replace(old, new) if old else GOOD)
    return path


def test_an_object_needs_only_a_mesh_and_a_yaml(tmp_path):
    mesh = trimesh.creation.box((0.02, 0.04, 0.06))
    mesh.apply_translation((0.01, 0.02, 0.03))
    obj = load_object(write_object(tmp_path, mesh=mesh))
    np.testing.assert_allclose(obj.size, (0.02, 0.04, 0.06), atol=1e-7)
    np.testing.assert_allclose(np.diag(obj.inertia), 0.1 / 12 * np.array([52e-4, 40e-4, 20e-4]), rtol=1e-5)
    np.testing.assert_allclose(obj.mesh.bounds.sum(axis=0), 0.0, atol=1e-7)
    start = obj.start("allegro")
    np.testing.assert_allclose(start.pose_WO, (0, 0, 0.04, np.sqrt(0.5), 0, 0, np.sqrt(0.5)), atol=1e-12)
    assert start.hand_pose == "home" and obj.contact_dimension == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mass: 0.1", "mass: 0.0", "'mass' must be positive, got 0 kg"),
        ("mass: 0.1", "mass: -1", "'mass' must be positive"),
        ("mass: 0.1", "mass: heavy", "'mass' must be a finite number, got"),
        ("mass: 0.1\n", "", "lacks the key 'mass'"),
        ("mesh: box.obj", "mesh: ball.obj", "there is no mesh file .*ball.obj"),
        ("sliding: 0.5", "sliding: -0.5", "friction must not be negative"),
        ("sliding: 0.5, ", "", "'friction' must have exactly the entries sliding"),
        ("name: box", "name: box\ncolour: red", "unknown key of .* 'colour'"),
        ("name: box", "name: box\ncontact_dimension: 5", "'contact_dimension' must be 3, 4 or 6"),
        ("[0.0, 0.0, 0.04]", "[0.0, 0.0]", "'start.allegro.position' must be 3 finite numbers"),
        ("noise_yaw: 0.0", "noise_yaw: -1.0", "noise of 'start.allegro' must not be negative"),
        ("yaw: 1.5707963267948966, ", "", "'start.allegro' must have the entries position, yaw"),
        ("start:", "start: [", "not valid YAML"),
        (
            "name: box",
            "name: box\nsymmetry: {axis: [0, 0, 1], order: 2}",
            "'symmetry' must be a list of axes",
        ),
        (
            "name: box",
            "name: box\nsymmetry: [{axis: [0, 0, 0], order: 2}]",
            r"'symmetry\[0\].axis' has no direction",
        ),
        (
            "name: box",
            "name: box\nsymmetry: [{axis: [0, 0, 1], order: 1}]",
            "must be 2 to 24, or 0 for any angle, got 1",
        ),
        (
            "name: box",
            "name: box\nsymmetry: [{axis: [0, 0, 1], order: 5}, {axis: [1, 0, 1], order: 7}]",
            "do not belong to one body",
        ),
    ],
)
def test_a_broken_object_yaml_gives_one_clear_sentence(tmp_path, old, new, message):
    with pytest.raises(ConfigError, match=message) as caught:
        load_object(write_object(tmp_path, old, new))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_object("teapot"), "unknown object 'teapot'; known: cube, foambrick, stick"),
        (lambda: load_object("/nowhere/teapot.yaml"), r"cannot read /nowhere/teapot\.yaml"),
        (
            lambda: load_object("cube").start("juggling"),
            "'cube' has no start pose for the task 'juggling'; it has allegro",
        ),
        (lambda: scaled(load_object("cube"), size=0.0), "must be positive"),
    ],
)
def test_unknown_objects_tasks_and_sizes_are_rejected(call, message):
    with pytest.raises(ConfigError, match=message):
        call()


def test_a_start_is_mirrored_in_a_left_hand():
    right, left = (load_object("foambrick").start("allegro", side) for side in ("right", "left"))
    assert right.pose_WO[1] != 0.0
    np.testing.assert_array_equal(left.pose_WO, right.pose_WO * [1, -1, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(load_start("foambrick", "allegro", "left").pose_WO, left.pose_WO)


def test_a_scaled_object_has_its_inertia_and_rests_on_the_same_support():
    cube = load_object("cube")
    heavy = scaled(cube, mass=2.0, friction=0.5, size=1.05)
    assert heavy.mass == pytest.approx(2 * cube.mass) and heavy.friction[0] == pytest.approx(
        cube.friction[0] / 2
    )
    np.testing.assert_allclose(heavy.inertia, 2 * 1.05**2 * cube.inertia)
    np.testing.assert_allclose(heavy.mesh.extents, 1.05 * cube.mesh.extents)
    bottom = [o.start("allegro").pose_WO[2] + o.mesh.bounds[0, 2] for o in (cube, heavy)]
    assert bottom[0] == pytest.approx(bottom[1])
