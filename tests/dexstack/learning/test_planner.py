"""Learning of θ with the model of the selected planner."""

import jax
import numpy as np
import pytest

from dexstack.control.factory import PlannerParams
from dexstack.control.params import MpcParams, SamplingParams
from dexstack.control.planners.sampling import rollouts_of
from dexstack.control.theta_file import make_theta
from dexstack.learning.loss import LearnerParams
from dexstack.learning.planner import DIFFERENCE, planner_learner, rollout_prediction
from dexstack.learning.transitions import Transitions, rotation_between

H = 0.1
PARAMS = {
    PlannerParams: PlannerParams(planner="sampling"),
    MpcParams: MpcParams(),
    SamplingParams: SamplingParams(),
    LearnerParams: LearnerParams(batch=30, epochs=60, prior=1e-5, mass_prior=1e-5),
}


@pytest.fixture(scope="module")
def first(resting):
    return make_theta(resting.hand, resting.obj, PARAMS[PlannerParams], H)


@pytest.fixture(scope="module")
def made(resting):
    return rollouts_of(
        resting.hand, resting.obj, PARAMS[MpcParams], PARAMS[SamplingParams], PARAMS[PlannerParams]
    )


@pytest.fixture(scope="module")
def predict(made):
    return rollout_prediction(*made, H, PARAMS[PlannerParams].planned_friction)


@pytest.fixture(scope="module")
def starts(resting, made):
    """States of a cube pushed by fingers, and the next commands, without the next states."""
    rollouts, substeps = made
    rng, rows = np.random.default_rng(0), []
    start = rollouts.standing(resting.q, resting.pose_WO, np.zeros(16), np.zeros(6))
    changes = np.repeat(rng.uniform(-0.15, 0.2, (30, 6, 16)), substeps // 2, axis=1)
    targets = np.clip(
        resting.q + np.cumsum(changes, axis=1) * 2 / substeps, resting.hand.lower, resting.hand.upper
    )
    q, pose = rollouts.roll(start, targets, 1)
    dt = H / substeps
    for k in range(len(q)):
        for n in range(substeps, q.shape[1] - 1, substeps):
            turn = rotation_between(pose[k, n - 1 : n, 3:], pose[k, n : n + 1, 3:])[0]
            twist = np.concatenate([pose[k, n, :3] - pose[k, n - 1, :3], turn]) / dt
            rows.append(
                (pose[k, n], q[k, n], (q[k, n] - q[k, n - 1]) / dt, twist, targets[k, n + substeps // 2])
            )
    pose, q, qd, twist, command = (np.array(x, np.float32) for x in zip(*rows, strict=True))
    contacts = jax.tree.map(
        lambda x: np.repeat(x[None], len(q), axis=0), resting.detector.detect(resting.pose_WO, resting.q)
    )
    return Transitions(pose, q, qd, twist, q, command, contacts, pose, q)


def shown(predict, starts, theta):
    """Return transitions of rollouts with ``theta``."""
    pose, q = jax.jit(jax.vmap(predict, in_axes=(None, 0)))(theta, starts)
    return starts._replace(next_pose_WO=np.asarray(pose), next_q=np.asarray(q))


def test_free_joints_of_a_rollout_move_by_their_lag(resting, predict, first, starts):
    """Without the object a joint covers ``cover`` of its way."""
    away = starts.pose_WO + np.array([0, 0, 1.0, 0, 0, 0, 0], np.float32)
    still = starts._replace(pose_WO=away, qd=np.zeros_like(starts.qd), q_command=starts.q + np.float32(0.05))
    went = (shown(predict, still, first).next_q - still.q) / 0.05
    free = (still.q_command < resting.hand.upper - 0.01) & (still.q > resting.hand.lower + 0.01)
    np.testing.assert_allclose(went[free], np.broadcast_to(first.cover, free.shape)[free], atol=0.05)


@pytest.mark.parametrize("name", ["mass", "friction", "stiffness"])
def test_derivatives_equal_the_stated_differences(predict, first, starts, name):
    at = jax.tree.map(jax.numpy.asarray, starts)
    ends = jax.jit(lambda theta: jax.vmap(predict, in_axes=(None, 0))(theta, at))
    value = getattr(first, name)
    still = first._replace(**{n: np.zeros_like(x) for n, x in first._asdict().items()})
    _, (slope, _) = jax.jvp(ends, (first,), (still._replace(**{name: value}),))
    high, low = (
        ends(first._replace(**{name: np.asarray(value * np.exp(way * DIFFERENCE), np.float32)}))[0]
        for way in (1.0, -1.0)
    )
    difference = (np.asarray(high) - np.asarray(low)) / (2.0 * DIFFERENCE)
    np.testing.assert_allclose(
        np.linalg.norm(slope - difference), 0.0, atol=0.02 * np.linalg.norm(difference)
    )


@pytest.mark.slow
def test_theta_of_other_rollouts_is_recovered(resting, predict, first, starts):
    """Friction and lag, and the ratio of mass to stiffness, which alone is determined. Numbers that
    rollouts do not use stay."""
    truth = first._replace(
        mass=np.float32(2.0 * first.mass),
        friction=np.float32(0.6 * first.friction),
        stiffness=np.float32(0.7) * first.stiffness,
    )
    data = shown(predict, starts, truth)
    learner = planner_learner(resting.hand, resting.obj, first, PARAMS)
    before = learner.data_loss(data)
    learner.update(data, np.random.default_rng(0))
    found = learner.theta
    assert learner.data_loss(data) < 0.05 * before
    np.testing.assert_allclose([found.friction, *found.cover], [truth.friction, *truth.cover], rtol=0.05)
    np.testing.assert_allclose(found.mass / found.stiffness, truth.mass / truth.stiffness, rtol=0.05)
    np.testing.assert_allclose([*found.inertia, found.sigma], [*first.inertia, first.sigma], rtol=1e-5)
