"""The judge of a rollout: goals in their order, the hold time, drops and the end."""

import numpy as np
import pytest

from dexstack.tasks.judge import SETTLED, Judge
from dexstack.tasks.palm_turn import PalmTurn
from dexstack.tasks.reorient import Reorient, ReorientParams

TASK = PalmTurn()
HOLD = TASK.params.hold


def judge(*yaws, task=TASK):
    return Judge(task, task.start(), map(task.at_yaw, yaws))


def at(yaw, fall=0.0):
    pose_WO = TASK.at_yaw(yaw).pose_WO.copy()
    pose_WO[2] -= fall
    return pose_WO


def test_a_goal_is_reached_after_the_hold_time_and_the_next_follows():
    judged = judge(0.5, 1.0)
    assert not judged.look(0.0, at(0.5)) and not judged.look(0.9 * HOLD, at(0.5))
    assert judged.look(1.1 * HOLD, at(0.5)) and judged.goal.label == TASK.at_yaw(1.0).label
    assert judged.reached_at == [1.1 * HOLD] and not judged.complete
    judged.look(2.0, at(1.0))
    assert not judged.look(2.0 + 1.1 * HOLD, at(1.0)) and judged.complete
    assert judged.goal.label == TASK.at_yaw(1.0).label, "the last goal stays"
    judged.look(4.0, at(1.0))
    assert len(judged.reached_at) == 2, "it is not reached again"


def test_leaving_the_tolerance_restarts_the_hold_time():
    judged = judge(0.5)
    judged.look(0.0, at(0.5))
    judged.look(0.9 * HOLD, at(0.8))
    judged.look(1.1 * HOLD, at(0.5))
    assert not judged.complete


def test_a_dropped_object_reaches_nothing():
    judged = judge(0.5)
    judged.look(0.0, at(0.5, fall=0.2))
    judged.look(2.0 * HOLD, at(0.5, fall=0.2))
    assert judged.dropped and not judged.reached_at
    assert judged.outcome(1.0, at(0.5, fall=0.2)).dropped


def test_an_object_settles_where_it_rests_at_its_last_goal():
    """It turns slowly inside the tolerance from 2 to 3 s, then rests."""
    judged, times = judge(0.5, 1.0), np.arange(0.0, 6.0, 0.05)
    yaws = np.where(times < 1.0, 0.5, 1.0 + 0.05 * np.clip(times - 2.0, 0.0, 1.0))
    settled = []
    for t, yaw in zip(times, yaws, strict=True):
        judged.look(t, at(yaw))
        settled.append(judged.settled)
    first = times[np.argmax(settled)]
    assert first == pytest.approx(1.0 + SETTLED, abs=0.11), "it rests at its second goal before it turns"
    turning = (times > 2.5) & (times < 3.0)
    assert not np.array(settled)[turning].any() and settled[-1]
    judged.look(6.1, at(2.0))
    assert not judged.settled
    judged.look(6.2, at(0.0, fall=0.2))
    assert judged.dropped and not judged.settled


@pytest.mark.parametrize(("t", "over"), [(0.9, False), (1.1, True)])
def test_a_task_may_end_the_rollout(t, over):
    task = Reorient(ReorientParams(patience=1.0))
    judged = judge(3.0, task=task)
    judged.look(t, np.array(task.start().pose_WO))
    assert judged.over is over
