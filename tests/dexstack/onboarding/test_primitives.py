"""Primitives for hulls: primitives are recognised, and errors agree with closed forms."""

import numpy as np
import pytest
import trimesh

from dexstack.errors import ConfigError
from dexstack.geometry.hausdorff import largest_plane_distance
from dexstack.onboarding.primitives import MOST_CORNERS, ROUND, coarse_hull, depth, nearest_primitive


def turned(mesh):
    return mesh.apply_transform(
        trimesh.transformations.random_rotation_matrix(np.random.default_rng(5).random(3))
    )


@pytest.mark.parametrize(
    ("mesh", "kind", "size", "error"),
    [
        (trimesh.creation.box((0.02, 0.03, 0.05)), "box", [0.01, 0.015, 0.025], 1e-6),
        (trimesh.creation.icosphere(subdivisions=4, radius=0.012), "sphere", [0.012], 7e-4),
        (trimesh.creation.capsule(height=0.04, radius=0.01, count=[48, 48]), "capsule", [0.01, 0.02], 7e-4),
    ],
)
def test_a_primitive_is_recognised(mesh, kind, size, error):
    found = nearest_primitive(np.asarray(turned(mesh.copy()).vertices))
    assert found.kind == kind and found.error < error
    np.testing.assert_allclose(np.sort(found.size) if kind == "box" else found.size, size, atol=4e-4)
    np.testing.assert_allclose(found.p, np.zeros(3), atol=4e-4)


def test_the_error_of_a_sphere_for_a_cube():
    """A cube of half side 1 cm: the sphere's radius lies between face and corner, and the farther
    of them is the error."""
    found = nearest_primitive(np.asarray(trimesh.creation.box((0.02, 0.02, 0.02)).vertices), ("sphere",))
    radius = found.size[0]
    assert 0.01 < radius < 0.01 * np.sqrt(3.0)
    assert found.error == pytest.approx(max(0.01 * np.sqrt(3.0) - radius, radius - 0.01), rel=0.1)


def test_depth_is_positive_inside():
    inside, outside = np.zeros((1, 3)), np.array([[0.0, 0.0, 0.05]])
    for kind, size, deep, far in (
        ("box", [1e-2, 2e-2, 3e-2], 1e-2, 2e-2),
        ("capsule", [1e-2, 2e-2], 1e-2, 2e-2),
        ("sphere", [1e-2], 1e-2, 4e-2),
    ):
        assert depth(kind, np.array(size), inside)[0] == pytest.approx(deep)
        assert depth(kind, np.array(size), outside)[0] == pytest.approx(-far)
    assert depth("cylinder", np.array([1e-2, 2e-2]), np.array([[0.0, 0.0, 0.015]]))[0] == pytest.approx(0.005)


@pytest.mark.parametrize("points", [np.zeros((8, 3)), np.eye(3), np.full((4, 3), np.nan)])
def test_points_without_volume_are_rejected(points):
    with pytest.raises(ConfigError) as caught:
        nearest_primitive(points, ROUND, "the mesh m")
    assert "the mesh m" in str(caught.value) and "\n" not in str(caught.value)


def test_a_hull_of_many_corners_is_made_coarser_and_keeps_its_shape():
    ball = trimesh.creation.icosphere(subdivisions=5, radius=0.03)
    hull = coarse_hull(ball.vertices, "the ball")
    assert len(ball.vertices) > MOST_CORNERS >= len(hull.vertices)
    normals = np.asarray(hull.face_normals)
    planes = np.column_stack([normals, -np.einsum("fi,fi->f", normals, hull.triangles[:, 0])])
    assert 0.0 < largest_plane_distance(np.asarray(ball.vertices), planes).max() < 2e-3 * 0.03
