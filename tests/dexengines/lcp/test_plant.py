"""Geometries of an object's mesh in the lcp plant; its reports."""

import dataclasses

import numpy as np
import pytest
import trimesh

from dexengines.collision import read_collision
from dexengines.errors import EngineError
from dexengines.lcp import record
from dexengines.lcp.scene import geometry
from dexengines.lcp.shapes import Geometry, box, plane, sphere
from dexengines.lcp.system import SETTLED, LcpSystem
from dexstack.errors import ConfigError
from dexstack.geometry.decomposition import Surface
from dexstack.model.hand import load_hand
from dexstack.model.objects import ObjectModel, load_object
from dexstack.model.scene import build_scene
from dexstack.plants.base import WatchedPlant
from dexstack.plants.lcp import LcpPlant
from dexstack.tasks.palm_turn import PalmTurn
from experiments.lcp import systems as scenes


def object_geometries(obj: ObjectModel) -> list[Geometry]:
    return [
        geometry(g, "object")
        for g in read_collision(build_scene(load_hand(), obj).compile()).geoms
        if g.name.startswith("object")
    ]


def _angle_iron() -> trimesh.Trimesh:
    """Two plates of 10 × 40 × 60 mm that share an edge."""
    outline = np.array([[0, 0], [0.04, 0], [0.04, 0.01], [0.01, 0.01], [0.01, 0.04], [0, 0.04]])
    return trimesh.creation.extrude_triangulation(
        outline, np.array([[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 5]]), 0.06
    )


def test_a_convex_object_is_its_hull():
    (whole,) = object_geometries(load_object("cube"))
    corners = load_object("cube").mesh.convex_hull.vertices
    assert len(whole.points_B) == len(corners)
    assert (
        np.linalg.norm(whole.points_B[:, None] - corners, axis=2).min(axis=1).max() < 1e-8
    )  # a compiled model's are single precision


def test_the_plant_reports_trouble():
    plant = LcpPlant(load_hand(), load_object("cube"))
    plant.step(np.zeros(16))
    assert isinstance(plant, WatchedPlant) and plant.trouble() == ""
    plant.scene.system.counts[record.UNSOLVED] = 2
    assert plant.trouble() == "the lcp engine counted 2 contact problems without a valid solution"
    plant.reset(plant.joint_position, plant.pose_WO)
    assert plant.trouble() == ""


def test_an_object_that_starts_inside_a_finger_comes_out_of_it():
    hand, obj = load_hand(), load_object("cube")
    plant, start = LcpPlant(hand, obj), obj.start("allegro")
    pose = PalmTurn().start_pose(start, np.random.default_rng(6))
    system = plant.scene.system
    held = hand.pose(start.hand_pose)
    plant.reset(held, pose)
    assert min(system.gaps().values()) < -1e-4, "it starts inside a finger"
    for _ in range(round(SETTLED / plant.dt)):
        plant.step(2.0 * (held - plant.joint_position) - 0.05 * plant.joint_velocity)
    assert min(system.gaps().values()) > 0.0 and plant.trouble() == ""
    with pytest.raises(ConfigError, match=r"'object' overlap by [0-9]+ mm, more than 20 mm"):
        plant.reset(hand.pose(start.hand_pose), np.array([0.0, 0.0, -0.02, 1.0, 0.0, 0.0, 0.0]))


def test_a_concave_object_is_its_parts(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    angle = _angle_iron()
    iron = dataclasses.replace(
        load_object("cube"), surface=Surface(np.asarray(angle.vertices), np.asarray(angle.faces))
    )
    parts = object_geometries(iron)
    assert len(parts) > 1 and len({g.name for g in parts}) == len(parts)
    volume = sum(trimesh.convex.convex_hull(g.points_B).volume for g in parts)
    assert volume < 1.1 * iron.mesh.volume < 0.7 * iron.mesh.convex_hull.volume

    model = scenes.free_bodies({"iron": (0.2, (1e-4,) * 3), "ball": (0.01, (1e-6,) * 3)}, dt=0.005)
    system = LcpSystem(
        model,
        [
            plane("floor"),
            *(Geometry(g.name, "iron", g.points_B) for g in parts),
            sphere("ball", "ball", 0.008),
        ],
    )
    system.q[:3], system.q[7:10] = (0.0, 0.0, 1e-5), (0.02, 0.02, 0.07)
    for _ in range(60):  # the ball falls into the dent, where the hull would bear it
        system.step()
    assert min(system.gaps().values()) > 0.0
    assert 0.008 < system.q[9] < 0.0081


def test_corners_inside_the_hull_are_refused():
    model = scenes.free_bodies({"dented": (0.1, (1e-4,) * 3)}, dt=0.01)
    corners = np.vstack([box("dented", "dented", (0.05, 0.05, 0.05)).points_B, [0.0, 0.0, 0.02]])
    with pytest.raises(
        EngineError, match="'dented' is not convex: 1 of its 9 corners lie up to 30 mm inside"
    ):
        LcpSystem(model, [Geometry("dented", "dented", corners)])
