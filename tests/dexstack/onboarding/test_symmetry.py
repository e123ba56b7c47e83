"""Symmetry: groups of known bodies, and the nearest of orientations that look alike."""

import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation

from dexstack.errors import ConfigError
from dexstack.geometry.rotations import geodesic_angle, quaternion_product
from dexstack.geometry.symmetry import ANY, Axis, Symmetry, about
from dexstack.onboarding.symmetry_search import find_symmetry

X, Y, Z = np.eye(3)


def random_quaternions(count, seed=0):
    found = np.random.default_rng(seed).normal(size=(count, 4))
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def centred(mesh, quat=None):
    mesh = mesh.copy()
    mesh.apply_translation(-mesh.center_mass)
    if quat is not None:
        mesh.vertices = Rotation.from_quat(quat, scalar_first=True).apply(mesh.vertices)
    return mesh


def wedge():
    corners = [[0, 0, 0], [70, 0, 0], [0, 40, 0], [0, 0, 25], [70, 0, 8], [10, 40, 25]]
    return trimesh.Trimesh(1e-3 * np.array(corners, float)).convex_hull


BODIES = {
    "cube": (trimesh.creation.box(3 * [0.05]), 24, False),
    "brick": (trimesh.creation.box([0.05, 0.08, 0.03]), 4, False),
    "square plate": (trimesh.creation.box([0.05, 0.05, 0.01]), 8, False),
    "icosahedron": (trimesh.creation.icosahedron(), 60, False),
    "cylinder": (trimesh.creation.cylinder(0.02, 0.07, sections=64), 2, True),
    "cone": (trimesh.creation.cone(0.02, 0.07, sections=64), 1, True),
    "nothing": (wedge(), 1, False),
}


@pytest.mark.parametrize("name", BODIES)
def test_the_groups_of_known_bodies_are_found_however_they_lie(name):
    mesh, turns, free = BODIES[name]
    for quat in (None, random_quaternions(1, seed=7)[0]):
        body = centred(mesh, quat)
        found = find_symmetry(body, np.asarray(body.moment_inertia))
        assert (len(found.turns), found.free is not None) == (turns, free)
        assert not found.is_ball


def test_a_ball_looks_alike_in_every_orientation():
    ball = trimesh.creation.icosphere(3, 0.03)
    found = find_symmetry(ball, np.asarray(ball.moment_inertia))
    for quat, goal in zip(random_quaternions(5), random_quaternions(5, 1), strict=True):
        assert found.angle(quat, goal) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    "axes", [(Axis(Z, 3),), (Axis(X, ANY),), (Axis(Z, ANY), Axis(X, 2)), (Axis(X, 4), Axis(Y, 4))]
)
def test_the_nearest_looks_like_the_goal_and_none_of_its_kind_is_nearer(axes):
    symmetry, rng = Symmetry(axes), np.random.default_rng(3)
    for quat, goal in zip(random_quaternions(20), random_quaternions(20, 1), strict=True):
        nearest = symmetry.nearest(quat, goal)
        assert symmetry.angle(nearest, goal) == pytest.approx(0.0, abs=1e-6)
        for _ in range(20):  # words of the group
            other = goal
            for k in rng.integers(0, len(axes), 6):
                ahat, order = axes[k]
                angle = rng.uniform(0, 2 * np.pi) if order == ANY else 2 * np.pi / order * rng.integers(order)
                other = quaternion_product(other, about(ahat, angle))
            assert symmetry.angle(quat, other) == pytest.approx(geodesic_angle(quat, nearest), abs=1e-6)
            assert geodesic_angle(quat, other) >= geodesic_angle(quat, nearest) - 1e-6


def test_the_error_of_a_round_body_is_the_tilt_of_its_axis():
    symmetry = Symmetry((Axis(Z, ANY),))
    for tilt in (0.0, 0.4, 2.0):
        goal = quaternion_product(about(Y, tilt), about(Z, 1.3))
        assert symmetry.angle(np.array([1.0, 0, 0, 0]), goal) == pytest.approx(tilt, abs=1e-9)


def test_axes_that_generate_too_large_a_group_are_rejected():
    with pytest.raises(ConfigError, match="more than 120 turns"):
        Symmetry((Axis(Z, 5), Axis((X + Z) / np.sqrt(2), 7)))
