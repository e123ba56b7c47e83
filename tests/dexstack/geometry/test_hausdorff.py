"""Distances of surfaces in closed form, and the error of convex parts."""

import tracemalloc

import numpy as np
import pytest
import trimesh

from dexstack.geometry.hausdorff import Union, surface_distance, union_error


def both(a, b):
    there, back = surface_distance(a, b)
    return max(there[:, 3].max(), back)


def test_a_surface_has_no_distance_from_a_subdivision_of_it():
    box = trimesh.creation.box((0.06, 0.04, 0.05))
    assert both(box, box.subdivide().subdivide()) < 1e-7


def test_concentric_boxes_are_a_corner_apart():
    """The farthest point of the larger one is its corner."""
    size = np.array((0.06, 0.04, 0.05))
    assert both(trimesh.creation.box(size), trimesh.creation.box(1.02 * size)) == pytest.approx(
        0.01 * np.linalg.norm(size), rel=1e-9
    )


def test_the_distance_is_measured_in_both_directions():
    """A spike is far from the box without it; no point of the box is far from the one with it."""
    box = trimesh.creation.box((0.05, 0.05, 0.05))
    spiked = trimesh.util.concatenate(
        [box, trimesh.creation.box((0.002, 0.002, 0.02)).apply_translation([0, 0, 0.035])]
    )
    there, back = surface_distance(box, spiked)
    assert there[:, 3].max() < 1e-12 and back == pytest.approx(0.02, abs=1e-9)


def test_the_memory_for_points_in_parts_with_many_faces_is_bounded():
    """10,000 points times 20,480 planes would be 1.6 GB."""
    ball = trimesh.creation.icosphere(subdivisions=5, radius=0.03)
    union = Union([ball, ball.copy().apply_translation((0.02, 0.0, 0.0))])
    rng = np.random.default_rng(0)
    points = rng.normal(size=(10_000, 3))
    points *= 0.03 / np.linalg.norm(points, axis=1, keepdims=True)
    tracemalloc.start()
    buried = union.buried(1.001 * points, np.zeros_like(points))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6
    np.testing.assert_allclose(buried.mean(), (1.0 - 0.02 / 2 / 0.03) / 2, atol=0.01)  # the cap's share


def profile(legs):
    """Boxes (size, centre) [mm] as meshes [m]."""
    return [
        trimesh.creation.box(np.array(size) / 1e3).apply_translation(np.array(centre) / 1e3)
        for size, centre in legs
    ]


L = (((20, 20, 60), (0, 0, 30)), ((40, 20, 20), (30, 0, 10)))


def test_exact_parts_of_an_l_have_no_error():
    """The face that both legs share is not a surface of the union."""
    import manifold3d

    parts = profile(L)
    whole = manifold3d.Manifold.batch_boolean(
        [
            manifold3d.Manifold(manifold3d.Mesh64(np.array(p.vertices), np.array(p.faces, np.uint64)))
            for p in parts
        ],
        manifold3d.OpType.Add,
    ).to_mesh64()
    mesh = trimesh.Trimesh(whole.vert_properties[:, :3], whole.tri_verts, process=False)
    assert mesh.volume == pytest.approx(40e-6)
    assert union_error(mesh, parts) < 1e-9
    # the hull's slanted face goes from (10, 60) to (50, 20) mm; its middle lies 20 mm from both
    # legs
    assert union_error(mesh, [mesh.convex_hull]) == pytest.approx(0.02, abs=2e-4)
