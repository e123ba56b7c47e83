"""The stall detector: who is stalled, how the robot lets go, what it forgets afterwards."""

from types import SimpleNamespace

import numpy as np
import pytest

from dexstack.control.mpc import MpcParams, MpcResult, SolveStatus
from dexstack.control.stall import StallParams, StallRemedy

REST = np.array([0.0, 1.0])
Q = np.array([0.5, 0.95])
POSE = np.array([0.01, 0.02, 0.03, 1.0, 0.0, 0.0, 0.0])
GOAL = np.array([0.01, 0.0, 0.03, 0.0, 0.0, 0.0, 1.0])
P = StallParams(
    stall_window=1.0,
    stall_progress=0.05,
    stall_tolerance=0.1,
    retreat_time=0.5,
    release_time=0.8,
    release_weight=2.0,
    recentre_distance=1.0,
)
WEIGHTS = {"reach": 3.0}


class Planner(SimpleNamespace):
    """Writes down what it is asked."""

    def __init__(self):
        super().__init__(params=MpcParams(u_max=0.2), resets=0, asked=[], status=SolveStatus.OK)

    def reset(self):
        self.resets += 1

    def solve(self, pose_WO, q, contacts, goal_WO, theta, weights, pull=None):
        self.asked.append(SimpleNamespace(goal=goal_WO, weights=weights, pull=pull))
        return MpcResult(self.status, np.array([0.6, 0.9]), np.zeros((1, 2)), np.zeros((2, 9)), 1.0, 0.0, 0.0)


@pytest.fixture
def planner():
    return Planner()


@pytest.fixture
def remedy(planner):
    return StallRemedy(planner, REST, P, lambda weights: {**weights, "reach": 0.0})


def run(remedy, errors, dt=0.1, t=0.0, q=Q):
    return [remedy.solve(t + k * dt, error, POSE, q, None, GOAL, None, WEIGHTS).status for k, error in enumerate(errors)]


def test_a_rollout_that_gets_nearer_is_left_to_the_planner(remedy, planner):
    assert set(run(remedy, np.linspace(1.5, 0.2, 60))) == {SolveStatus.OK}
    assert remedy.stalls == 0 and planner.resets == 1
    assert all(a.goal is GOAL and a.weights is WEIGHTS and a.pull is None for a in planner.asked)


def test_one_that_stands_still_goes_straight_to_rest_for_the_retreat_time_and_starts_afresh(remedy, planner):
    statuses = run(remedy, [0.8] * 25)
    assert [k for k, s in enumerate(statuses) if s == SolveStatus.RETREAT] == list(range(10, 15))
    assert remedy.stalls == 1 and planner.resets == 2  # at the start and after the retreat
    assert run(remedy, [0.8], t=2.51)[0] == SolveStatus.RETREAT and remedy.stalls == 2  # a whole window after the retreat ended


def test_a_retreat_goes_no_faster_than_the_planner_may(remedy):
    run(remedy, [0.8] * 10)
    result = remedy.solve(1.0, 0.8, POSE, Q, None, GOAL, None, WEIGHTS)
    np.testing.assert_allclose(result.q_des, [0.3, 1.0])


def test_a_release_keeps_the_object_where_it_is_and_draws_the_joints_to_rest(remedy, planner):
    run(remedy, [0.8])
    remedy.release(0.1)
    assert set(run(remedy, [0.8] * 8, t=0.1)) == {SolveStatus.RETREAT} and remedy.stalls == 0
    asked = planner.asked[-1]
    np.testing.assert_array_equal(asked.goal, POSE)
    assert asked.weights == {"reach": 0.0} and asked.pull.weight == P.release_weight
    np.testing.assert_allclose(asked.pull.reference, [-0.2, 0.05])  # no farther than one step may reach
    assert run(remedy, [0.8], t=0.91)[0] == SolveStatus.OK and planner.asked[-1].goal is GOAL


def test_a_release_ends_when_the_robot_is_at_rest(remedy):
    remedy.release(0.0)
    assert run(remedy, [0.8] * 2) == [SolveStatus.RETREAT] * 2
    assert run(remedy, [0.8], t=0.2, q=REST + 0.05)[0] == SolveStatus.OK


def test_progress_counts_against_the_best_error_so_that_swinging_is_a_stall(remedy):
    assert SolveStatus.RETREAT in run(remedy, [0.8 + 0.3 * (-1) ** k for k in range(15)])


