"""C-SDF against coal's distances outside, the exact half-space distance inside, and finite
differences; in float64."""

import coal
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dexstack.contact.csdf import distance_and_normal
from dexstack.contact.detector import DetectorParams
from dexstack.geometry.support_planes import REACH, normal_cones
from dexstack.model.objects import load_object, object_names
from tests.dexstack.contact.peers import convex, distance
from tests.dexstack.geometry.planes import SupportPlanes, support_planes

pytestmark = pytest.mark.usefixtures("x64")

SIGMA = DetectorParams.sigma
SMOOTHING = np.log(DetectorParams.num_planes) / SIGMA
"""Largest excess of the smooth maximum of K values over the largest value [m]."""


@pytest.fixture(scope="module", params=object_names())
def case(request):
    obj = load_object(request.param)
    return obj.mesh, support_planes(obj.mesh, DetectorParams.num_planes)


def arrays(planes: SupportPlanes, sigma: float = SIGMA):
    return jnp.asarray(planes.nhat_B), jnp.asarray(planes.offset), sigma


def plane_distance(*at):
    return distance_and_normal(*at)[0]


def coal_distance(mesh, points: np.ndarray) -> np.ndarray:
    """Distance of points outside the hull, by coal's GJK."""
    hull, origin, dot = convex(mesh), coal.Transform3s(), coal.Sphere(1e-6)
    return np.array([distance(hull, origin, dot, coal.Transform3s(np.eye(3), p)) for p in points]) + 1e-6


