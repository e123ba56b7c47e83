"""Import of objects: closed forms of what is written, the rule for its place, and rejections."""

from dataclasses import replace

import numpy as np
import pytest
import trimesh

from dexstack.errors import ConfigError
from dexstack.geometry.decomposition import Surface
from dexstack.geometry.rotations import rotate
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object, mirrored
from dexstack.model.placing import PlacingScene, place_on_palm
from dexstack.onboarding.add_object import DENSITY, Wishes, add_object, inspect


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def put(folder, mesh, name="thing.stl"):
    mesh.export(folder / name)
    return folder / name


def test_a_box_in_millimetres_has_its_closed_forms_and_lies_flat(tmp_path):
    a, b, c = 62.0, 48.0, 40.0
    turn = trimesh.transformations.random_rotation_matrix(np.random.default_rng(3).random(3))
    turn[:3, 3] = (100.0, -30.0, 7.0)
    added = add_object(
        put(tmp_path, trimesh.creation.box((a, b, c)).apply_transform(turn)),
        tmp_path / "made",
        Wishes(density=700.0),
    )
    obj = load_object(tmp_path / "made" / "thing.yaml")
    assert (added.unit, added.repaired.steps) == ("mm", ())
    assert added.yaml == tmp_path / "made" / "thing.yaml"
    np.testing.assert_allclose(obj.size, np.array([a, b, c]) / 1e3, atol=1e-7)
    assert obj.mass == pytest.approx(700.0 * a * b * c * 1e-9, rel=1e-5)
    expected = obj.mass / 12 * np.diag([b * b + c * c, a * a + c * c, a * a + b * b]) / 1e6
    np.testing.assert_allclose(obj.inertia, expected, rtol=1e-4, atol=1e-9)
    assert len(obj.parts) == 1 and added.report.part_error < 1e-7
    np.testing.assert_allclose(added.report.rests[0].down_B, [0, 0, -1], atol=1e-6)
    assert obj.start("allegro").hand_pose == "home"


@pytest.mark.slow
def test_an_l_profile_is_decomposed_into_few_parts(tmp_path):
    legs = [
        trimesh.creation.box((20, 20, 60)),
        trimesh.creation.box((40, 20, 20)).apply_translation((29, 0, -20)),
    ]
    said = []
    added = add_object(
        put(tmp_path, trimesh.util.concatenate(legs)), tmp_path / "made", Wishes(parts=4), said.append
    )
    assert "united 2 pieces" in added.repaired.steps
    assert added.obj.mass == pytest.approx(DENSITY * (20 * 20 * 60 + 39 * 20 * 20) * 1e-9, rel=1e-5)
    assert 2 <= len(added.obj.parts) <= 4 and added.obj.max_parts == 4 and added.report.part_error < 0.001
    assert any("convex parts" in line for line in said)
    again = inspect(load_object(added.yaml), lambda line: pytest.fail("decomposed again"))
    assert again.part_error == pytest.approx(added.report.part_error, abs=1e-6)


def test_the_rule_reproduces_the_starts_of_packaged_objects():
    """Their starts were found by hand: the rule's are within a centimetre, at the same height, in
    the same hand pose."""
    hand = load_hand("right")
    for name in ("cube", "stick"):
        obj = load_object(name)
        by_rule, by_hand = place_on_palm(hand, obj), obj.start("allegro")
        assert by_rule.hand_pose == by_hand.hand_pose
        np.testing.assert_allclose(by_rule.pose_WO[:2], by_hand.pose_WO[:2], atol=0.01)
        assert by_rule.pose_WO[2] == pytest.approx(by_hand.pose_WO[2], abs=0.0003)


def test_a_wide_plate_lies_on_the_hand_and_not_against_the_thumb(tmp_path):
    """Its edge would meet the thumb, which stands 35 mm over the fingers, 0.1 mm deep."""
    mesh = trimesh.creation.box((0.166, 0.123, 0.04))
    mesh.export(tmp_path / "plate.stl")
    obj = add_object(tmp_path / "plate.stl", tmp_path / "plate", Wishes(unit="m")).obj
    hand = load_hand("right")
    start = place_on_palm(hand, obj)
    stick = place_on_palm(hand, load_object("stick"))  # lies on the same fingers
    bottoms = [s.pose_WO[2] - o.size[2] / 2.0 for s, o in ((start, obj), (stick, load_object("stick")))]
    assert start.hand_pose == "flat" and abs(bottoms[0] - bottoms[1]) < 0.002
    assert 0.0 < start.pose_WO[0] - stick.pose_WO[0] <= 0.02


