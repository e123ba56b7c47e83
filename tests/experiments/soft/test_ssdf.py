"""Soft signed distances against closed forms, in their two limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dexengines.soft import cloud
from experiments.soft import ssdf

pytestmark = pytest.mark.usefixtures("x64")


def test_one_plane_is_exact_for_any_smoothing():
    ground = cloud.Cloud(np.zeros((1, 3)), np.array([[0.0, 0.0, 1.0]]))
    for eps in (1e-8, 1e-2, 1e4):
        assert ssdf.ssdf(jnp.array([0.3, -2.0, 0.07]), ground, eps) == pytest.approx(0.07, abs=1e-15)


def test_two_planes_in_closed_form():
    """A slab's weights are a logistic function of the height: φ̂ = a tanh(2 a z/ε) z/a … written
    out below."""
    a, eps = 0.1, 3e-3
    slab = cloud.Cloud(np.array([[0, 0, a], [0, 0, -a]]), np.array([[0, 0, 1.0], [0, 0, -1.0]]))
    for z in (-0.3, -0.02, 0.0, 0.05, 0.2):
        upper = 1.0 / (1.0 + np.exp(-4.0 * a * z / eps))
        assert ssdf.ssdf(jnp.array([0, 0, z]), slab, eps) == pytest.approx(
            upper * (z - a) + (1 - upper) * (-z - a), abs=1e-14
        )


def test_little_smoothing_recovers_a_box():
    half = np.array([0.03, 0.02, 0.05])
    c = cloud.box(half, 0.004)
    points = np.random.default_rng(0).uniform(-0.08, 0.08, (400, 3))
    q = np.abs(points) - half
    exact = np.linalg.norm(np.maximum(q, 0), axis=1) + np.minimum(q.max(axis=1), 0)
    ours = np.asarray(jax.vmap(lambda p: ssdf.ssdf(p, c, (0.2 * 0.004) ** 2))(jnp.asarray(points)))
    inner = (np.abs(points) < half - 0.008).any(axis=1) & (
        np.sort(q, axis=1)[:, -2] < -0.006
    )  # over a face, not beyond an edge
    np.testing.assert_allclose(ours[inner], exact[inner], atol=2e-5)
    clear = np.abs(exact) > 0.004
    assert (np.sign(ours[clear]) == np.sign(exact[clear])).all()


@pytest.mark.slow
def test_much_smoothing_gives_an_ellipsoid():
    """ε → ∞: equal weights, φ̂ = mean n·(p − p_i); with normals that cancel the remainder is
    quadratic at the next order."""
    c = cloud.box((0.03, 0.02, 0.05), 0.01)
    eps = 50.0
    second = jax.hessian(lambda p: ssdf.ssdf(p, c, eps))(jnp.zeros(3))
    # d/dp of softmax(−d) = weights (2/ε)(p_i − mean), so Hessian = (2/ε) mean[p_i n_iᵀ + n_i p_iᵀ]
    outer = np.einsum("ia,ib->ab", c.points, c.normals) / len(c.points)
    np.testing.assert_allclose(second, 2.0 / eps * (outer + outer.T), rtol=2e-3, atol=1e-6)
    assert (np.linalg.eigvalsh(second) > 0).all()
