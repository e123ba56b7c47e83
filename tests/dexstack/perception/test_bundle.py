"""Tag bundles: the packaged ones, reading, rejections, and placing on an object."""

import numpy as np
import pytest
import trimesh
import yaml

from dexstack.errors import ConfigError
from dexstack.model.objects import load_object, object_names
from dexstack.perception.bundle import base_bundle, load_bundle, object_bundle, save_bundle
from dexstack.perception.tag_placing import BORDER, FIRST, LARGEST, place_tags


@pytest.mark.parametrize("name", object_names())
def test_the_tags_of_every_object_lie_on_its_surface_and_fit_it(name):
    obj, bundle = load_object(name), object_bundle(name)
    planes = obj.mesh.convex_hull.face_normals, obj.mesh.convex_hull.triangles[:, 0]
    for tag in bundle.tags.values():
        reach = tag.edge * 10 / 8  # the white border belongs to the tag
        corners = tag.X_OT.apply(reach / 2 * np.array([[-1, 1, 0], [1, 1, 0], [1, -1, 0], [-1, -1, 0]]))
        height = np.einsum("fi,pfi->pf", planes[0], corners[:, None] - planes[1][None]).max(axis=1)
        # the print lies flat on the surface, or bends with it
        assert height.min() > -1.5e-3 and height.max() < 1.5e-3, (name, tag.tag)
        assert np.linalg.det(tag.X_OT.R) == pytest.approx(1.0)


def test_no_tag_is_used_twice():
    ids = [t for name in object_names() for t in object_bundle(name).tags] + list(base_bundle().tags)
    assert len(ids) == len(set(ids))


def test_a_bundle_survives_a_round_trip(tmp_path):
    bundle = object_bundle("stick")
    save_bundle(tmp_path / "b.yaml", bundle, "a test")
    again = load_bundle(tmp_path / "b.yaml")
    assert again.name == "stick" and list(again.tags) == list(bundle.tags)
    assert np.allclose(again.points, bundle.points, atol=1e-6)


GOOD = {"id": 3, "edge": 0.03, "centre": [0, 0, 0.02], "normal": [0, 0, 2], "up": [0, 1, 0]}


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ([GOOD | {"id": 587}], "from 0 to 586"),
        ([GOOD | {"id": True}], "whole number"),
        ([GOOD | {"edge": -0.1}], "edge' must lie in"),
        ([GOOD | {"edge": float("nan")}], "edge"),
        ([GOOD | {"centre": [0, 0]}], "3 finite numbers"),
        ([GOOD | {"up": [0, 1, 1]}], "must be perpendicular"),
        ([GOOD | {"normal": [0, 0, 0]}], "must be perpendicular"),
        ([GOOD | {"size": 1}], "exactly the entries"),
        ([GOOD, GOOD], "the tag 3 is listed twice"),
        ([], "list of tags"),
    ],
)
def test_a_malformed_bundle_is_one_clear_error(tmp_path, tags, message):
    path = tmp_path / "b.yaml"
    path.write_text(yaml.safe_dump({"name": "x", "tags": [GOOD]}))
    assert load_bundle(path).tags[3].edge == 0.03
    path.write_text(yaml.safe_dump({"name": "x", "tags": tags}))
    with pytest.raises(ConfigError, match=message):
        load_bundle(path)


@pytest.mark.parametrize(
    ("name", "message"), [("teapot", "unknown object 'teapot'"), ("/thing.yaml", "has no tags")]
)
def test_an_object_without_tags_is_rejected(name, message):
    with pytest.raises(ConfigError, match=message):
        object_bundle(name)


def test_a_box_gets_one_tag_on_each_side():
    size = np.array((0.06, 0.045, 0.03))
    bundle = place_tags("box", trimesh.creation.box(size))
    assert list(bundle.tags) == [FIRST + k for k in range(6)]
    for tag in bundle.tags.values():
        axis = int(np.argmax(np.abs(tag.normal)))
        assert abs(tag.normal[axis]) == pytest.approx(1.0) and tag.X_OT.p[axis] == pytest.approx(
            tag.normal[axis] * size[axis] / 2
        )
        room = np.delete(size, axis).min()
        assert room - 0.001 * BORDER < BORDER * tag.edge <= room + 1e-9 or tag.edge == LARGEST
        others = np.delete(np.arange(3), axis)
        reach = BORDER / 2 * (tag.corners - tag.X_OT.p)[:, others] * 2 + tag.X_OT.p[others]
        assert (np.abs(reach) <= size[others] / 2 + 1e-6).all()


def test_inner_faces_and_round_bodies_get_no_tags():
    ring = trimesh.creation.annulus(0.03, 0.035, 0.05, sections=64)
    assert place_tags("ring", ring) is None
    assert place_tags("ball", trimesh.creation.icosphere(subdivisions=3, radius=0.03)) is None
