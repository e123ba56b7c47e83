"""One finger: its kinematics agree with the hand's, and its least squares with scipy's."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from dexstack.model.hand import load_hand
from dexstack.onboarding.reaching import HEIGHT, Finger, Place, least_squares, reach


@pytest.mark.parametrize("name", ["right", "leap_left"])
def test_tips_are_where_the_hand_has_them(name):
    hand = load_hand(name)
    tree = hand.kinematics()
    q = np.random.default_rng(2).uniform(hand.lower, hand.upper, (3, len(hand.lower)))
    for f in range(len(hand.chains)):
        finger = Finger(hand, f)
        tips, points = finger.at(q[:, finger.joints])
        expected = [np.asarray(tree.fingertips(tree.poses(jnp.asarray(each))))[f] for each in q]
        np.testing.assert_allclose(tips, expected, atol=1e-6)
        nearest = np.linalg.norm(points - tips[:, None], axis=2).min(axis=1)
        assert (nearest < 1e-6).all()  # the round end of the tip's capsule is one of the spheres


def test_minima_within_bounds_are_those_of_scipy():
    """Rosenbrock's valley, whose minimum (1, 1) is cut off by a bound."""

    def residuals(x):
        return np.column_stack([10.0 * (x[:, 1] - x[:, 0] ** 2), 1.0 - x[:, 0]])

    low, high = np.array([-2.0, -2.0]), np.array([0.8, 2.0])
    starts = np.array([[-1.2, 1.0], [0.0, 0.0], [0.8, -2.0]])
    found, cost = least_squares(residuals, starts, low, high)
    expected = scipy.optimize.least_squares(lambda x: residuals(x[None])[0], starts[1], bounds=(low, high))
    np.testing.assert_allclose(found, np.tile(expected.x, (3, 1)), atol=1e-4)
    np.testing.assert_allclose(cost, expected.cost, atol=1e-6)


def test_a_finger_reaches_its_place_beside_a_free_space():
    hand = load_hand("right")
    finger = Finger(hand, 1)
    place = Place(np.array([0.055, 0.0]), np.array([1.0, 0.0]), np.zeros(2), 0.035, 0.011)
    best = reach(finger, place)[0]
    assert best.miss < 0.004 and (best.q >= finger.low).all() and (best.q <= finger.high).all()
    tip, points = finger.at(best.q[None])
    np.testing.assert_allclose(tip[0], [0.055, 0.0, 0.011 + HEIGHT], atol=0.006)
    over = points[0, :, 2] - finger.radii > 0.02
    assert (np.linalg.norm(points[0, over, :2], axis=1) - finger.radii[over] > 0.035 - 0.004).all()
