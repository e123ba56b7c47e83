"""The task node alone, in simulated time, with published object poses and commands.

The server and types of ReachGoal need a ROS installation to be built; their stand-ins have the fields of
the action's file, as rosidl reads them.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from builtin_interfaces.msg import Duration
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from harness import Goal, Pair, call, joint_state, pose_message, turn_of, wait_until
from rclpy.action import CancelResponse
from sensor_msgs.msg import JointState

from dexstack.nodes import task
from dexstack.nodes.goal_action import GoalAction
from dexstack.nodes.task import TaskNode
from dexstack.nodes.wire import COMMAND, SENSOR, seconds
from dexstack.tasks.palm_turn import PalmTurn

PACKAGE = Path(__file__).parents[3] / "msgs"


def stand_in(specification) -> type:
    """Return a message class with exactly these fields."""
    fields = {f.name: f.type.type for f in specification.fields if f.type.type != "PoseStamped"}
    make = {"string": str, "float64": float, "Duration": Duration}

    class Message(SimpleNamespace):
        def __init__(self, **given) -> None:
            assert given.keys() <= fields.keys()
            super().__init__(**{name: make[kind]() for name, kind in fields.items()} | given)

    return Message


@pytest.fixture(scope="module")
def kind():
    parser = pytest.importorskip("rosidl_adapter.parser")
    action = parser.parse_action_file("dexstack_msgs", str(PACKAGE / "action" / "ReachGoal.action"))
    assert [str(f.type) for f in action.goal.fields] == ["geometry_msgs/PoseStamped"]
    return SimpleNamespace(Result=stand_in(action.result), Feedback=stand_in(action.feedback))


def asking_for(pose_WO: np.ndarray) -> Goal:
    return Goal(SimpleNamespace(goal=pose_message(pose_WO, kind=PoseStamped)))


class LoneTask:
    """Publishes the inputs of the node."""

    def __init__(self, pair: Pair) -> None:
        self.node, self.peer, self.t, self.pose = *pair, 0.0, PalmTurn().start().pose_WO.copy()
        self._to_pose = self.peer.create_publisher(PoseWithCovarianceStamped, "object_pose", SENSOR)
        self._to_command = self.peer.create_publisher(JointState, "joint_command", COMMAND)

    def tick(self, *, others: bool = True) -> None:
        self.t += 0.02
        self._to_pose.publish(pose_message(self.pose, self.t))
        if others:
            self._to_command.publish(joint_state(self.t, position=np.zeros(16)))


@pytest.fixture
def scene(pair) -> LoneTask:
    """A node in a running rollout with 1000 s left."""
    made = LoneTask(pair(TaskNode, reset_service="", seconds=1000.0))
    assert made.node.autostart()
    wait_until(lambda: made.tick() or made.node.phase == "running", 30, "the rollout")
    return made


def test_a_rollout_ends_without_a_pose_and_continues_without_commands_and_joint_states(scene, monkeypatch):
    monkeypatch.setattr(task, "SILENCE", 1.0)
    end = time.monotonic() + 2.0
    while time.monotonic() < end:
        scene.tick(others=False)
        wait_until(
            lambda: scene.node.time == pytest.approx(scene.t) or scene.tick(others=False), 30, "the pose"
        )
    assert scene.node.phase == "running"
    wait_until(lambda: scene.node.phase == "lost", 30, "the end")


def begin(scene: LoneTask, action: GoalAction, handle: Goal):
    return turn_of(action.execute(handle), scene.tick)


def turned(degrees: float) -> np.ndarray:
    return PalmTurn().at_yaw(np.radians(degrees)).pose_WO


@pytest.fixture
def pursued(scene, kind):
    """Start a goal of +40° with feedback; return the action, the goal and its turns."""

    def start(action=None, degrees=40.0):
        action, handle = action or GoalAction(scene.node, kind), asking_for(turned(degrees))
        turn = begin(scene, action, handle)
        wait_until(lambda: turn() or handle.feedback, 60, "feedback")
        return action, handle, turn

    return start


def test_a_goal_is_pursued_with_feedback_and_reached(scene, pursued):
    _, handle, turn = pursued()
    last = handle.feedback[-1]
    assert last.phase == "running" and last.orientation_error == pytest.approx(np.radians(40.0), abs=0.01)
    assert 900.0 < seconds(last.time_left) <= 1000.0
    scene.pose = turned(40.0)
    (result,) = wait_until(turn, 60, "the result")
    assert handle.status == "succeeded" and result.phase == "reached" and result.orientation_error < 0.01
    assert seconds(result.elapsed) > 0.0


def test_a_cancelled_goal_ends_and_a_new_one_supersedes_it(scene, pursued):
    action, handle, turn = pursued()
    assert action.cancel(handle) == CancelResponse.ACCEPT
    handle.is_cancel_requested = True
    (result,) = wait_until(turn, 60, "the result")
    assert handle.status == "canceled" and result.phase == "cancelled"
    assert action.cancel(handle) == CancelResponse.REJECT, "nothing runs"

    _, old, first = pursued(action)
    second = begin(scene, action, asking_for(turned(-40.0)))
    (result,) = wait_until(lambda: (second() and None) or first(), 60, "the end of the first")
    assert old.status == "aborted" and result.phase == "superseded"


def test_an_unusable_goal_is_refused(scene, kind):
    action, handle = GoalAction(scene.node, kind), asking_for(turned(40.0))
    handle.request.goal.header.frame_id = "moon"
    (result,) = wait_until(begin(scene, action, handle), 60, "the result")
    assert handle.status == "aborted" and result.phase == "refused"
    scene.node.stop_worker()
    handle = asking_for(turned(40.0))
    assert wait_until(begin(scene, action, handle), 60, "the result")[0].phase == "refused"


def test_a_rollout_is_cancelled_by_the_service(scene):
    assert call(scene.peer, "task/cancel").success
    answer = call(scene.peer, "task/cancel")
    assert not answer.success and "nothing to cancel" in answer.message