def outside(mesh, count: int) -> np.ndarray:
    """Points off faces, edges and corners, up to REACH away."""
    rng = np.random.default_rng(5)
    surface, nhat = normal_cones(mesh.convex_hull)
    k = np.unique(
        np.concatenate(
            [
                rng.choice(len(surface), count // 2),
                np.arange(0, len(surface), max(1, 2 * len(surface) // count)),
            ]
        )
    )
    return surface[k] + rng.uniform(1e-4, REACH, (len(k), 1)) * nhat[k]


def inside(mesh, count: int) -> np.ndarray:
    rng = np.random.default_rng(6)
    return np.asarray(mesh.convex_hull.vertices)[
        rng.integers(len(mesh.convex_hull.vertices), size=count)
    ] * rng.uniform(0, 0.98, (count, 1))


def test_outside_the_distance_agrees_with_coal(case):
    """Never more than the smoothing above it, never more than the stated error below it, which is smaller up
    to 2 mm away."""
    mesh, planes = case
    surface, nhat = normal_cones(mesh.convex_hull)
    near = surface + np.random.default_rng(1).uniform(1e-4, 2e-3, (len(surface), 1)) * nhat
    for points, stated in (
        (outside(mesh, 1500), planes.distance_error),
        (near[:: max(1, len(surface) // 1500)], planes.contact_error),
    ):
        ours = np.asarray(plane_distance(jnp.asarray(points), *arrays(planes)))
        excess = ours - coal_distance(mesh, points)
        assert excess.max() <= SMOOTHING + 1e-6 and excess.min() >= -1.1 * stated
        assert np.median(np.abs(excess)) < 5e-4


def test_inside_the_distance_is_that_of_the_nearest_half_space(case):
    """The depth below the nearest face of the hull, within smoothing and the planes' hull error."""
    mesh, planes = case
    hull = mesh.convex_hull
    points = inside(mesh, 2000)
    normals = np.asarray(hull.face_normals)
    exact = np.max(points @ normals.T - np.einsum("fi,fi->f", normals, hull.triangles[:, 0]), axis=1)
    assert exact.max() < 0
    excess = np.asarray(plane_distance(jnp.asarray(points), *arrays(planes))) - exact
    assert excess.max() <= SMOOTHING + 1e-9
    assert excess.min() >= -planes.hull_error - 1e-9


def test_where_every_plane_ties_the_smoothing_bound_is_tight_and_nothing_is_nan():
    """log(K)/σ at the centre of a cube, where its six faces tie and no direction exists."""
    planes = support_planes(load_object("cube").mesh, DetectorParams.num_planes)
    for dtype in (jnp.float32, jnp.float64):
        cube = (jnp.asarray(planes.nhat_B[:6], dtype), jnp.asarray(planes.offset[:6], dtype), SIGMA)
        for x in ([0.0, 0.0, 0.0], [1e3, 0.0, 0.0], [-1e3, 1e3, 1e-30]):
            found, nhat = distance_and_normal(jnp.asarray(x, dtype), *cube)
            assert np.isfinite(found) and np.all(np.isfinite(nhat))
    assert float(plane_distance(jnp.zeros(3), *cube)) == pytest.approx(-0.028 + np.log(6) / SIGMA, abs=1e-12)


@pytest.mark.parametrize("sigma", [SIGMA, pytest.param(500.0, marks=pytest.mark.slow)])
def test_gradients_equal_finite_differences(case, sigma):
    mesh, planes = case
    points = np.concatenate([outside(mesh, 60), inside(mesh, 60)])
    gradient = jax.vmap(jax.grad(lambda x: plane_distance(x, *arrays(planes, sigma))))(jnp.asarray(points))
    step = 1e-3 / sigma
    moved = [points + s * step * e for e in np.eye(3) for s in (1, -1)]
    values = np.asarray(plane_distance(jnp.asarray(np.stack(moved)), *arrays(planes, sigma)))
    slope = (values[0::2] - values[1::2]).T / (2 * step)
    np.testing.assert_allclose(gradient, slope, atol=2e-6)


def test_the_closest_point_lies_on_the_surface(case):
    """[13]: x − d n, from 5 mm away, is near the true closest point (whose normal the samples
    carry)."""
    mesh, planes = case
    surface, outward = normal_cones(mesh.convex_hull)
    k = np.random.default_rng(2).choice(len(surface), 500)
    points = surface[k] + 5e-3 * outward[k]
    found, nhat = distance_and_normal(jnp.asarray(points), *arrays(planes))
    closest = points - np.asarray(found)[:, None] * np.asarray(nhat)
    np.testing.assert_allclose(np.linalg.norm(closest - surface[k], axis=1), 0.0, atol=2e-3)


@pytest.mark.parametrize("count", [999, 1000])
def test_batches_in_float32_are_as_accurate_as_single_points(case, count):
    """Distance, normal and gradient: from a thousand points on XLA fuses sums over coordinates with a
    softmax differently."""
    mesh, planes = case
    x = np.random.default_rng(count).uniform(-1, 1, (count, 3)).astype(np.float32) * np.abs(mesh.bounds).max(
        axis=0
    ).astype(np.float32)
    level = x.astype(float) @ planes.nhat_B.T + planes.offset
    peak = level.max(axis=1)
    weight = np.exp(SIGMA * (level - peak[:, None]))
    slope = weight @ planes.nhat_B / weight.sum(axis=1, keepdims=True)
    nhat = slope / np.linalg.norm(slope, axis=1, keepdims=True)
    there = tuple(jnp.asarray(a, jnp.float32) for a in (planes.nhat_B, planes.offset))
    found, normal = jax.jit(distance_and_normal, static_argnums=3)(x, *there, SIGMA)
    gradient = jax.jit(jax.vmap(jax.grad(lambda p: plane_distance(p, *there, SIGMA))))(x)
    assert found.dtype == normal.dtype == gradient.dtype == jnp.float32
    np.testing.assert_allclose(found, peak + np.log(weight.sum(axis=1)) / SIGMA, atol=1e-7)
    # the softmax multiplies the rounding of a distance by σ: 1e-8 m are 2e-4 of a weight
    np.testing.assert_allclose(normal, nhat, atol=1e-3)
    np.testing.assert_allclose(gradient, slope, atol=1e-3)