def test_an_object_at_its_goal_is_not_stalled(remedy):
    assert set(run(remedy, [0.05] * 100)) == {SolveStatus.OK}


def test_a_new_rollout_forgets_the_old_one(remedy):
    run(remedy, [0.8] * 9)
    remedy.reset()
    assert set(run(remedy, [0.8] * 9, t=0.9)) == {SolveStatus.OK}


def test_a_failed_solve_stays_one(remedy, planner):
    planner.status = SolveStatus.DIVERGED
    assert set(run(remedy, [0.8] * 20)) == {SolveStatus.DIVERGED}


def test_it_can_be_turned_off(planner):
    params = StallParams(retreat_time=0.0)
    assert set(run(StallRemedy(planner, REST, params, dict), [0.8] * 100)) == {SolveStatus.OK}


def test_a_lost_pose_changes_nothing(remedy):
    assert set(run(remedy, [np.nan] * 30)) == {SolveStatus.OK}
    assert remedy.stalls == 0


def test_an_object_that_has_gone_far_is_released_instead_of_dragged(remedy, planner):
    far = POSE + np.eye(7)[0] * 0.09
    for k in range(12):
        remedy.solve(0.1 * k, 0.8, far, Q, None, GOAL, None, WEIGHTS)
    assert remedy.stalls == 1 and planner.asked[-1].pull is not None
    np.testing.assert_array_equal(planner.asked[-1].goal, far)


def test_where_letting_go_frees_nothing_the_object_is_dragged(remedy, planner):
    """Far away and stalled again and again: every third time; progress in between starts the count anew."""
    far, ways = POSE + np.eye(7)[0] * 0.09, []
    for k in range(200):
        before = remedy.stalls
        remedy.solve(0.1 * k, 0.8 if k < 120 else 0.6, far, Q, None, GOAL, None, WEIGHTS)
        if remedy.stalls > before:
            ways.append((k > 120, "released" if planner.asked[-1].pull is not None else "dragged"))
    assert [way for late, way in ways if not late] == ["released", "released", "dragged"] * 2 + ["released"]
    assert [way for late, way in ways if late][:3] == ["released", "released", "dragged"]


def test_a_release_of_a_robot_at_rest_does_not_wait_for_it_to_leave_rest(remedy):
    remedy.release(0.0)
    assert run(remedy, [0.8], q=REST) == [SolveStatus.OK]
    assert run(remedy, [0.8], t=0.1) == [SolveStatus.OK]


FAR = StallParams(stall_window=1.0, retreat_time=0.5, recentre_distance=0.015, recentre_time=2.0)


def goals_of(planner, first):
    """What the planner was asked for from call ``first`` on, without repetitions."""
    asked = [a.goal for a in planner.asked[first:]]
    return [goal for k, goal in enumerate(asked) if k == 0 or goal is not asked[k - 1]]


def test_an_object_that_stalls_away_from_its_place_is_brought_back_as_it_is_turned(remedy, planner):
    remedy.params = FAR
    run(remedy, [0.8] * 35)  # stalls at 1.0 s, retreats until 1.5 s, and is brought back until 3.5 s
    goals = goals_of(planner, 0)
    assert len(goals) == 2 and goals[0] is GOAL and remedy.stalls == 1
    np.testing.assert_array_equal(goals[1], [*GOAL[:3], *POSE[3:]])
    assert planner.asked[14].goal is GOAL and planner.asked[15].goal is goals[1] and planner.asked[34].goal is goals[1]
    assert run(remedy, [0.8], t=3.51) == [SolveStatus.OK] and planner.asked[-1].goal is GOAL


def test_what_is_back_in_its_place_is_turned_on_at_once(remedy, planner):
    remedy.params = FAR
    run(remedy, [0.8] * 20)
    assert planner.asked[-1].goal is not GOAL
    near = POSE + np.append(GOAL[:3] - POSE[:3] + [0.005, 0, 0], np.zeros(4))
    remedy.solve(2.0, 0.8, near, Q, None, GOAL, None, WEIGHTS)
    assert planner.asked[-1].goal is GOAL
    assert set(run(remedy, [0.8] * 9, t=2.1)) == {SolveStatus.OK} and remedy.stalls == 1  # a whole window from then on
