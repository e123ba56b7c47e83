"""Soft signed distances against closed forms, in their two limits, and soft choices among points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dexstack.engines.soft import cloud, ssdf

pytestmark = pytest.mark.usefixtures("x64")


def test_one_plane_is_exact_for_any_smoothing():
    ground = cloud.half_space()
    for eps in (1e-8, 1e-2, 1e4):
        assert ssdf.ssdf(jnp.array([0.3, -2.0, 0.07]), ground, eps) == pytest.approx(0.07, abs=1e-15)


def test_two_planes_in_closed_form():
    """A slab's weights are a logistic function of the height: φ̂ = a tanh(2 a z/ε) z/a … written out below."""
    a, eps = 0.1, 3e-3
    slab = cloud.Cloud(np.array([[0, 0, a], [0, 0, -a]]), np.array([[0, 0, 1.0], [0, 0, -1.0]]))
    for z in (-0.3, -0.02, 0.0, 0.05, 0.2):
        upper = 1.0 / (1.0 + np.exp(-4.0 * a * z / eps))
        assert ssdf.ssdf(jnp.array([0, 0, z]), slab, eps) == pytest.approx(upper * (z - a) + (1 - upper) * (-z - a), abs=1e-14)


def test_little_smoothing_recovers_a_box():
    half = np.array([0.03, 0.02, 0.05])
    c = cloud.box(half, 0.004)
    points = np.random.default_rng(0).uniform(-0.08, 0.08, (400, 3))
    q = np.abs(points) - half
    exact = np.linalg.norm(np.maximum(q, 0), axis=1) + np.minimum(q.max(axis=1), 0)
    ours = np.asarray(jax.vmap(lambda p: ssdf.ssdf(p, c, (0.2 * 0.004) ** 2))(jnp.asarray(points)))
    inner = (np.abs(points) < half - 0.008).any(axis=1) & (np.sort(q, axis=1)[:, -2] < -0.006)  # over a face, not beyond an edge
    np.testing.assert_allclose(ours[inner], exact[inner], atol=2e-5)
    clear = np.abs(exact) > 0.004
    assert (np.sign(ours[clear]) == np.sign(exact[clear])).all()


@pytest.mark.slow
def test_much_smoothing_gives_an_ellipsoid():
    """ε → ∞: equal weights, φ̂ = mean n·(p − p_i); with normals that cancel what is left is quadratic at the next order."""
    c = cloud.box((0.03, 0.02, 0.05), 0.01)
    eps = 50.0
    second = jax.hessian(lambda p: ssdf.ssdf(p, c, eps))(jnp.zeros(3))
    # d/dp of softmax(−d) = weights (2/ε)(p_i − mean), so Hessian = (2/ε) mean[p_i n_iᵀ + n_i p_iᵀ]
    outer = np.einsum("ia,ib->ab", c.points, c.normals) / len(c.points)
    np.testing.assert_allclose(second, 2.0 / eps * (outer + outer.T), rtol=2e-3, atol=1e-6)
    assert (np.linalg.eigvalsh(second) > 0).all()


def test_flattened_weights_reach_further_along_the_surface():
    """On a sphere of few points, the ripple that their places leave in the field; a ratio of one changes nothing."""
    h = 0.006
    c = cloud.sphere(0.03, h)
    on_it = np.random.default_rng(0).normal(size=(300, 3))
    on_it *= np.linalg.norm(c.points, axis=1).mean() / np.linalg.norm(on_it, axis=1, keepdims=True)
    isotropic = ssdf.flattened(c, 1.0)
    np.testing.assert_allclose(isotropic, np.broadcast_to(np.eye(3), isotropic.shape), atol=1e-14)
    field = jax.jit(lambda precision: jax.vmap(lambda p: ssdf.ssdf(p, c, (0.4 * h) ** 2, precision))(jnp.asarray(on_it)))
    assert np.std(field(ssdf.flattened(c, 4.0))) < 0.25 * np.std(field(isotropic))


@pytest.mark.slow
def test_separation_of_two_spheres_and_its_distribution():
    a, b = cloud.sphere(0.03, 0.003), cloud.moved(cloud.sphere(0.02, 0.003), np.eye(3), np.array([0.0, 0.0, 0.055]))
    field = ssdf.separation_field(a, b, 1e-7)
    assert field.shape == (len(a.points) + len(b.points),)
    assert ssdf.soft_distance(field, 1e-4) == pytest.approx(0.005, abs=5e-4)
    w = ssdf.separation_distribution(field, 1e-4)
    assert w.sum() == pytest.approx(1.0)
    where = np.concatenate([b.points, a.points])[np.argmax(w)]
    assert np.hypot(*where[:2]) < 0.004 and 0.02 < where[2] < 0.04


def test_top_k_picks_the_largest_in_order():
    z = jnp.array([0.1, 0.9, 0.3, 0.75, 0.05, 0.6])
    gamma = ssdf.soft_top_k(z, 3, temperature=1e-3)
    np.testing.assert_allclose(gamma.sum(axis=1), 1.0, atol=1e-12)
    assert list(np.argmax(gamma, axis=1)) == [1, 3, 5] and (gamma.max(axis=1) > 0.9).all()
    with pytest.raises(ValueError, match="0 < k < 6"):
        ssdf.soft_top_k(z, 6)


@pytest.mark.slow
def test_top_k_contact_points_are_where_the_weight_is_and_differentiable():
    vertices = jnp.asarray(np.random.default_rng(1).normal(size=(12, 3)))
    faces = jnp.asarray(np.random.default_rng(2).integers(0, 12, (20, 4)))
    score = jax.jit(lambda w: ssdf.contact_points(ssdf.vertex_weights(jax.nn.softmax(w), faces, 12), vertices, 4).sum())
    w = jnp.asarray(np.random.default_rng(3).normal(size=20))
    gradient = jax.grad(score)(w)
    for k in range(3):
        step = 1e-6 * jnp.eye(20)[k]
        assert (score(w + step) - score(w - step)) / 2e-6 == pytest.approx(float(gradient[k]), rel=1e-5, abs=1e-8)


def test_thousands_of_queries_in_single_precision_are_right():
    """A reduction over the three coordinates is miscompiled there; see ``dot3``."""
    c = cloud.box((1.0, 1.0, 1.0), 0.3)
    points = np.random.default_rng(0).uniform(-2, 2, (4000, 3))
    f = jax.jit(lambda x: jax.vmap(lambda p: ssdf.ssdf(p, cloud.Cloud(*(jnp.asarray(y, x.dtype) for y in c)), 0.25))(x))
    np.testing.assert_allclose(f(jnp.asarray(points, jnp.float32)), f(jnp.asarray(points)), atol=1e-4)
