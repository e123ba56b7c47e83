"""Resting poses: closed forms of a cuboid, bodies that topple, round ones, and the frame of an added
object."""

import numpy as np
import pytest
import trimesh

from dexstack.onboarding.rest_poses import rest_poses, resting_rotation


def of(mesh):
    return rest_poses(mesh.convex_hull, mesh.center_mass, mesh.moment_inertia)


def face_share(x, y, h):
    """Share of all directions that pass through a rectangle with half sides x and y at the distance
    h."""
    return np.arcsin(x * y / np.sqrt((x * x + h * h) * (y * y + h * h))) / np.pi


def test_a_cuboid_rests_on_its_faces_by_their_solid_angles():
    a, b, c = 0.06, 0.04, 0.03
    found = of(trimesh.creation.box((a, b, c)))
    assert len(found) == 6 and [rest.kind for rest in found] == [0, 0, 1, 1, 2, 2]
    expected = [(face_share(a, b, c), c / 2), (face_share(a, c, b), b / 2), (face_share(b, c, a), a / 2)]
    for rest in found:
        share, height = expected[rest.kind]
        assert rest.probability == pytest.approx(share, rel=1e-9) and rest.height == pytest.approx(
            height, rel=1e-9
        )


def test_a_slanted_prism_topples():
    """Its centre of mass lies beyond its foot, so that it never rests on an end."""
    square = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], float)
    slanted = trimesh.convex.convex_hull(np.concatenate([square, square + np.array([1.5, 0.0, 1.0])]) * 0.04)
    found = of(slanted)
    assert len(found) == 4 and sum(rest.probability for rest in found) == pytest.approx(1.0)
    assert all(abs(rest.down_B[2]) < 0.99 for rest in found)


def test_a_can_lies_or_stands():
    """The sides of a round can are one kind, its ends another; the ends' share is that of a
    disc."""
    radius, height, sides = 0.03, 0.1, 64
    found = of(trimesh.creation.cylinder(radius=radius, height=height, sections=sides))
    assert len(found) == sides + 2 and {rest.kind for rest in found} == {0, 1}
    standing = sum(rest.probability for rest in found if rest.kind == 1)
    disc = 1 - (height / 2) / np.hypot(height / 2, radius)
    assert standing == pytest.approx(disc, rel=0.01)  # 64 sides for a circle


@pytest.mark.parametrize("seed", range(5))
def test_a_box_is_laid_on_its_largest_face_with_the_longer_side_along_x(seed):
    rng = np.random.default_rng(seed)
    turn = trimesh.transformations.random_rotation_matrix(rng.random(3))
    box = trimesh.creation.box((0.04, 0.07, 0.03)).apply_transform(turn)
    R = resting_rotation(of(box)[0].down_B, np.asarray(box.vertices))
    assert np.linalg.det(R) == pytest.approx(1.0)
    np.testing.assert_allclose(np.ptp(box.vertices @ R.T, axis=0), (0.07, 0.04, 0.03), atol=1e-9)
