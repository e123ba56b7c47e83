"""Derivatives against central differences, wherever the active set is constant, impacts
included."""

import numpy as np
import pytest

from dexengines.errors import EngineError
from dexengines.lcp import gradient, record
from experiments.lcp import systems as scenes


def test_height_after_a_bounce_falls_where_the_start_rises():
    """The paper's figure 2: +1 without continuous time."""
    system = scenes.bouncing_ball()
    system.q[0], system.v[0] = 0.105, -1.0
    run = gradient.rollout(system, np.zeros((2, 1)))
    d = gradient.jacobian(system, run)
    np.testing.assert_allclose(d["q"][:, 0], [-1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(d["v"][:, 0], [-0.02, -1.0], atol=1e-12)


def test_restitution_and_gravity(check_derivatives):
    system = scenes.bouncing_ball(restitution=0.7, gravity=9.81)
    system.q[0], system.v[0] = 0.2, -1.3
    ours = check_derivatives(system, np.zeros((20, 1)), {"restitution": np.array([0.0, 1.0])})
    assert np.abs(ours).max() < 1e-9  # the floor's counts where the two are equal
    check_derivatives(system, np.zeros((20, 1)), {"restitution": np.array([1.0, 0.0])})
    check_derivatives(system, np.zeros((20, 1)), {"q": np.ones(1)})
    check_derivatives(system, np.zeros((20, 1)), {"v": np.ones(1)})


def test_two_balls(check_derivatives):
    system = scenes.two_balls()
    system.v[:2] = 4.0, -0.1
    rng = np.random.default_rng(0)
    check_derivatives(
        system,
        rng.normal(size=(20, 4)),
        {k: rng.normal(size=n) for k, n in (("q", 4), ("v", 4), ("tau", (20, 4)), ("mass", 3))},
    )


@pytest.mark.parametrize("what", ("v", "friction", "mass", "tau"))
def test_a_sliding_box(what, check_derivatives):
    system = scenes.stack(1)
    system.v[:2] = 1.0, 0.4
    tau = np.zeros((15, 6))
    tau[:, :2] = 1.5, -0.5
    start = {
        "v": np.array([1.0, 0.3, 0, 0, 0, 0]),
        "friction": np.array([1.0, 0.0]),
        "mass": np.array([0.0, 1.0]),
        "tau": np.ones_like(tau),
    }
    if what == "tau":
        start["tau"][:, 3:] = 0.0
    ours = check_derivatives(system, tau, {what: start[what]})
    if what == "friction":
        assert np.linalg.norm(ours[7:9]) == pytest.approx(9.81 * 0.15, rel=0.02)


def test_a_tumbling_box_through_its_first_impact(check_derivatives):
    system = scenes.boxes(1, restitution=0.5)
    quat = np.array([0.9, 0.2, -0.3, 0.25])
    system.q[:7] = 0.0, 0.0, 0.22, *(quat / np.linalg.norm(quat))
    system.v[:] = 0.5, -0.2, -2.0, 1.0, 2.0, -1.5
    rng = np.random.default_rng(1)
    start = system.q.copy(), system.v.copy()
    for name, size in (("q", 7), ("v", 6), ("friction", 2), ("mass", 2)):
        system.q[:], system.v[:] = start
        check_derivatives(system, np.zeros((4, 6)), {name: rng.uniform(0.5, 1.0, size)})
        assert system.counts[record.IMPACTS] > 0


def test_jax_differentiates_through_the_engine(x64):
    import jax
    import jax.numpy as jnp

    system = scenes.two_balls()
    roll, par = gradient.jax_rollout(system), tuple(jnp.asarray(x) for x in system.parameters)
    tau, q = jnp.zeros((20, 4)), jnp.asarray(system.q)

    def miss(velocity, mass):
        end = roll(q, jnp.concatenate([velocity, jnp.zeros(2)]), tau, mass, *par[1:])
        return jnp.sum((end[2:4] - jnp.array([0.3, 0.2])) ** 2)

    v, h = jnp.array([4.0, -0.1]), 1e-6
    value, (dv, dm) = jax.jit(jax.value_and_grad(miss, argnums=(0, 1)))(v, par[0])
    assert float(value) == pytest.approx(0.2546798335426305**2)
    for k in range(2):
        e = jnp.eye(2)[k] * h
        assert float(dv[k]) == pytest.approx(
            float(miss(v + e, par[0]) - miss(v - e, par[0])) / (2 * h), rel=1e-6
        )
    e = jnp.array([0.0, 0.0, h])
    assert float(dm[2]) == pytest.approx(float(miss(v, par[0] + e) - miss(v, par[0] - e)) / (2 * h), rel=1e-6)


def test_a_batch_of_gradients_equals_one_after_the_other(x64):
    import jax
    import jax.numpy as jnp

    system = scenes.two_balls()
    roll, par = gradient.jax_rollout(system, threads=3), tuple(jnp.asarray(x) for x in system.parameters)
    tau, q, state = jnp.zeros((20, 4)), jnp.asarray(system.q), system.q.copy()

    def miss(velocity, force):
        return jnp.sum((roll(q, velocity, tau + force, *par)[2:4] - jnp.array([0.3, 0.2])) ** 2)

    v = jnp.asarray(np.array([4.0, -0.7, 0.0, 0.0]) + 0.2 * np.random.default_rng(1).normal(size=(7, 4)))
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(miss), (0, None)))(v, 0.1)
    for k in range(7):
        value, grad = jax.value_and_grad(miss)(v[k], 0.1)
        assert float(values[k]) == float(value) and np.array_equal(gradients[k], grad)
    np.testing.assert_array_equal(system.q, state)


def test_rollouts_refuse_bad_forces():
    with pytest.raises(EngineError, match="finite forces"):
        gradient.rollout(scenes.two_balls(), np.zeros((3, 5)))
