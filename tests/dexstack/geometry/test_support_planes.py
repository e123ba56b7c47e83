"""Support planes enclose the object, and their stated errors hold: against the hull's vertices and
dense sampling."""

import tracemalloc

import numpy as np
import pytest
import trimesh
from scipy.spatial import ConvexHull, HalfspaceIntersection

from dexstack.contact.detector import DetectorParams
from dexstack.geometry.support_planes import REACH, choose_planes, fibonacci_directions, normal_cones
from dexstack.model.objects import load_object, object_names
from tests.dexstack.geometry.planes import NEAR, support_planes

NUM = DetectorParams.num_planes


def random_hull(seed: int) -> trimesh.Trimesh:
    """A convex mesh of graspable size: the hull of points on a squashed sphere."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rng.integers(6, 60), 3))
    x *= rng.uniform(0.015, 0.06, 3) / np.linalg.norm(x, axis=1, keepdims=True)
    mesh = trimesh.Trimesh(x, ConvexHull(x).simplices).convex_hull
    mesh.apply_translation(-mesh.center_mass)
    return mesh


MESHES = [*object_names(), *range(4)]


@pytest.fixture(scope="module", params=MESHES, ids=str)
def mesh(request) -> trimesh.Trimesh:
    return random_hull(request.param) if isinstance(request.param, int) else load_object(request.param).mesh


@pytest.fixture(scope="module")
def planes(mesh):
    return support_planes(mesh, NUM)


def hull_distance(hull: trimesh.Trimesh, points: np.ndarray) -> np.ndarray:
    """Return the Euclidean distance of points outside a convex hull, from every triangle."""
    best = np.full(len(points), np.inf)
    for triangle in np.asarray(hull.triangles):
        nearest = trimesh.triangles.closest_point(np.broadcast_to(triangle, (len(points), 3, 3)), points)
        best = np.minimum(best, np.linalg.norm(points - nearest, axis=1))
    return best


def outside_points(mesh: trimesh.Trimesh, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points up to REACH outside the hull, other than those that chose the planes, with their
    distance."""
    rng = np.random.default_rng(seed)
    hull = mesh.convex_hull
    surface, face = trimesh.sample.sample_surface(hull, count, seed=seed)
    points = surface + rng.uniform(0, REACH, (count, 1)) * _unit(
        np.asarray(hull.face_normals)[face] + 0.7 * rng.normal(size=(count, 3))
    )
    # corners and edges matter most: they have no area to be sampled from
    corners = np.asarray(hull.vertices)[rng.integers(len(hull.vertices), size=count)]
    points = np.vstack(
        [
            points,
            corners + rng.uniform(0, REACH, (count, 1)) * _unit(corners + 0.02 * rng.normal(size=(count, 3))),
        ]
    )
    offset = np.einsum("fi,fi->f", hull.face_normals, hull.triangles[:, 0])
    points = points[np.max(points @ np.asarray(hull.face_normals).T - offset, axis=1) > 1e-5]
    distance = hull_distance(hull, points)
    near = distance < REACH
    return points[near], distance[near]


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_the_planes_have_unit_normals_and_enclose_every_vertex(mesh, planes):
    assert planes.nhat_B.shape == (NUM, 3) and planes.offset.shape == (NUM,)
    np.testing.assert_allclose(np.linalg.norm(planes.nhat_B, axis=1), 1.0, atol=1e-12)
    value = np.asarray(mesh.vertices) @ planes.nhat_B.T + planes.offset
    assert value.max() < 1e-12
    np.testing.assert_allclose(value.max(axis=0), 0.0, atol=1e-12)  # each plane touches the object
    cosine = planes.nhat_B @ planes.nhat_B.T - 2 * np.eye(NUM)
    assert np.rad2deg(np.arccos(cosine.max())) > 0.1, "no plane is chosen twice"


def test_the_stated_distance_errors_hold(mesh, planes):
    """The plane distance never exceeds the Euclidean one, and its shortfall is 50 to 110 % of the
    stated one."""
    points, distance = outside_points(mesh, 4000, seed=7)
    assert len(points) > 3000
    short = distance - np.max(points @ planes.nhat_B.T + planes.offset, axis=1)
    assert short.min() > -1e-9
    for reach, stated in ((REACH, planes.distance_error), (NEAR, planes.contact_error)):
        worst = short[distance < reach].max()
        assert 0.5 * stated < worst < 1.1 * stated


