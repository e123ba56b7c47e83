"""Rollouts of a plan: slopes against differences, limits, free joints and free fall against closed
forms. Float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dexstack.contact.contact import empty_contacts
from dexstack.control.contact_rule import FrozenContacts, PropagatedContacts
from dexstack.control.factory import PlannerParams, make_model
from dexstack.control.horizon import Horizon, Present
from dexstack.control.problem import OBJECT_DOF
from dexstack.control.theta_file import make_theta
from tests.dexstack.control.planning import wide

H = 0.1
FREE = (np.full(16, -1e3), np.full(16, 1e3))
"""Limits that no joint reaches."""


def horizon(resting, present, steps=2, limits=FREE, model="implicit", rule=None):
    params = PlannerParams(model=model)
    theta = wide(make_theta(resting.hand, resting.obj, params, H))
    limits = tuple(jnp.asarray(limit, jnp.float64) for limit in limits)
    tree = resting.hand.kinematics()
    return Horizon(
        tree,
        make_model(params),
        rule or PropagatedContacts(),
        wide(present),
        theta,
        jnp.asarray(resting.hand.gravity),
        limits,
        step=H,
        steps=steps,
    )


def solved(ahead):
    """Return a compiled function: the trajectory of a plan with converged steps."""
    roll = jax.jit(
        lambda U, dual: ahead.rollout(
            U, jax.lax.fori_loop(0, 30, lambda _, dual: ahead.rollout(U, dual).dual, dual)
        )
    )
    return lambda U: roll(jnp.asarray(U), ahead.initial_dual())


@pytest.fixture(scope="module")
def grasp(resting):
    """Fingers on the cube."""
    rng = np.random.default_rng(3)
    for _ in range(1000):
        q = np.clip(resting.q + rng.uniform(-0.4, 0.4, 16), resting.hand.lower, resting.hand.upper)
        contacts = resting.detector.detect(resting.pose_WO, q)
        if np.sum(contacts.phi[contacts.link > 0] < 0.003) >= 2:
            return Present(resting.pose_WO, q, contacts)
    raise AssertionError("no such grasp")


@pytest.fixture
def loose(resting):
    return Present(resting.pose_WO, resting.q, empty_contacts(12))


@pytest.mark.parametrize(
    "rule",
    [PropagatedContacts(), pytest.param(FrozenContacts(), marks=pytest.mark.slow)],
    ids=["propagated", "frozen"],
)
def test_slopes_are_those_of_the_rollout(rule, resting, grasp, x64):
    """All of ∂(displacement)/∂U against central differences, with one joint commanded beyond its limit."""
    limits = [
        np.asarray(limit) + change
        for limit, change in ((resting.hand.lower, -1.0), (resting.hand.upper, 1.0))
    ]
    limits[1][5] = grasp.q[5] + 0.01
    ahead = horizon(resting, grasp, limits=limits, rule=rule)
    U = np.random.default_rng(0).uniform(-0.08, 0.08, (2, 16))
    U[:, 5] = 0.05, -0.03
    trajectory = solved(ahead)
    ends = lambda U: np.asarray(trajectory(U).displacement[1:])  # noqa: E731
    S = np.asarray(jax.jit(ahead.linearise)(trajectory(U)))
    slope = np.stack(
        [(ends(U + e) - ends(U - e)) / 2e-6 for e in 1e-6 * np.eye(32).reshape(32, 2, 16)], axis=-1
    )
    assert np.abs(slope).max() > 0.3
    np.testing.assert_allclose(S, slope, atol=2e-5)


def test_a_free_joint_covers_its_share_and_a_free_object_falls(resting, loose, x64):
    """θ's share of the commanded displacement; m g h² / M_o for every step."""
    ahead = horizon(resting, loose)
    theta = make_theta(resting.hand, resting.obj, PlannerParams(), H)
    moved = np.asarray(solved(ahead)(np.full((2, 16), 0.1)).displacement)
    assert not moved[0].any()
    np.testing.assert_allclose(
        moved[1:, OBJECT_DOF:], 0.1 * np.outer([1, 2], np.asarray(theta.cover, float)), rtol=1e-6
    )
    fall = 9.81 * float(theta.mass) * H**2 / float(theta.inertia[2])
    np.testing.assert_allclose(moved[1:, 2], [-fall, -2 * fall], rtol=1e-6)


def test_limits_stop_targets_and_predictions(resting, loose, x64):
    """One joint at its limit, one beyond it: the first stays, the second may only come in."""
    lower, upper = (np.array(limit) for limit in FREE)
    upper[2], upper[3] = loose.q[2], loose.q[3] - 0.02
    trajectory = solved(horizon(resting, loose, limits=(lower, upper)))(np.full((2, 16), 0.1))
    joints = loose.q + np.asarray(trajectory.displacement)[:, OBJECT_DOF:]
    np.testing.assert_allclose(joints[:, 2], loose.q[2], atol=1e-12)
    assert np.all(np.diff(joints[:, 3]) < 0) and np.all(joints[1:, 3] <= loose.q[3])
    assert not np.asarray(trajectory.free)[:, 2:4].any() and np.asarray(trajectory.free)[:, 4:].all()
    assert np.all(np.diff(joints[:, 5]) > 0.01)
