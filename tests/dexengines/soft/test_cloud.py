"""Oriented points: on the surface, evenly spread, outward; bad geometry is named."""

import numpy as np
import pytest
import trimesh
from scipy.spatial import cKDTree

from dexengines.errors import EngineError
from dexengines.soft import cloud
from dexengines.soft.meshing import check_mesh, filled, onto, remesh
from dexstack.model.objects import load_object
from experiments.soft import systems

SHAPES = {
    "box": (cloud.box((0.03, 0.02, 0.05), 0.004), trimesh.creation.box((0.06, 0.04, 0.10))),
    "sphere": (cloud.sphere(0.03, 0.004), trimesh.creation.icosphere(4, 0.03)),
    "cylinder": (cloud.cylinder(0.02, 0.04, 0.004), trimesh.creation.cylinder(0.02, 0.08, sections=128)),
    "capsule": (
        cloud.capsule(0.02, 0.03, 0.004),
        trimesh.creation.capsule(height=0.06, radius=0.02, count=[64, 64]),
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_points_of_primitives_lie_on_the_surface_and_cover_it(name):
    points, mesh = SHAPES[name]
    if name == "capsule":
        mesh.apply_translation(-mesh.bounds.mean(axis=0))
    cloud.check(points, name)
    nearest = cKDTree(mesh.sample(200_000)).query(points.points)[0]
    assert nearest.max() < 1.5e-3  # the samples' own spacing and the facets of the reference mesh
    assert cKDTree(points.points).query(mesh.sample(20_000))[0].max() < 0.9 * 0.004
    # divergence theorem: every quad about as large as the next would give the volume exactly
    flux = np.einsum("ij,ij->i", points.points, points.normals).mean() * mesh.area / 3.0
    assert flux == pytest.approx(mesh.volume, rel=0.08)


def test_points_on_the_end_of_a_cylinder_have_one_area_each():
    """Friction of a spinning disc has a mean lever of 2/3 of the radius."""
    points = cloud.cylinder(0.02, 0.04, 0.002).points
    lever = np.hypot(*points[np.isclose(points[:, 2], 0.04), :2].T).mean()
    assert lever == pytest.approx(2 / 3 * 0.02, rel=5e-3)


def test_boxes_have_quads_along_edges_and_no_points_on_them():
    c = cloud.box((0.03, 0.02, 0.05), 0.01)
    on_faces = np.isclose(np.abs(c.points), [0.03, 0.02, 0.05]).sum(axis=1)
    assert (on_faces == 1).all()
    assert len(c.points) == 2 * (6 * 4 + 4 * 10 + 10 * 6)
    assert np.isclose(np.abs(c.points)[:, 0].max(initial=0, where=np.abs(c.points)[:, 0] < 0.0299), 0.025)


def test_the_t_has_26_quads_and_about_4000():
    for n in (26, 4000):
        c = cloud.check(systems.t_cloud(systems.T_SPACING[n]), "T")
        assert len(c.points) == pytest.approx(n, rel=0.05 if n > 26 else 0)
        np.testing.assert_allclose(np.ptp(c.points, axis=0), [0.25, 0.20, 0.04], atol=1e-12)


def test_meshes_become_quads_on_their_surface():
    brick = load_object("foambrick").mesh
    points = remesh(brick, 0.006, "brick").points
    spacing = np.sqrt(brick.area / len(points))
    assert (
        spacing == pytest.approx(0.006, rel=0.25)
        and np.linalg.norm(points - onto(brick, points)[0], axis=1).max() < 1e-9
    )
    samples, _ = trimesh.sample.sample_surface(brick, 20 * len(points), seed=0)
    assert cKDTree(points).query(samples)[0].max() < 1.2 * spacing
    torus = remesh(trimesh.creation.torus(0.05, 0.02), 0.008)
    ring = torus.points.copy()
    ring[:, 2] = 0.0
    ring *= 0.05 / np.linalg.norm(ring, axis=1)[:, None]
    outward = torus.points - ring
    cosine = np.einsum("ij,ij->i", outward / np.linalg.norm(outward, axis=1)[:, None], torus.normals)
    assert cosine.min() > 0.95  # also around the hole


def test_invalid_meshes_are_rejected_by_name():
    good = trimesh.creation.box((0.1, 0.1, 0.1))
    opened = trimesh.Trimesh(good.vertices, good.faces[1:], process=False)
    flipped = trimesh.Trimesh(good.vertices, good.faces[:, ::-1], process=False)
    mixed = trimesh.Trimesh(good.vertices, np.vstack([good.faces[:1, ::-1], good.faces[1:]]), process=False)
    flat = trimesh.Trimesh(good.vertices, np.vstack([good.faces, [[0, 0, 1]]]), process=False)
    broken = trimesh.Trimesh(
        np.where(good.vertices == good.vertices[0], np.nan, good.vertices), good.faces, process=False
    )
    for mesh, words in (
        (opened, "is open"),
        (flipped, "point inwards"),
        (mixed, "some inwards|some outwards"),
        (flat, "without area"),
        (broken, "finite"),
    ):
        with pytest.raises(EngineError, match=words):
            check_mesh(mesh, "thing")


def test_invalid_clouds_are_rejected_by_name():
    c = cloud.sphere(0.03, 0.01)
    with pytest.raises(EngineError, match="point inwards"):
        cloud.check(cloud.Cloud(c.points, -c.normals), "ball")
    with pytest.raises(EngineError, match="unit length"):
        cloud.check(cloud.Cloud(c.points, 2 * c.normals), "ball")
    with pytest.raises(EngineError, match="not finite"):
        cloud.check(cloud.Cloud(c.points * np.nan, c.normals), "ball")
    for wrong in (
        lambda: cloud.box((0.1, 0.0, 0.1), 0.01),
        lambda: cloud.sphere(0.1, 0.0),
        lambda: cloud.sphere(-1.0, 0.1),
    ):
        with pytest.raises(EngineError, match="must be positive"):
            wrong()


def test_holes_in_a_cloud_are_filled_and_a_whole_one_is_unchanged():
    box = trimesh.creation.box((0.1, 0.06, 0.04))
    whole = cloud.box((0.05, 0.03, 0.02), 0.01)
    assert filled(box, whole, 0.01).points.shape == whole.points.shape
    torn = cloud.Cloud(*(x[whole.normals[:, 2] < 0.5] for x in whole))
    whole_again = filled(box, torn, 0.01)
    assert np.linalg.norm(whole.points[:, None] - whole_again.points[None], axis=2).min(axis=1).max() < 0.0105
    np.testing.assert_allclose(whole_again.normals[len(torn.points) :].max(axis=1), 1.0, atol=1e-12)
