"""The contact law: closed forms, momentum, first and second derivatives, extreme states."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dexengines.soft import cloud, scm
from dexengines.soft.scm import ContactParams, paper_dissipation, smooth_dissipation
from dexstack.process.compilation import jit
from experiments.soft.systems import dense_pair

pytestmark = pytest.mark.usefixtures("x64")
BALL, BOX = cloud.sphere(0.03, 0.025), cloud.box((0.03, 0.02, 0.04), 0.021)
LAW = ContactParams(stiffness=1e4, eps1=5e-5, eps2=1e-3, eps3=5e-4, v_d=0.2, v_s=0.02)


def pair(x, c=LAW, dissipation=smooth_dissipation):
    """Wrench of a box (B) on a ball (A) from pose and twist x (12,): rotation vector, position,
    twist."""
    w = x[:3]
    angle = jnp.sqrt(w @ w + 1e-300)
    k = jnp.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
    R = jnp.eye(3) + jnp.sinc(angle / jnp.pi) * k + 0.5 * jnp.sinc(angle / (2 * jnp.pi)) ** 2 * k @ k
    return dense_pair(*BALL, *BOX, R, x[3:6], x[6:], c, dissipation)


def point_plane_force(p, v, p_i, n_i, c, dissipation=paper_dissipation):
    """λ(p, v, p_i, n_i) (3,) of [14–20] on the moving point, written out."""
    phi, v_n = n_i @ (p - p_i), n_i @ v
    v_t = v - v_n * n_i
    load = c.stiffness * c.eps3 * jax.nn.softplus(-phi / c.eps3) * dissipation(v_n / c.v_d)
    return load * n_i - c.friction * load * v_t / jnp.sqrt(c.v_s**2 + v_t @ v_t)


def wrench_of_pair(x):
    return pair(x).wrench


def states(count, seed, distance=(0.035, 0.075)):
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(count, 3))
    u *= rng.uniform(*distance, (count, 1)) / np.linalg.norm(u, axis=1)[:, None]
    return jnp.asarray(
        np.hstack([Rotation.random(count, rng=rng).as_rotvec(), u, 0.3 * rng.normal(size=(count, 6))])
    )


def test_the_softplus_is_accurate_and_so_are_its_derivatives():
    x = jnp.asarray(np.concatenate([np.linspace(-700, 50, 4001), [0.0, -1e-300]]))
    np.testing.assert_allclose(jit(scm.softplus)(x), np.logaddexp(np.asarray(x), 0.0), rtol=1e-14)
    single = x[x > -80.0].astype(jnp.float32)  # below, single precision has no normal numbers
    np.testing.assert_allclose(
        jit(scm.softplus)(single), np.logaddexp(np.asarray(single, float), 0.0), rtol=1e-6
    )
    at = lambda f: np.asarray(jit(jax.vmap(f))(x))  # noqa: E731
    np.testing.assert_allclose(at(jax.grad(scm.softplus)), at(jax.nn.sigmoid), rtol=1e-14)
    np.testing.assert_allclose(at(jax.grad(jax.grad(scm.softplus))), at(jax.grad(jax.nn.sigmoid)), rtol=1e-14)


def rows(points):
    """(I, 8) of a cloud of which nothing is absent."""
    return jnp.concatenate([*map(jnp.asarray, points), jnp.zeros((len(points.points), 2))], axis=1)


@pytest.mark.parametrize("normal_weight", [1.0, 0.5])
def test_weighted_sum_is_the_point_plane_law_written_out(normal_weight):
    p, v, law = (
        jnp.array([0.028, 0.003, 0.01]),
        jnp.array([-0.1, 0.2, 0.05]),
        LAW._replace(normal_weight=normal_weight),
    )
    phi = jnp.sum(BALL.normals * (p[None] - BALL.points), axis=1)
    weight = jax.nn.softmax(
        -(jnp.sum((p[None] - BALL.points) ** 2, axis=1) + (normal_weight - 1.0) * phi**2) / law.eps1
    )
    forces = jax.vmap(lambda p_i, n_i: point_plane_force(p, v, p_i, n_i, law))(
        jnp.asarray(BALL.points), jnp.asarray(BALL.normals)
    )
    met = scm.all_planes(rows(BALL)[..., None])
    r = jit(lambda p, v: scm.respond(p[:, None, None], v[:, None, None], met, law))(p, v)
    np.testing.assert_allclose(np.ravel(r.force), weight @ forces, rtol=1e-12)
    np.testing.assert_allclose(r.field[0, 0], weight @ phi, rtol=1e-12, atol=1e-16)


@pytest.mark.slow
def test_a_body_on_the_ground_carries_its_load_and_slides_with_coulombs_friction():
    plane = rows(cloud.Cloud(np.zeros((1, 3)), np.array([[0.0, 0.0, 1.0]])))
    depth, speed = 1e-3, 3.0
    p = jnp.array([[0.0, 0.0, -depth], [0.1, 0.0, -depth]])
    v = jnp.array([[speed, 0.0, 0.0]] * 2)
    c = LAW._replace(friction=0.7)
    p, v = p.T[:, None], v.T[:, None]
    r = scm.respond_to_ground(p, v, c)
    weighed = scm.respond(p, v, scm.all_planes(plane[..., None]), c)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-12), r, weighed)
    normal = c.stiffness * c.eps3 * np.logaddexp(depth / c.eps3, 0)
    np.testing.assert_allclose(
        np.transpose(r.force[:, 0]),
        np.tile([-0.7 * normal * speed / np.hypot(speed, c.v_s), 0, normal], (2, 1)),
        rtol=1e-12,
    )


def test_two_spheres_repel():
    """The sign that the printed [21] has wrong."""
    ball = cloud.sphere(0.03, 0.01)
    out = jit(lambda p: dense_pair(*ball, *ball, jnp.eye(3), p, jnp.zeros(6), LAW))(
        jnp.array([0.0, 0.0, 0.0595])
    )
    assert out.wrench[2] > 0.1 and abs(out.wrench[0]) < 1e-9


def test_dissipation_laws():
    r = jnp.linspace(-2.0, 3.0, 101)
    for d in (paper_dissipation, smooth_dissipation):
        values = d(r)
        assert (
            (values[r <= 0] == 1 - r[r <= 0]).all()
            and (values[r > 2] == 0).all()
            and (jnp.diff(values) <= 0).all()
        )


@pytest.mark.parametrize(("law", "jumps"), [(paper_dissipation, 0.5), (smooth_dissipation, 0.0)])
def test_second_derivatives_across_the_ends_of_the_dissipation(law, jumps):
    second = jax.grad(jax.grad(lambda r: law(r)))
    first = jax.grad(lambda r: law(r))
    for at in (0.0, 2.0):
        assert abs(first(at + 1e-9) - first(at - 1e-9)) < 1e-8
        assert abs(second(at + 1e-7) - second(at - 1e-7)) == pytest.approx(jumps, abs=1e-6)


def test_the_force_at_p_conserves_momentum():
    """The wrench on the second body, and on the first with the roles exchanged, about one point."""
    wrench = jit(wrench_of_pair)
    swapped = jit(lambda R, p, twist: dense_pair(*BOX, *BALL, R, p, twist, LAW, smooth_dissipation).wrench)
    for x in states(20, 0, (0.03, 0.055)):
        R = Rotation.from_rotvec(np.array(x[:3])).as_matrix()
        ours = wrench(x)
        exchanged = np.asarray(swapped(R.T, -R.T @ x[3:6], _exchanged(x, R)))
        on_a_in_a = np.concatenate(
            [R @ exchanged[:3], R @ exchanged[3:] + np.cross(x[3:6], R @ exchanged[:3])]
        )
        np.testing.assert_allclose(ours, -on_a_in_a, atol=1e-10 * float(jnp.abs(ours).max()))


def _exchanged(x, R):
    """Twist of A relative to B, at B's origin, in B's axes."""
    v, w = np.asarray(x[6:9]), np.asarray(x[9:])
    return jnp.asarray(np.concatenate([-R.T @ (v + np.cross(w, x[3:6])), -R.T @ w]))


@pytest.mark.slow
def test_gradients_and_hessians_equal_finite_differences():
    """Derivatives of the wrench by pose and twist, relative to the largest entry, in float64."""
    f = wrench_of_pair
    J, H = jit(jax.jacfwd(f)), jit(jax.jacfwd(jax.jacrev(f)))
    f = jit(f)
    for x in states(3, 1):
        j, h = np.asarray(J(x)), np.asarray(H(x))
        for k in range(12):
            e = jnp.eye(12)[k] * (1e-6 if k < 6 else 1e-5)
            step = float(jnp.abs(e).max())
            four = lambda g: (8 * (g(x + e) - g(x - e)) - (g(x + 2 * e) - g(x - 2 * e))) / (12 * step)  # noqa: B023, E731
            np.testing.assert_allclose(j[:, k], four(f), atol=1e-6 * np.abs(j).max())
            np.testing.assert_allclose(h[:, :, k], four(J), atol=1e-6 * np.abs(h).max())


@pytest.mark.slow
def test_everything_is_finite_everywhere():
    """Concentric, deep, touching and far apart, at any speed: values, gradients and Hessians."""
    one = lambda x: pair(x, dissipation=paper_dissipation).wrench  # noqa: E731
    first = jit(lambda x: jax.lax.map(lambda y: (one(y), jax.jacfwd(one)(y)), x))
    second = jit(lambda x: jax.lax.map(jax.hessian(lambda y: one(y).sum()), x))
    x = np.array(states(2000, 2, (0.0, 0.2)))
    x[:50, 3:6] = 0.0
    x[50:100, 3:6] *= 100.0
    x[100:150, 6:] *= 100.0
    x[150:200, 6:] = 0.0
    assert all(bool(jnp.isfinite(y).all()) for y in first(jnp.asarray(x)))
    assert bool(jnp.isfinite(second(jnp.asarray(x[:300]))).all())


@pytest.mark.slow
def test_stiffness_and_damping_of_the_implicit_step_are_positive_and_near_the_true_ones():
    whole = jit(pair)
    for x in states(10, 4, (0.03, 0.05)):
        out = whole(x)
        for matrix in (out.stiffness, out.damping):
            assert np.linalg.eigvalsh(np.asarray(matrix)).min() > -1e-9 * np.abs(matrix).max()
    flat = (
        jnp.zeros(12).at[5].set(0.0695)
    )  # box above the ball, faces level: the normal stiffness is nearly all there is
    true = -jit(jax.jacfwd(wrench_of_pair))(flat)[2, 5]
    assert whole(flat).stiffness[2, 2] == pytest.approx(float(true), rel=0.3)
