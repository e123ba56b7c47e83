"""Gaits: which rollouts have stalled, how the robot releases, and what it forgets afterwards."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dexstack.control.base import Observation, Plan, SolveStatus
from dexstack.control.supervisors.base import PlanningContext
from dexstack.control.supervisors.gait import GaitParams, GaitSupervisor, laid_down
from dexstack.geometry.rotations import geodesic_angle, quaternion_product, yaw_quaternion

REST = np.array([0.0, 1.0])
Q = np.array([0.5, 0.95])
POSE = np.array([0.01, 0.02, 0.03, 1.0, 0.0, 0.0, 0.0])
GOAL = np.array([0.01, 0.0, 0.03, 0.0, 0.0, 0.0, 1.0])
P = GaitParams(
    stall_window=1.0,
    still_window=1e9,
    stall_progress=0.05,
    stall_tolerance=0.1,
    stall_swing=0.5,
    release_time=0.8,
    release_weight=2.0,
    recentre_distance=1.0,
)
WEIGHTS = SimpleNamespace(reach=3.0)
ROBOT = SimpleNamespace(lower=np.array([-0.2, -2.0]), upper=np.array([2.0, 2.0]), swing_joints=(0,))


class Planner(SimpleNamespace):
    """Notes every call; forks append to the same list."""

    u_max, theta, robot = 0.2, None, ROBOT

    def __init__(self):
        super().__init__(weights=WEIGHTS, resets=0, forks=0, asked=[], status=SolveStatus.OK)

    def reset(self):
        self.resets += 1

    def fork(self):
        self.forks += 1
        other = Planner()
        other.asked, other.status, other.weights, other.fork_of = self.asked, self.status, self.weights, self
        return other

    def plan(self, observation, goal_WO, pull=None):
        self.asked.append(SimpleNamespace(by=self, goal=goal_WO, weights=self.weights, pull=pull))
        return Plan(self.status, np.array([0.6, 0.9]), np.zeros((1, 2)), np.zeros((2, 9)), 1.0, 0.0, 0.0)


ERROR = [np.nan]
"""Orientation error that the task returns."""


def without_reach(weights):
    return SimpleNamespace(reach=0.0)


@pytest.fixture
def planner():
    return Planner()


def make(planner, params):
    functions = lambda pose, goal: ERROR[0], lambda pose, goal: goal, without_reach
    return GaitSupervisor(PlanningContext(planner, None, ROBOT, None, REST, *functions), params)


@pytest.fixture
def gait(planner):
    return make(planner, P)


def step(gait, t, error, q=Q, pose=POSE, goal=GOAL):
    ERROR[0] = error
    return gait.plan(Observation(t, pose, q, None), goal).status


def run(gait, errors, dt=0.1, t=0.0, q=Q, goal=GOAL):
    return [step(gait, t + k * dt, error, q, goal=goal) for k, error in enumerate(errors)]


NEXT = np.array([0.01, 0.0, 0.03, 0.0, 0.0, 1.0, 0.0])
"""Another goal than GOAL."""


@pytest.mark.parametrize(
    ("errors", "change", "stalls"),
    [
        (np.linspace(1.5, 0.2, 60), {}, 0),
        ([0.05] * 100, {}, 0),  # at its goal
        ([0.3, *[0.01] * 100], {"keep_error": 0.0}, 0),
        ([np.nan] * 30, {}, 0),  # a lost pose
        ([0.8] * 100, {"stall_window": 1e9}, 0),
        ([0.8 + 0.3 * (-1) ** k for k in range(15)], {}, 1),  # no progress against the best error
    ],
)
def test_only_a_rollout_without_progress_stalls(planner, errors, change, stalls):
    gait = make(planner, replace(P, **change))
    assert (SolveStatus.RETREAT in run(gait, errors)) == bool(stalls) and gait.stalls == stalls
    if not stalls and errors[0] != 0.05:
        assert len(planner.asked) == len(errors) and planner.resets == 1
        assert all(a.goal is GOAL and a.weights is WEIGHTS and a.pull is None for a in planner.asked)


def test_a_stalled_rollout_releases_for_the_release_time_and_starts_again(gait, planner):
    statuses = run(gait, [0.8] * 25)
    assert [k for k, s in enumerate(statuses) if s == SolveStatus.RETREAT] == list(range(10, 18))
    assert gait.stalls == 1 and planner.resets == 2  # at the start and after it has let go
    assert (
        run(gait, [0.8] * 5, t=2.5)[-1] == SolveStatus.RETREAT and gait.stalls == 2
    )  # a whole window after it has let go


def test_a_rollout_without_motion_stalls_sooner(planner):
    gait = make(planner, GaitParams(stall_window=1.0, still_window=0.3))
    assert run(gait, [0.8] * 4).index(SolveStatus.RETREAT) == 3
    gait.reset()
    moving = [Q + 0.03 * k for k in range(10)]
    assert {step(gait, 0.1 * k, 0.8, q) for k, q in enumerate(moving)} == {SolveStatus.OK}
    gait.reset()
    drifting = [POSE + 0.0015 * k * np.eye(7)[0] for k in range(10)]
    assert {step(gait, 0.1 * k, 0.8, pose=pose) for k, pose in enumerate(drifting)} == {SolveStatus.OK}


def test_a_stalled_finger_swings_to_the_other_side(gait, planner):
    """Beyond rest by half of its former swing; other joints go to rest, and all stay within limits."""
    run(gait, [0.8] * 11, q=Q)
    # the limit -0.2 in place of -0.25; no more than one step
    np.testing.assert_allclose(planner.asked[-1].pull.reference, np.clip([-0.7, 0.05], -0.2, 0.2))
    near = np.array([-0.12, 1.1])
    gait.reset()
    run(gait, [0.8] * 10, q=Q)
    run(gait, [0.8], t=1.0, q=near)
    np.testing.assert_allclose(
        planner.asked[-1].pull.reference, np.clip(np.array([0.06, 1.0]) - near, -0.2, 0.2)
    )


def test_between_two_goals_it_lays_the_object_down_and_draws_the_joints_to_rest(gait, planner):
    run(gait, [0.8])
    assert set(run(gait, [0.8] * 8, t=0.1, goal=NEXT)) == {SolveStatus.RETREAT} and gait.stalls == 0
    asked = planner.asked[-1]
    np.testing.assert_allclose(asked.goal, laid_down(POSE, NEXT), atol=1e-12)
    assert asked.weights.reach == 0.0 and asked.pull.weight == P.release_weight
    np.testing.assert_allclose(asked.pull.reference, [-0.2, 0.05])  # no farther than one step may reach
    assert planner.forks == 1 and planner.weights is WEIGHTS
    assert [a.by is planner for a in planner.asked] == [True] + [False] * 8, "a fork plans the release"
    assert run(gait, [0.8], t=0.91, goal=NEXT)[0] == SolveStatus.OK and planner.asked[-1].goal is NEXT


def test_a_release_ends_when_the_robot_is_at_rest(gait):
    run(gait, [0.8])
    assert run(gait, [0.8] * 2, t=0.1, goal=NEXT) == [SolveStatus.RETREAT] * 2
    assert run(gait, [0.8], t=0.3, q=REST + 0.05, goal=NEXT)[0] == SolveStatus.OK


def test_a_release_ends_when_nothing_moves(planner):
    gait = make(planner, GaitParams(still_window=0.3, release_time=2.0))
    step(gait, 0.0, 0.8)
    statuses = [step(gait, 0.1 * k, 0.8, Q + 0.06 * min(k, 4), goal=NEXT) for k in range(1, 8)]
    assert statuses == [SolveStatus.RETREAT] * 6 + [SolveStatus.OK]  # the joints last moved at 0.4 s


def test_a_failed_solve_stays_one(gait, planner):
    planner.status = SolveStatus.DIVERGED
    assert set(run(gait, [0.8] * 20)) == {SolveStatus.DIVERGED}


def test_a_tilted_object_is_laid_down_at_its_place_and_heading():
    """Height and tilt are those of the goal, which may be a flip."""
    flip = np.array([np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0])
    for on_its_way in (0.3, -2.0, 3.0):
        goal = np.concatenate([[0.0, 0.0, 0.03], quaternion_product(yaw_quaternion(1.0), flip)])
        level = quaternion_product(yaw_quaternion(on_its_way), goal[3:])
        tilt = np.array([np.cos(0.1), np.sin(0.1), 0.0, 0.0])  # about a level axis
        found = laid_down(np.concatenate([[0.02, -0.01, 0.05], quaternion_product(tilt, level)]), goal)
        np.testing.assert_allclose(found[:3], [0.02, -0.01, 0.03])
        assert geodesic_angle(found[3:], level) < 1e-9


def test_a_robot_at_rest_goes_on_to_the_next_goal_at_once(gait):
    assert run(gait, [0.8], q=REST) == [SolveStatus.OK]
    assert run(gait, [0.8], t=0.1, q=REST, goal=NEXT) == [SolveStatus.OK]
    assert run(gait, [0.8], t=0.2, goal=NEXT) == [SolveStatus.OK]


FAR = replace(P, release_time=0.5, recentre_distance=0.015, recentre_time=2.0)


def test_an_object_that_stalls_away_from_its_place_is_brought_back_with_its_orientation(gait, planner):
    gait.params = FAR
    run(gait, [0.8] * 35)  # stalls at 1.0 s, lets go until 1.5 s, and is brought back until 3.5 s
    goals = [a.goal for a in planner.asked]
    assert all(goal is GOAL for goal in goals[:10]) and all(goal is goals[10] for goal in goals[10:15])
    assert all(goal is goals[15] for goal in goals[15:]) and gait.stalls == 1
    np.testing.assert_array_equal(goals[15], [*GOAL[:3], *POSE[3:]])
    assert run(gait, [0.8], t=3.51) == [SolveStatus.OK] and planner.asked[-1].goal is GOAL


def test_an_object_back_in_its_place_is_turned_at_once(gait, planner):
    gait.params = FAR
    run(gait, [0.8] * 20)
    assert planner.asked[-1].goal is not GOAL
    near = POSE + np.append(GOAL[:3] - POSE[:3] + [0.005, 0, 0], np.zeros(4))
    step(gait, 2.0, 0.8, pose=near)
    assert planner.asked[-1].goal is GOAL
    assert (
        set(run(gait, [0.8] * 9, t=2.1)) == {SolveStatus.OK} and gait.stalls == 1
    )  # a whole window from then on


def test_an_object_at_its_goal_is_kept_until_the_error_grows(gait, planner):
    """Nothing is planned meanwhile, the command stays, and the next plan is a cold start."""
    run(gait, [0.3, 0.08])
    assert len(planner.asked) == 2
    kept = [
        gait.plan(Observation(t, POSE, Q + 0.01 * t, None), GOAL)
        for t in (0.2, 0.3)
        if not ERROR.__setitem__(0, 0.04)
    ]
    ERROR[0] = 0.09
    kept.append(gait.plan(Observation(0.4, POSE, Q, None), GOAL))
    assert len(planner.asked) == 2 and planner.resets == 1
    for plan in kept:
        np.testing.assert_array_equal(plan.q_des, [0.6, 0.9])
        assert not plan.displacements.any() and plan.status == SolveStatus.OK
    np.testing.assert_allclose(kept[0].prediction, np.tile([*POSE, *(Q + 0.002)], (2, 1)))
    step(gait, 0.5, 0.11)
    assert len(planner.asked) == 3 and planner.resets == 2
    step(gait, 0.6, 0.08)
    assert len(planner.asked) == 4, "not before it is as near again"


def test_a_kept_object_is_released_for_another_goal(gait):
    run(gait, [0.3, 0.01, 0.01])
    assert step(gait, 0.3, 0.8, goal=NEXT) == SolveStatus.RETREAT
    assert step(gait, 1.15, 0.8, goal=NEXT) == SolveStatus.OK
