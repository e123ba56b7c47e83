"""The learner: its gradient, the recovery of a known θ, and the ranges of θ."""

import copy
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dexstack.contact.contact import Contacts
from dexstack.control.factory import PlannerParams, make_model
from dexstack.control.problem import ModelParams
from dexstack.control.theta import RANGES
from dexstack.control.theta_file import make_theta
from dexstack.errors import ConfigError
from dexstack.learning.loss import LearnerParams, between, make_learner, model_prediction, of_model
from dexstack.learning.transitions import Transitions, take

H = 0.1
ROWS = 24


@pytest.fixture(scope="module")
def starts(resting):
    """States of the cube among the fingers and commands that close them, without the next states."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(ROWS):
        q = np.clip(resting.q + rng.uniform(-0.2, 0.35, 16), resting.hand.lower, resting.hand.upper)
        pose = resting.pose_WO + np.concatenate(
            [rng.normal(0, 0.004, 2), [rng.uniform(-5e-4, 1e-3)], np.zeros(4)]
        )
        rows.append((pose, q, q + rng.uniform(-0.15, 0.2, 16), resting.detector.detect(pose, q)))
    pose, q, command, contacts = zip(*rows, strict=True)
    pose, q, command = (np.array(a, np.float32) for a in (pose, q, command))
    contacts = Contacts(*(np.stack(a) for a in zip(*contacts, strict=True)))
    return Transitions(
        pose, q, np.zeros_like(q), np.zeros((ROWS, 6), np.float32), q, command, contacts, pose, q
    )


def shown(resting, starts, name, theta):
    """Return transitions of the model with ``theta``."""
    predict = model_prediction(resting.hand, make_model(PlannerParams(model=name)), H, 40)
    pose, q = jax.jit(jax.vmap(predict, in_axes=(None, 0)))(theta, starts)
    return starts._replace(next_pose_WO=np.asarray(pose), next_q=np.asarray(q))


def learner_of_model(resting, planner, theta, params):
    """Return a learner of the time-stepping model of a planner's parameters."""
    predict = model_prediction(resting.hand, make_model(planner), H, params.solver_calls)
    return make_learner(predict, theta, params)


@pytest.fixture(scope="module")
def compiled(resting):
    theta = make_theta(resting.hand, resting.obj, PlannerParams(model="dsdf"), H)
    return learner_of_model(resting, PlannerParams(model="dsdf"), theta, LearnerParams(batch=10, epochs=2))


@pytest.fixture
def learner(compiled):
    """A new learner with the default priors, compiled once for all tests."""
    return copy.copy(compiled)


def scaled(theta, **factors):
    return theta._replace(**{name: getattr(theta, name) * np.float32(f) for name, f in factors.items()})


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tolerance"), [("dsdf", 1e-5), ("implicit", 1e-4)])
def test_the_gradient_is_the_slope_of_the_loss(name, tolerance, resting, starts, x64):
    """Against central differences in float64, for every free number."""
    params = PlannerParams(model=name)
    theta = make_theta(resting.hand, resting.obj, params, H)
    truth = scaled(theta, inertia=1.5, friction=0.8, stiffness=1.3, mass=1.2)
    data = shown(resting, take(starts, slice(6)), name, truth)
    wide = jax.tree.map(lambda a: np.asarray(a, np.float64) if a.dtype == np.float32 else a, data)
    learner = learner_of_model(resting, params, theta, LearnerParams(batch=6, solver_calls=160))
    start = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), learner.free)
    flat, unravel = jax.flatten_util.ravel_pytree(start)
    loss = jax.jit(lambda f: learner.batch_loss(unravel(f), wide, np.ones(6)))
    gradient = jax.jit(jax.grad(loss))(flat)
    slope = np.array([(loss(flat + e) - loss(flat - e)) / 2e-5 for e in 1e-5 * np.eye(flat.size)])
    assert np.count_nonzero(np.abs(slope) > 1e-6) >= (9 if name == "dsdf" else 8)  # only the D-SDF reads σ
    np.testing.assert_allclose(gradient, slope, atol=tolerance * np.abs(slope).max())


@pytest.mark.slow
def test_a_known_theta_is_recovered(resting, starts):
    """From data of the model with other parameters the loss vanishes."""
    theta = make_theta(resting.hand, resting.obj, PlannerParams(), H)
    truth = scaled(theta, inertia=0.4, stiffness=2.0, cover=0.8, mass=1.5, friction=0.6)
    data = shown(resting, starts, "implicit", truth)
    params = LearnerParams(batch=ROWS, epochs=400, prior=0.0, mass_prior=0.0)
    learner = learner_of_model(resting, PlannerParams(), theta, params)
    update = learner.update(data, np.random.default_rng(0))
    assert update.refused == 0 and update.gradients == 400
    assert update.loss_after < 1e-3 * update.loss_before
    for name in ("inertia", "stiffness", "cover", "mass", "friction"):
        np.testing.assert_allclose(
            getattr(learner.theta, name), getattr(truth, name), rtol=0.05, err_msg=name
        )


@pytest.mark.slow
def test_updates_compile_once_and_continue_from_the_last(resting, starts, learner, compilations):
    theta = learner.theta
    data = shown(resting, starts, "dsdf", scaled(theta, inertia=2.0))
    first = learner.update(data, np.random.default_rng(0))
    assert learner.theta.inertia[0] != theta.inertia[0]
    before = len(compilations)
    second = learner.update(take(data, slice(0, 16)), np.random.default_rng(1))
    assert len(compilations) == before
    assert first.gradients == 2 * 3 and second.gradients == 2 * 2
    assert second.loss_after < first.loss_before


