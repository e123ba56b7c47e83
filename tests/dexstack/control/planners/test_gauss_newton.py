"""The Gauss–Newton planner, beyond what every planner has: contacts, θ, one compilation, batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dexstack.contact.contact import empty_contacts
from dexstack.control.base import Observation, SolveStatus
from dexstack.control.factory import RULES, make_model
from dexstack.control.models import MODELS
from dexstack.control.params import PlannerParams
from dexstack.control.problem import OBJECT_DOF, ModelParams, force, integrate_quaternion, step_problem
from dexstack.errors import ConfigError
from dexstack.model.kinematics import KinematicTree
from dexstack.model.mount import DOWN
from dexstack.tasks.palm_turn import PalmWeights
from tests.dexstack.control import planning
from tests.dexstack.control.planning import GOAL, TASK, make, seen, wide

GOOD = (SolveStatus.OK, SolveStatus.NO_DESCENT)
HELD = (SolveStatus.BAD_INPUT, SolveStatus.DIVERGED)


@pytest.fixture(scope="module")
def shared(resting):
    """One compiled planner for the tests of this file."""
    planner = make(resting)
    planner.warm_up()
    return planner


@pytest.fixture
def planner(shared):
    """A fork with its own θ and weights."""
    return shared.fork()


@pytest.fixture(scope="module")
def states(resting):
    """Object poses, joint angles and contacts: at rest, disturbed, with joints at and beyond their
    limits, dropped."""
    rng = np.random.default_rng(0)
    hand, out = resting.hand, [seen(resting)]
    for k in range(15):
        turn = Rotation.from_rotvec(rng.normal(0, 0.3, 3)) if k < 12 else Rotation.random(rng=rng)
        pose = np.concatenate(
            [resting.pose_WO[:3] + rng.normal(0, (0.01, 0.01, 0.003)), turn.as_quat(scalar_first=True)]
        )
        q = rng.uniform(hand.lower, hand.upper) if k % 2 else resting.q + rng.normal(0, 0.1, 16)
        if k % 3 == 0:
            q = np.where(rng.random(16) < 0.5, hand.lower, hand.upper)
        if k % 5 == 0:
            q = q + rng.uniform(-0.05, 0.05, 16)  # a measured joint may be beyond its limit
        out.append(Observation(0.0, pose, q, resting.detector.detect(pose, q)))
    return out


def check_limits(planner, hand, q, result):
    planning.check_limits(planner, hand, q, result)
    p, joints = planner.params, result.prediction[:, 7:]
    lower, upper = hand.lower + p.limit_margin, hand.upper - p.limit_margin
    # a joint that starts outside may come in, never go farther out
    assert np.all(joints >= np.minimum(lower, q) - 1e-5) and np.all(joints <= np.maximum(upper, q) + 1e-5)


@pytest.mark.parametrize("field", ModelParams._fields)
def test_broken_parameters_diverge_and_hold_the_previous_command(field, planner, resting):
    """θ may come from a learner."""
    before = planner.plan(seen(resting), GOAL)
    broken = planner.theta._replace(**{field: jnp.full_like(getattr(planner.theta, field), jnp.nan)})
    whole, planner.theta = planner.theta, broken
    result = planner.plan(seen(resting), GOAL)
    if result.status in HELD:
        np.testing.assert_array_equal(result.q_des, before.q_des)
    else:
        assert field == "sigma"  # which this model does not use
    assert np.all(np.isfinite(result.q_des))
    planner.theta = whole
    assert planner.plan(seen(resting), GOAL).status in GOOD


@pytest.mark.parametrize(
    "spoil",
    [
        lambda o: o._replace(q=np.full(16, 1e39)),  # infinite in float32
        lambda o: o._replace(contacts=o.contacts._replace(phi=np.full_like(o.contacts.phi, np.nan))),
        lambda o: o._replace(contacts=o.contacts._replace(p_W=o.contacts.p_W[:-1])),
        lambda o: o._replace(contacts=o.contacts._replace(nhat_W=o.contacts.nhat_W[:, :2])),
    ],
)
def test_unusable_numbers_and_contacts_are_bad_input(spoil, planner, resting):
    with np.errstate(over="ignore"):
        assert planner.plan(spoil(seen(resting)), GOAL).status == SolveStatus.BAD_INPUT


def test_it_plans_without_contacts(planner, resting):
    result = planner.plan(seen(resting, contacts=empty_contacts(resting.contacts.phi.size)), GOAL)
    assert result.status in GOOD and np.all(np.isfinite(result.prediction))


def test_a_warm_start_continues_where_the_last_solve_ended(planner, resting):
    costs = [planner.plan(seen(resting), GOAL).cost for _ in range(5)]
    planner.reset()
    assert planner.plan(seen(resting), GOAL).cost == costs[0]
    assert np.all(np.diff(costs) <= 0.01 * costs[0])  # the model's iterations start cold with each solve


def test_nothing_that_changes_between_plans_compiles(planner, states, compilations):
    """States, types of the arrays, goals, weights, θ."""
    rng = np.random.default_rng(0)
    planner.plan(states[0], GOAL)
    before = len(compilations)
    for _, pose, q, contacts in states:
        planner.weights = PalmWeights(
            orientation_weight=rng.uniform(50, 200), contact_weight=rng.uniform(1, 6)
        )
        planner.theta = planner.theta._replace(friction=np.float32(rng.uniform(0.2, 1.5)))
        goal = np.concatenate([pose[:3], Rotation.random(rng=rng).as_quat(scalar_first=True)])
        state = Observation(
            0.0,
            pose.astype(np.float32),
            q.astype(np.float32),
            contacts._replace(phi=np.float64(contacts.phi)),
        )
        assert planner.plan(state, goal).status in GOOD
    assert len(compilations) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_every_model_plans(name, resting, states):
    """Within box and limits, and with motion."""
    planner = make(resting, model=name, horizon=2)
    for k, state in enumerate(states):
        planner.reset()
        result = planner.plan(state, GOAL)
        assert result.status in GOOD and np.all(np.isfinite(result.prediction))
        check_limits(planner, resting.hand, state.q, result)
        if k == 0:
            assert np.abs(result.displacements).max() > 1e-3
            planner.reset()
            again = planner.plan(state, GOAL)
            np.testing.assert_array_equal(again.displacements, result.displacements)


def model_step(planner, resting):
    """Return compiled functions in float64 with the D-SDF: the problem of a state with its contacts, and
    its solution."""
    tree, model = KinematicTree(resting.hand), make_model(PlannerParams(model="dsdf"))
    theta = wide(planner.theta)

    def problem(pose, q, contacts):
        return step_problem(tree, tree.poses(q), pose, contacts, theta, planner.params.step)

    def solved(problem, u, phi):
        context = model.prepare(problem, theta)
        return model.step(context, force(theta, u, DOWN), phi, model.initial_dual(problem))[0]

    return jax.jit(problem), jax.jit(solved)


def rollout_of(planner, resting, state, plan, rule, problem_of, solved):
    """Return the states (T + 1, 23) of a plan under a contact rule, step by step."""
    _, pose, q, contacts = state
    p = planner.params
    lower, upper = resting.hand.lower + p.limit_margin, resting.hand.upper - p.limit_margin
    problem = problem_of(jnp.asarray(pose), jnp.asarray(q), wide(contacts))
    moved, quat, out = np.zeros(OBJECT_DOF + 16), jnp.asarray(pose[3:]), [np.concatenate([pose, q])]
    for t, u in enumerate(plan):
        now = q + moved[OBJECT_DOF:]
        if rule == "detected" and t:
            with jax.enable_x64(False):
                found = resting.detector.detect(out[-1][:7], now)
            problem = problem_of(jnp.asarray(out[-1][:7]), jnp.asarray(now), wide(found))
        phi = np.asarray(problem.phi) + (np.asarray(problem.Jn) @ moved if rule == "propagated" else 0.0)
        dq = np.asarray(solved(problem, jnp.asarray(np.clip(u, lower - now, upper - now)), jnp.asarray(phi)))
        quat = integrate_quaternion(quat, jnp.asarray(dq[3:6]))
        joints = np.clip(now + dq[OBJECT_DOF:], np.minimum(lower, now), np.maximum(upper, now))
        moved = np.concatenate([moved[:OBJECT_DOF] + dq[:OBJECT_DOF], joints - q])
        out.append(np.concatenate([pose[:3] + moved[:3], quat, joints]))
    return np.array(out)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_the_prediction_is_the_models_rollout(rule, resting, states):
    """The model's own step, contacts of the rule, limits on targets and joints, rotations on SO(3);
    and of no other rule."""
    planner = make(resting, model="dsdf", contact_set=rule, horizon=3)
    others = dict.fromkeys(RULES, 0.0)
    with jax.enable_x64(True):
        step = model_step(planner, resting)
    for state in states[:3]:
        planner.reset()
        result = planner.plan(state, GOAL)
        with jax.enable_x64(True):
            for name in RULES:
                error = np.abs(
                    rollout_of(planner, resting, state, result.displacements, name, *step) - result.prediction
                ).max()
                others[name] = max(others[name], error)
    assert others.pop(rule) < 2e-3 < min(others.values())


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_more_iterations_never_cost_more(rule, resting, states):
    """Within box and limits; the slopes point downhill."""
    planners = [make(resting, contact_set=rule, iterations=n, horizon=2) for n in (1, 6)]
    fell = 0
    for state in states:
        costs = []
        for planner in planners:
            planner.reset()
            result = planner.plan(state, GOAL)
            assert result.status in GOOD
            check_limits(planner, resting.hand, state.q, result)
            costs.append(result.cost)
        assert costs[1] <= costs[0] * (1 + 1e-5)
        fell += costs[1] < 0.999 * costs[0]
    assert fell >= 3


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("planner", "gaus_newton", "unknown planner 'gaus_newton'; did you mean 'gauss_newton'?"),
        ("model", "implict", r"unknown model 'implict'; did you mean 'implicit'\? .*dsdf"),
        ("contact_set", "thawed", r"unknown contact set 'thawed' \(known: detected, frozen, propagated\)"),
    ],
)
def test_an_unknown_name_is_rejected_with_the_nearest(name, value, complaint, resting):
    with pytest.raises(ConfigError, match=complaint):
        make(resting, **{name: value})


def test_a_new_theta_counts_at_once(planner, resting):
    first, theta = planner.plan(seen(resting), GOAL), planner.theta
    planner.reset()
    planner.theta = theta._replace(stiffness=theta.stiffness * np.float32(0.3), friction=np.float32(0.2))
    second = planner.plan(seen(resting), GOAL)
    assert second.status in GOOD and np.abs(second.q_des - first.q_des).max() > 1e-3


def test_theta_of_another_structure_is_rejected(planner):
    with pytest.raises(ValueError, match="differ in structure"):
        planner.theta = planner.theta._replace(stiffness=np.ones(9, np.float32))


@pytest.mark.slow
def test_a_batch_equals_single_cold_plans(planner, resting, states):
    """Including one of unusable input; the planner's own warm start does not change."""
    some = [*states[:4], states[0]._replace(q=np.full(16, np.nan))]
    goals = np.array([TASK.at_yaw(yaw).pose_WO for yaw in (1.0, -1.0, 0.3, 2.0, 1.0)])
    planner.plan(seen(resting), GOAL)
    undisturbed = planner.fork()
    undisturbed.plan(seen(resting), GOAL)
    batch = planner.plan_batch(jax.tree.map(lambda *leaves: np.stack(leaves), *some), goals)
    np.testing.assert_array_equal(
        planner.plan(seen(resting), GOAL).q_des, undisturbed.plan(seen(resting), GOAL).q_des
    )
    assert list(batch.status[:4]) == [SolveStatus.OK] * 4 and batch.status[4] == SolveStatus.BAD_INPUT
    for k, (state, goal) in enumerate(zip(some, goals, strict=True)):
        planner.reset()
        alone = planner.plan(state, goal)
        for name in ("q_des", "displacements", "prediction", "cost"):
            np.testing.assert_allclose(
                getattr(batch, name)[k], getattr(alone, name), atol=2e-4, rtol=1e-3, err_msg=name
            )
