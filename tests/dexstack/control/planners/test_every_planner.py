"""Properties of every planner: it never raises, keeps box and limits, is repeatable, holds a command, and
forks without side effects."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from dexstack.control.base import Observation, Pull, SolveStatus
from dexstack.control.factory import PLANNERS
from dexstack.geometry.rotations import geodesic_angle
from tests.dexstack.control.planning import GOAL, SAMPLING, TASK, check_limits, make, seen

GOOD = (SolveStatus.OK, SolveStatus.NO_DESCENT)
SOME = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)


@pytest.fixture(scope="module", params=PLANNERS)
def shared(request, resting):
    planner = make(resting, planner=request.param, horizon=2, **SAMPLING)
    planner.warm_up()
    return planner


@pytest.fixture
def planner(shared):
    return shared.fork()


def test_a_plan_has_the_promised_shapes(planner, resting):
    plan = planner.plan(seen(resting), GOAL)
    assert plan.status in GOOD
    assert (
        plan.q_des.shape == (16,) and plan.displacements.shape == (2, 16) and plan.prediction.shape == (3, 23)
    )
    assert np.isfinite(plan.cost) and plan.cpu_s > 0 and plan.wall_s > 0
    np.testing.assert_allclose(plan.prediction[0], np.concatenate([resting.pose_WO, resting.q]), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(plan.prediction[:, 3:7], axis=1), 1.0, atol=1e-5)
    limits = (
        resting.hand.lower + planner.params.limit_margin,
        resting.hand.upper - planner.params.limit_margin,
    )
    np.testing.assert_allclose(plan.q_des, np.clip(resting.q + plan.displacements[0], *limits), atol=1e-6)


@SOME
@given(data=st.data())
def test_box_and_limits_hold_at_any_corner_of_the_joint_range(data, shared, resting):
    side = np.array(data.draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=16, max_size=16)))
    off = np.array(data.draw(st.lists(st.floats(-0.04, 0.04), min_size=16, max_size=16)))
    q = resting.hand.lower + side * (resting.hand.upper - resting.hand.lower) + off
    plan = shared.plan(seen(resting, q=q), GOAL)
    assert plan.status in GOOD
    check_limits(shared, resting.hand, q, plan)


@SOME
@given(
    pose=st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), min_size=7, max_size=7),
    q=st.lists(st.floats(-1e6, 1e6), min_size=16, max_size=16),
)
def test_no_numbers_make_it_raise_or_command_nonsense(pose, q, shared, resting):
    with np.errstate(over="ignore"):
        plan = shared.plan(Observation(0.0, np.array(pose), np.array(q), resting.contacts), GOAL)
    assert plan.status in SolveStatus
    assert (
        np.all(np.isfinite(plan.q_des))
        and np.all(np.isfinite(plan.displacements))
        and plan.prediction.shape == (3, 23)
    )
    assert np.all(plan.q_des >= resting.hand.lower - 1e-6) and np.all(plan.q_des <= resting.hand.upper + 1e-6)


BAD = {
    "a joint that is no number": lambda o, goal: (
        o._replace(q=np.where(np.arange(16) == 5, np.nan, o.q)),
        goal,
    ),
    "a pose that is infinite": lambda o, goal: (o._replace(pose_WO=np.full(7, np.inf)), goal),
    "a goal that is no number": lambda o, goal: (o, np.full(7, np.nan)),
    "too few joints": lambda o, goal: (o._replace(q=o.q[:9]), goal),
    "a goal too long": lambda o, goal: (o, np.append(goal, 0.0)),
    "no pose": lambda o, goal: (o._replace(pose_WO=None), goal),
    "words": lambda o, goal: (o._replace(q="fist"), goal),
    "an object without orientation": lambda o, goal: (
        o._replace(pose_WO=np.append(o.pose_WO[:3], np.zeros(4))),
        goal,
    ),
}


@pytest.mark.parametrize("spoil", BAD.values(), ids=BAD)
def test_bad_input_holds_the_previous_command_and_disturbs_nothing(spoil, planner, resting):
    undisturbed = planner.fork()
    undisturbed.plan(seen(resting), GOAL)
    before = planner.plan(seen(resting), GOAL)
    held = planner.plan(*spoil(seen(resting, t=0.02), GOAL))
    assert held.status == SolveStatus.BAD_INPUT and not held.status.usable
    np.testing.assert_array_equal(held.q_des, before.q_des)
    np.testing.assert_array_equal(held.displacements, before.displacements)
    assert held.prediction.shape == (3, 23) and np.isnan(held.prediction).all() and held.cpu_s >= 0
    again = [each.plan(seen(resting, t=0.04), GOAL) for each in (planner, undisturbed)]
    np.testing.assert_array_equal(again[0].displacements, again[1].displacements)


def test_without_a_previous_command_it_holds_a_pose_inside_the_limits(planner, resting):
    plan = planner.plan(seen(resting, pose_WO=np.full(7, np.nan)), GOAL)
    assert plan.status == SolveStatus.BAD_INPUT
    assert np.all(plan.q_des >= resting.hand.lower) and np.all(plan.q_des <= resting.hand.upper)


def test_weights_that_are_no_numbers_diverge_and_hold_the_previous_command(planner, resting):
    whole = planner.weights
    before = planner.plan(seen(resting), GOAL)
    planner.weights = replace(whole, orientation_weight=np.nan)
    plan = planner.plan(seen(resting), GOAL)
    assert plan.status == SolveStatus.DIVERGED and not plan.status.usable and plan.prediction.shape == (3, 23)
    np.testing.assert_array_equal(plan.q_des, before.q_des)
    planner.weights = whole
    assert planner.plan(seen(resting), GOAL).status in GOOD


def test_a_reset_forgets_and_the_same_input_gives_the_same_plans(planner, resting):
    rows = []
    for _ in range(2):
        planner.reset()
        rows.append([planner.plan(seen(resting, t=0.02 * k), GOAL) for k in range(3)])
    for first, second in zip(*rows, strict=True):
        for name in ("status", "q_des", "displacements", "prediction", "cost"):
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


def test_plans_of_a_fork_do_not_change_the_planner(planner, resting):
    """Neither warm start, nor held command, θ or weights."""
    undisturbed = planner.fork()
    undisturbed.plan(seen(resting), GOAL)
    planner.plan(seen(resting), GOAL)
    asked = planner.fork()
    weights = asked.weights
    asked.weights = replace(weights, position_weight=1.0)
    for k in range(3):
        asked.plan(seen(resting, q=resting.q + 0.1 * k), TASK.at_yaw(-1.0).pose_WO)
    assert planner.weights is weights and asked.weights is not weights
    hold = [each.plan(seen(resting, q=np.full(16, np.nan)), GOAL).q_des for each in (planner, undisturbed)]
    np.testing.assert_array_equal(*hold)
    again = [each.plan(seen(resting, t=0.02), GOAL).displacements for each in (planner, undisturbed)]
    np.testing.assert_array_equal(*again)


def test_a_pull_draws_the_commands_to_its_reference(planner, resting):
    reference = np.full(16, 0.1)
    plan = [planner.plan(seen(resting), resting.pose_WO, Pull(reference, 1e5)) for _ in range(60)][-1]
    free = planner.fork().plan(seen(resting), resting.pose_WO)
    distance = [np.abs(p.displacements - reference).mean() for p in (plan, free)]
    assert distance[0] < 0.8 * distance[1]


def test_a_goal_costs_the_same_whoever_plans(planner, resting):
    """The task's own terminal cost, away from the goal too: ω_p (1 + d²/l²) d² + ω_q sin²(θ/2)."""
    w = planner.weights
    for away, yaw in (([0.0, 0.0, 0.0], 0.0), ([0.03, -0.01, 0.002], 1.2), ([-0.05, 0.04, 0.01], -2.5)):
        pose = TASK.at_yaw(yaw).pose_WO + np.array([*away, 0, 0, 0, 0])
        d, angle = np.linalg.norm(pose[:3] - GOAL[:3]), geodesic_angle(pose[3:], GOAL[3:])
        expected = (
            w.position_weight * (1 + (d / w.position_length) ** 2) * d**2
            + w.orientation_weight * np.sin(angle / 2) ** 2
        )
        assert planner.goal_cost(pose, resting.q, GOAL) == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_it_plans_to_turn_the_cube(planner, resting):
    """From the same state towards opposite goals, after as many plans, the first joint targets
    differ."""
    ends = []
    for yaw in (np.pi / 2, -np.pi / 2):
        planner.reset()
        for k in range(10):
            plan = planner.plan(seen(resting, t=0.02 * k), TASK.at_yaw(yaw).pose_WO)
        ends.append(plan)
        assert np.abs(plan.displacements).max() > 1e-3
    assert np.abs(ends[0].q_des - ends[1].q_des).max() > 0.02
