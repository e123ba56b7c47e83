"""Tag bundles: the packaged ones, reading, rejections."""

import numpy as np
import pytest
import yaml

from dexstack.errors import ConfigError
from dexstack.model.objects import load_object, object_names
from dexstack.perception.bundle import base_bundle, load_bundle, object_bundle, save_bundle


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
    ("change", "message"),
    [
        ({"id": 587}, "from 0 to 586"),
        ({"id": True}, "whole number"),
        ({"edge": -0.1}, "edge' must lie in"),
        ({"edge": float("nan")}, "edge"),
        ({"centre": [0, 0]}, "3 finite numbers"),
        ({"up": [0, 1, 1]}, "must be perpendicular"),
        ({"normal": [0, 0, 0]}, "must be perpendicular"),
        ({"size": 1}, "exactly the entries"),
    ],
)
def test_a_malformed_bundle_is_one_clear_error(tmp_path, change, message):
    path = tmp_path / "b.yaml"
    path.write_text(yaml.safe_dump({"name": "x", "tags": [GOOD]}))
    assert load_bundle(path).tags[3].edge == 0.03
    path.write_text(yaml.safe_dump({"name": "x", "tags": [{**GOOD, **change}]}))
    with pytest.raises(ConfigError, match=message):
        load_bundle(path)


def test_missing_and_duplicate_tags_are_rejected(tmp_path):
    path = tmp_path / "b.yaml"
    path.write_text(yaml.safe_dump({"name": "x", "tags": [GOOD, GOOD]}))
    with pytest.raises(ConfigError, match="the tag 3 is listed twice"):
        load_bundle(path)
    path.write_text("name: x\ntags: []\n")
    with pytest.raises(ConfigError, match="list of tags"):
        load_bundle(path)
    with pytest.raises(ConfigError, match="unknown object 'teapot'"):
        object_bundle("teapot")
    with pytest.raises(ConfigError, match="has no tags"):
        object_bundle(tmp_path / "thing.yaml")
