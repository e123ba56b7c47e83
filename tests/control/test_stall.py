"""The stall detector: who is stalled, for how long the robot lets go, what it forgets afterwards."""

from types import SimpleNamespace

import numpy as np
import pytest

from dexstack.control.mpc import MpcParams, MpcResult, SolveStatus
from dexstack.control.stall import StallParams, StallRemedy

REST = np.array([0.0, 1.0])
Q = np.array([0.5, 0.95])
PLAN = MpcResult(SolveStatus.OK, np.array([0.6, 0.9]), np.zeros((1, 2)), np.zeros((2, 9)), 1.0, 0.0, 0.0)
P = StallParams(stall_window=1.0, stall_progress=0.05, stall_tolerance=0.1, retreat_time=0.5)


class Planner(SimpleNamespace):
    def reset(self):
        self.resets += 1


@pytest.fixture
def planner():
    return Planner(params=MpcParams(u_max=0.2), resets=0)


@pytest.fixture
def remedy(planner):
    return StallRemedy(planner, REST, P)


def run(remedy, errors, dt=0.1, t=0.0):
    return [remedy.apply(t + k * dt, error, Q, PLAN).status for k, error in enumerate(errors)]


def test_a_rollout_that_gets_nearer_is_left_alone(remedy, planner):
    assert set(run(remedy, np.linspace(1.5, 0.2, 60))) == {SolveStatus.OK}
    assert remedy.stalls == 0 and planner.resets == 0


def test_one_that_stands_still_lets_go_for_the_retreat_time_and_starts_afresh(remedy, planner):
    statuses = run(remedy, [0.8] * 25)
    retreat = [k for k, s in enumerate(statuses) if s == SolveStatus.RETREAT]
    assert retreat == list(range(10, 15)) and remedy.stalls == 1 and planner.resets == 1
    assert run(remedy, [0.8], t=2.6)[0] == SolveStatus.RETREAT  # a whole window after the retreat ended, again
    assert remedy.stalls == 2


def test_progress_counts_against_the_best_error_so_that_swinging_is_a_stall(remedy):
    assert SolveStatus.RETREAT in run(remedy, [0.8 + 0.3 * (-1) ** k for k in range(15)])


def test_an_object_at_its_goal_is_not_stalled(remedy):
    assert set(run(remedy, [0.05] * 100)) == {SolveStatus.OK}


def test_the_retreat_moves_towards_the_rest_pose_no_faster_than_the_planner_may(remedy):
    run(remedy, [0.8] * 10)
    result = remedy.apply(1.0, 0.8, Q, PLAN)
    np.testing.assert_allclose(result.q_des, [0.3, 1.0])
    np.testing.assert_array_equal(result.plan, PLAN.plan)


def test_a_new_rollout_forgets_the_old_one(remedy):
    run(remedy, [0.8] * 9)
    remedy.reset()
    assert set(run(remedy, [0.8] * 9, t=0.9)) == {SolveStatus.OK}


def test_it_can_be_turned_off(planner):
    assert set(run(StallRemedy(planner, REST, StallParams(retreat_time=0.0)), [0.8] * 100)) == {SolveStatus.OK}


def test_a_lost_pose_changes_nothing(remedy):
    assert set(run(remedy, [np.nan] * 30)) == {SolveStatus.OK}
    assert remedy.stalls == 0