def test_the_memory_for_a_hull_with_many_bent_edges_is_bounded():
    """53,760 directions along edges times 3,000 points would be 1.3 GB."""
    ball = trimesh.creation.icosphere(subdivisions=4, radius=0.03)
    tracemalloc.start()
    nhat, offset = choose_planes(ball, 12)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 500e6
    np.testing.assert_allclose(offset, -0.03, rtol=2e-3)  # every plane touches the ball
    # twelve planes spread like the sides of a dodecahedron, 37° from its corners, cover the ball
    assert np.degrees(np.arccos(np.max(fibonacci_directions(2000) @ nhat.T, axis=1).min())) < 60.0


def test_normal_cones_are_outward_normals(mesh):
    surface, nhat = normal_cones(mesh.convex_hull)
    np.testing.assert_allclose(np.linalg.norm(nhat, axis=1), 1.0, atol=1e-12)
    some = np.random.default_rng(0).choice(len(surface), 500, replace=False)
    np.testing.assert_allclose(
        hull_distance(mesh.convex_hull, surface[some] + 0.01 * nhat[some]), 0.01, atol=1e-7
    )


def test_the_stated_hull_error_holds(mesh, planes):
    """Measured along rays instead of at the corners of the planes' intersection."""
    hull = mesh.convex_hull
    rays = fibonacci_directions(20000)
    along = planes.nhat_B @ rays.T
    reach = np.min(
        np.where(along > 1e-9, -planes.offset[:, None] / np.where(along > 1e-9, along, 1.0), np.inf), axis=0
    )
    normals = np.asarray(hull.face_normals)
    beyond = np.max(
        rays * reach[:, None] @ normals.T - np.einsum("fi,fi->f", normals, hull.triangles[:, 0]), axis=1
    ).max()
    assert -1e-9 < beyond <= planes.hull_error + 1e-9
    corners = HalfspaceIntersection(
        np.column_stack([planes.nhat_B, planes.offset]), np.zeros(3)
    ).intersections
    far = hull_distance(hull, corners).max() if planes.hull_error > 1e-9 else 0.0
    assert far >= planes.hull_error - 1e-9  # a corner that far beyond a face is at least as far from the hull


@pytest.mark.parametrize("name", object_names())
def test_the_objects_keep_their_sides_and_have_no_concavity(name):
    """The rounded edges of foambrick and stick have many small faces that share planes."""
    obj = load_object(name)
    planes = support_planes(obj.mesh, NUM)
    assert planes.hull_error < (1e-9 if name == "cube" else 1e-3)
    assert planes.concavity == 0.0
    assert planes.distance_error < 2e-3 and planes.contact_error < 1e-3
    for axis in np.vstack([np.eye(3), -np.eye(3)]):
        side = np.argmax(planes.nhat_B @ axis)
        assert planes.nhat_B[side] @ axis > np.cos(np.deg2rad(1.0))
        assert -planes.offset[side] == pytest.approx(np.max(obj.mesh.vertices @ axis), abs=3e-4)


def test_concavity_is_measured():
    """An L of two bars: the middle of the hull's slanted face is (side / √2)/2 away from the inner
    corner."""
    a = trimesh.creation.box((0.06, 0.02, 0.02), trimesh.transformations.translation_matrix((0.03, 0.01, 0)))
    b = trimesh.creation.box((0.02, 0.04, 0.02), trimesh.transformations.translation_matrix((0.01, 0.04, 0)))
    mesh = trimesh.util.concatenate([a, b])
    measured = support_planes(mesh, NUM).concavity
    # the slanted face from (60, 20) to (20, 60) mm; its middle (40, 40) is 20 mm from either bar
    assert measured == pytest.approx(0.020, abs=0.003)


def test_directions_cover_the_sphere():
    d = fibonacci_directions(400)
    np.testing.assert_allclose(np.linalg.norm(d, axis=1), 1.0, atol=1e-12)
    probes = _unit(np.random.default_rng(0).normal(size=(2000, 3)))
    assert np.rad2deg(np.arccos((probes @ d.T).max(axis=1))).max() < 8.0
