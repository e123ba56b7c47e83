"""Pushing to a goal: errors and derivatives of both models, ways within the speed, and the sphere
that goes around without touching."""

import jax.numpy as jnp
import numpy as np
import pytest

from experiments.soft import push_to_goal as p


@pytest.fixture
def here():
    return p.Table(0.06, -0.04, 0.8)


def test_the_error_is_that_of_its_docstring():
    q = np.array([0.0, 0.0, 0.03, 0.04, 0.02, np.cos(0.3), 0.0, 0.0, np.sin(0.3)])
    assert p.error(q) == pytest.approx(0.05**2 + p.LENGTH**2 * (2 - 2 * np.cos(0.6)))
    assert p.error(jnp.asarray(q)) == pytest.approx(p.error(q), rel=1e-5)


def test_targets_go_through_the_way_points_and_stay():
    ways = np.array([[[0.01, 0.0], [0.02, 0.01], [0.02, 0.03], [0.0, 0.03]]])
    found = p.targets(np.array([[1.0, 2.0]]), ways, 0.004)[0]
    each = round(p.SECONDS / p.WAY_POINTS / 0.004)
    np.testing.assert_allclose(found[each - 1 :: each][: p.WAY_POINTS], [1.0, 2.0] + ways[0], atol=1e-6)
    np.testing.assert_allclose(
        found[p.WAY_POINTS * each :], np.tile([1.0, 2.03], (round(p.REST / 0.004), 1)), atol=1e-6
    )


def test_ways_keep_within_the_speed_and_short_ones_stay():
    ways = np.cumsum(np.full((3, p.WAY_POINTS, 2), 0.05), axis=1)
    steps = np.linalg.norm(np.diff(p.within_speed(ways), axis=1, prepend=0.0), axis=-1)
    np.testing.assert_allclose(steps, p.SPEED * p.SECONDS / p.WAY_POINTS)
    np.testing.assert_allclose(p.within_speed(0.01 * ways), 0.01 * ways)


def test_the_sphere_goes_around_to_every_place_without_moving_the_t(here):
    before = np.array([*here.p_WT, here.yaw])
    for place in range(len(p.PLACES.p_T)):
        here.push(place, np.zeros((p.WAY_POINTS, 2)))
        np.testing.assert_allclose([*here.p_WT, here.yaw], before, atol=2e-4)


def test_a_push_does_as_predicted(here):
    """By MuJoCo: the model is the plant, except for the sphere's rest before the push."""
    ways = here.straight(np.random.default_rng(0))
    predicted = here.rolled(here.starts(), ways)
    place = int(np.argmin(predicted))
    before = p.error(here.data.qpos)
    here.push(place, ways[place])
    assert (
        p.error(here.data.qpos) == pytest.approx(predicted[place], abs=0.1 * before)
        and predicted[place] < before
    )


@pytest.mark.slow
def test_gradients_of_the_engine_are_its_differences_and_bring_the_t_nearer(here):
    soft, rng = p.Soft(), np.random.default_rng(1)
    starts, ways = here.starts(), here.straight(rng)
    _, slope = soft(here, starts, ways)
    way = rng.normal(size=ways.shape)
    near = [soft(here, starts, ways + h * way)[0] for h in (5e-4, -5e-4)]
    along, expected = np.sum(slope * way, axis=(1, 2)), (near[0] - near[1]) / 1e-3
    # in the median: where the sphere slips round a corner within the difference, there is no one
    # slope
    assert np.median(np.abs(along - expected) / np.abs(expected)) < 0.15
    place, best, steps = p.by_slope(soft)(here, rng)
    before = p.error(here.data.qpos)
    here.push(place, best)
    assert p.error(here.data.qpos) < 0.8 * before and steps == p.ITERATIONS * len(ways) * soft.steps