@pytest.mark.parametrize("name", ["right", "left", "leap_right"])
def test_a_large_disc_lies_on_fingers_and_palm_with_the_thumb_out_of_its_way(name):
    """Over the raised thumb, its edge would lie on the tip, from which it falls."""
    disc = trimesh.creation.cylinder(0.13, 0.02, sections=64)
    surface = Surface(np.asarray(disc.vertices), np.asarray(disc.faces))
    obj = replace(load_object("stick"), surface=surface, size=disc.extents, starts={})
    hand = load_hand(name)
    start = place_on_palm(hand, obj)
    assert start.hand_pose == "open"
    inclined = replace(hand, gravity=(9.81 * np.sin(0.5), 0.0, -9.81 * np.cos(0.5)))
    np.testing.assert_array_equal(place_on_palm(inclined, obj).pose_WO, start.pose_WO)
    scene = PlacingScene(hand, obj)
    raised = scene.start(np.array([start.pose_WO[0], 0.0, 0.3]), "flat")
    assert raised.pose_WO[2] > start.pose_WO[2] + 0.03
    (fall, tilt), (far, steep) = scene.released(start), scene.released(raised)
    assert fall < 0.008 and tilt < 0.08 and far > 0.02 and steep > 0.2


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("longer", [1.0, -1.0])
@pytest.mark.parametrize(("half_breadth", "axis"), [(0.03, 0), (0.09, 1)])
def test_the_longer_half_of_the_outline_points_away_from_the_thumb(side, longer, half_breadth, axis):
    """A long wedge, and one that is broader than long, as a mug with its handle."""
    corners = [(-0.05, y, z) for y in (-half_breadth, half_breadth) for z in (-0.02, 0.02)]
    corners += [(0.09, y, z) for y in (-0.01, 0.01) for z in (-0.02, 0.02)]
    points = (np.array(corners) * [longer, 1.0, 1.0])[:, [axis, 1 - axis, 2]]
    wedge = trimesh.convex.convex_hull(points)
    surface = Surface(np.asarray(wedge.vertices), np.asarray(wedge.faces))
    obj = replace(load_object("stick"), surface=surface, size=wedge.extents)
    start = place_on_palm(load_hand(side), obj)
    tip_W = rotate(start.pose_WO[3:], 0.09 * longer * np.eye(3)[axis])
    assert start.hand_pose == "flat"
    np.testing.assert_allclose(tip_W, [0.0, 0.09 if side == "right" else -0.09, 0.0], atol=1e-6)


def test_goals_use_a_symmetry_of_the_shape_only_on_request(tmp_path):
    can = put(tmp_path, trimesh.creation.cylinder(20, 60, sections=48), "can.stl")
    plain = add_object(can, tmp_path / "plain", Wishes(unit="mm", mass=0.1))
    assert sorted(axis.order for axis in plain.report.symmetry.axes) == [0, 2] and not plain.obj.symmetry
    wishes = Wishes(unit="mm", mass=0.1, alike=lambda axis: axis.order == 0)
    added = add_object(can, tmp_path / "round", wishes)
    (axis,) = added.obj.symmetry.axes
    assert axis.order == 0
    along = np.argmax(np.abs(axis.ahat_B))
    np.testing.assert_allclose(np.abs(axis.ahat_B), np.eye(3)[along], atol=1e-5)
    assert added.obj.size[along] == pytest.approx(0.06)


def test_a_left_hand_has_the_mirrored_place():
    obj = load_object("foambrick")
    right, left = (place_on_palm(load_hand(side), obj) for side in ("right", "left"))
    assert right.pose_WO[1] != 0.0
    np.testing.assert_allclose(left.pose_WO, mirrored(right.pose_WO), atol=1e-6)


def test_a_vertex_that_no_face_uses_does_not_change_the_unit(tmp_path):
    corners = [(x, y, z) for x in (-25, 25) for y in (-25, 25) for z in (-25, 25)]
    faces = ((1, 2, 4, 3), (1, 5, 6, 2), (3, 4, 8, 7), (1, 3, 7, 5), (2, 6, 8, 4), (5, 7, 8, 6))
    lines = [f"v {x} {y} {z}" for x, y, z in [*corners, (0, 0, 9000)]] + [
        f"f {a} {b} {c} {d}" for a, b, c, d in faces
    ]
    (tmp_path / "stray.obj").write_text("\n".join(lines) + "\n")
    added = add_object(tmp_path / "stray.obj", tmp_path / "made")
    assert added.unit == "mm"
    np.testing.assert_allclose(added.obj.size, 0.05)


BOX, HALF = trimesh.creation.box((50, 50, 50)), trimesh.creation.box((50, 50, 50))
HALF.update_faces(~(HALF.face_normals[:, 2] > 0.5))


@pytest.mark.parametrize(
    ("mesh", "wishes", "said"),
    [
        (BOX, Wishes(mass=1.0, density=1.0), "not both"),
        (BOX, Wishes(unit="mile"), "unknown unit"),
        (BOX, Wishes("  "), "not a name"),
        (HALF, Wishes(), r"moves its surface by .* --yes accepts it"),
        (trimesh.creation.box((900, 900, 900)), Wishes(unit="mm"), "too large"),
        (
            trimesh.creation.box((5, 5, 5)),
            Wishes(),
            r"may be in cm or in \(cm: 50 mm, in: 127 mm\);.*--unit",
        ),
        (trimesh.creation.box((900, 5, 5)), Wishes(), r"in no unit between 20 and 250 mm long .*--unit"),
    ],
)
def test_unusable_wishes_and_meshes_are_rejected(tmp_path, mesh, wishes, said):
    with pytest.raises(ConfigError, match=said):
        add_object(put(tmp_path, mesh), tmp_path, wishes)
    assert not (tmp_path / "thing.yaml").exists()


def test_wishes_settle_what_would_be_rejected(tmp_path):
    inches = put(tmp_path, trimesh.creation.box((2, 2, 2.2)))
    assert add_object(inches, tmp_path, Wishes(unit="in")).obj.size[0] == pytest.approx(2.2 * 0.0254)
    with pytest.raises(ConfigError, match="there is an object already"):
        add_object(put(tmp_path, BOX), tmp_path)
    added = add_object(put(tmp_path, HALF), tmp_path, Wishes(consent=True))
    assert added.obj.mesh.volume == pytest.approx(0.05**3)