def test_the_loss_over_data_alone_has_no_prior(resting, starts, learner):
    """The held-out loss is zero for the model's own transitions, unlike the loss with its prior after a
    change of θ."""
    theta = learner.theta
    own, other = (shown(resting, starts, "dsdf", t) for t in (theta, scaled(theta, inertia=2.0)))
    assert learner.data_loss(own) < 1e-6 < 1e-3 < learner.data_loss(other)
    # the prior of the first guess is zero
    assert learner.data_loss(other) == pytest.approx(learner.loss(other), rel=1e-4)
    learner.update(other, np.random.default_rng(0))
    assert learner.data_loss(other) < learner.loss(other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weight", "name", "other"), [("prior", "stiffness", "mass"), ("mass_prior", "mass", "stiffness")]
)
def test_a_large_prior_keeps_its_numbers_at_the_first_guess(weight, name, other, resting, starts):
    """The mass has a separate prior."""
    theta = make_theta(resting.hand, resting.obj, PlannerParams(model="dsdf"), H)
    data = shown(resting, starts, "dsdf", scaled(theta, stiffness=0.5, mass=2.5))
    changes = []
    for value in (0.0, 100.0):
        params = LearnerParams(batch=ROWS, epochs=40, **{"prior": 0.0, "mass_prior": 0.0, weight: value})
        learner = learner_of_model(resting, PlannerParams(model="dsdf"), theta, params)
        learner.update(data, np.random.default_rng(0))
        means = [[np.mean(getattr(t, key)) for key in (name, other)] for t in (learner.theta, theta)]
        changes.append(np.abs(np.log(np.divide(*means))))
    free, held = changes
    assert free[0] > 0.3 and held[0] < 0.1 * free[0] and held[1] > 0.2


def test_a_transition_that_is_not_finite_is_skipped(starts, learner):
    bad = starts._replace(next_q=np.where(np.arange(ROWS)[:, None] == 3, np.nan, starts.next_q))
    before = learner.theta
    assert learner.update(bad, np.random.default_rng(0)).refused == 2, "its batch, in each pass"
    jax.tree.map(np.testing.assert_array_equal, learner.theta, before)


def test_every_number_stays_in_its_range_whatever_the_free_numbers(resting):
    theta = make_theta(resting.hand, resting.obj, PlannerParams(), H)
    mapping = of_model(theta)
    assert ModelParams._fields == RANGES._fields
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), mapping.theta(mapping.start), theta
    )
    for far in (-1e3, -3.0, 3.0, 1e3):
        there = mapping.theta(
            jax.tree.map(lambda a, far=far: jnp.full(a.shape, far, jnp.float32), mapping.start)
        )
        for name, (lo, hi) in RANGES._asdict().items():
            value = np.asarray(getattr(there, name))
            assert np.all(value >= np.float32(lo) * (1 - 1e-5)) and np.all(
                value <= np.float32(hi) * (1 + 1e-5)
            ), name


def test_interpolation_is_linear_in_the_free_numbers(resting):
    theta = make_theta(resting.hand, resting.obj, PlannerParams(), H)
    mapping = of_model(theta)
    learned = {
        name: jnp.full(x.shape, 0.1 * (k - 4), jnp.float32)
        for k, (name, x) in enumerate(mapping.start.items())
    }
    for share in (0.0, 0.5, 1.0):
        same = mapping.theta(jax.tree.map(lambda x, share=share: share * x, learned))
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4),
            between(theta, mapping.theta(learned), share),
            same,
        )


def test_a_first_guess_outside_its_range_is_rejected(resting):
    theta = make_theta(resting.hand, resting.obj, PlannerParams(), H)
    for name, wrong in (("mass", 0.0), ("friction", 99.0), ("cover", np.ones(16))):
        with pytest.raises(ConfigError, match=f"'{name}'"):
            of_model(theta._replace(**{name: wrong}))


@pytest.mark.slow
def test_the_prediction_equals_the_planners(resting):
    """The MPC's first predicted step is the learner's prediction of the MPC's command."""
    from dexstack.control.base import Problem
    from dexstack.control.planners.gauss_newton import Mpc, MpcParams
    from tests.dexstack.control.planning import GOAL, TASK, seen

    params = replace(PlannerParams(), implicit_steps=4)
    model, theta = make_model(params), make_theta(resting.hand, resting.obj, params, H)
    theta = scaled(theta, inertia=0.5, stiffness=1.7, friction=0.5)
    problem = Problem(resting.hand, resting.obj, TASK, TASK.Weights(), theta)
    mpc = Mpc(problem, model, params=MpcParams(step=H, horizon=1, iterations=4))
    plan = mpc.plan(seen(resting), GOAL)
    zeros = np.zeros(16, np.float32), np.zeros(6, np.float32)
    pose, q, q_des = (np.asarray(a, np.float32) for a in (resting.pose_WO, resting.q, plan.q_des))
    at = Transitions(pose, q, *zeros, q, q_des, resting.contacts, pose, q)
    pose, q = jax.jit(model_prediction(resting.hand, model, H, 2))(theta, at)
    assert np.abs(np.asarray(q) - resting.q).max() > 0.02
    np.testing.assert_allclose(plan.prediction[1], np.concatenate([pose, q]), atol=2e-4)
