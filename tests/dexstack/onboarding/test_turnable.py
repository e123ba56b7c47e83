"""What a hand cannot turn, told before any trial: too heavy, or its sides out of the fingertips' reach."""

from dataclasses import replace

import numpy as np
import pytest
import trimesh

from dexstack.errors import ConfigError
from dexstack.geometry.decomposition import Surface
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.model.placing import with_place
from dexstack.model.strength import heaviest
from dexstack.onboarding.turnable import fingers_at_sides, obstacle

HAND = load_hand("right")


def body(mesh, mass=0.1):
    """The cube with another shape, at the place of the rule."""
    surface = Surface(np.asarray(mesh.vertices), np.asarray(mesh.faces))
    return with_place(HAND, replace(load_object("cube"), surface=surface, size=mesh.extents, mass=mass))


@pytest.mark.parametrize("name", ["cube", "foambrick", "stick"])
def test_nothing_is_known_against_the_packaged_objects(name):
    obj = load_object(name)
    assert obstacle(HAND, obj) == "" and fingers_at_sides(HAND, obj, obj.start("allegro")).all()


@pytest.mark.parametrize(
    ("mesh", "turnable"),
    [
        (trimesh.creation.box((0.15, 0.10, 0.03)), True),
        (trimesh.creation.box((0.19, 0.07, 0.07)), True),
        (trimesh.creation.cylinder(0.137, 0.033), False),
        (trimesh.creation.box((0.36, 0.20, 0.055)), False),
        (trimesh.creation.box((0.25, 0.25, 0.25)), False),
    ],
    ids=["cereal", "carton", "plate", "pan", "crate"],
)
def test_a_side_must_be_in_reach_of_two_fingertips(mesh, turnable):
    obj = body(mesh)
    why = obstacle(HAND, obj)
    assert (why == "") is turnable
    assert turnable or ("is out of reach" in why and "\n" not in why)


def test_a_sphere_is_touched_where_its_distance_says():
    """A large sphere around a far centre has no side in reach, at whatever height."""
    obj = body(trimesh.creation.icosphere(radius=0.03))
    start = obj.start("allegro")
    away = replace(start, pose_WO=start.pose_WO + np.array([0.5, 0, 0, 0, 0, 0, 0]))
    assert fingers_at_sides(HAND, obj, start).sum() >= 2 and not fingers_at_sides(HAND, obj, away).any()


def test_a_heavy_object_is_named():
    obj = load_object("cube")
    limit = heaviest(HAND, obj)
    assert obstacle(HAND, replace(obj, mass=0.99 * limit)) == ""
    assert "is too heavy" in obstacle(HAND, replace(obj, mass=1.01 * limit))


def test_an_object_without_a_start_in_this_hand_is_rejected():
    with pytest.raises(ConfigError, match="no start"):
        obstacle(HAND, replace(load_object("cube"), starts={}))
