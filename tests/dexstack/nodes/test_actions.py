"""Actions of the task and trajectory nodes, and trajectories over DDS.

Server and types of the actions need a ROS installation to be built or are not on PyPI: they have stand-ins.
"""

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from builtin_interfaces.msg import Duration
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from harness import HAND, Goal, Pair, call, joint_state, pose_message, turn_of, wait_until
from rclpy.action import CancelResponse
from sensor_msgs.msg import JointState
from std_msgs.msg import Header
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from dexstack.hand.trajectory import FollowParams, Waypoints, write_waypoints
from dexstack.nodes import task
from dexstack.nodes.goal_action import GoalAction
from dexstack.nodes.task import TaskNode
from dexstack.nodes.trajectory import TrajectoryNode, read_motion
from dexstack.nodes.trajectory_action import FollowAction, tolerances
from dexstack.nodes.wire import COMMAND, LATCHED, SENSOR, BadMessage, seconds, set_stamp
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


def test_a_lost_object_is_put_back_in_simulation(pair, monkeypatch):
    monkeypatch.setattr(task, "SILENCE", 0.5)
    monkeypatch.setattr(task, "PUT_BACK", 0.5)
    resets = []

    def reset(request, response):
        resets.append(request)
        response.success = True
        return response

    made = LoneTask(pair(TaskNode, reset_service="simulator/reset", seconds=1000.0))
    made.peer.create_service(Trigger, "simulator/reset", reset)
    assert made.node.autostart()
    wait_until(lambda: made.tick() or made.node.phase == "running", 30, "the rollout")
    assert len(resets) == 1
    wait_until(lambda: len(resets) == 2, 30, "the reset without a pose")
    wait_until(lambda: made.tick() or made.node.phase == "running", 30, "the second rollout")
    assert made.node.status()[2] == {"attempt": 2, "drops": 1}


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


INWARDS = np.sign((HAND.lower + HAND.upper) / 2 - HAND.home)
THERE = HAND.home + 0.1 * INWARDS


def message(*points: tuple, start: float = 0.0) -> JointTrajectory:
    """Return a trajectory through points: time [s], positions and, for some, velocities."""
    made = JointTrajectory(joint_names=list(HAND.joint_names))
    set_stamp(made.header.stamp, start)
    for t, *values in points:
        fields = zip(("positions", "velocities"), values, strict=False)
        made.points.append(JointTrajectoryPoint(**{name: list(map(float, x)) for name, x in fields}))
        set_stamp(made.points[-1].time_from_start, t)
    return made


def test_messages_are_read_as_the_controller_of_ros2_control_reads_them():
    still = np.zeros(16)
    start, motion = read_motion(message((0.5, HAND.home, still), (1.0, THERE, still), start=3.5))
    assert start == 3.5 and motion.times.tolist() == [0.5, 1.0] and motion.velocities.shape == (2, 16)
    np.testing.assert_allclose(motion.positions[1], THERE)
    assert read_motion(message((1.0, THERE)))[1].velocities is None
    assert read_motion(JointTrajectory()) == (0.0, None)
    with pytest.raises(BadMessage, match="points of different sizes"):
        read_motion(message((0.5, HAND.home, still), (1.0, THERE)))
    with pytest.raises(BadMessage, match="every point"):
        read_motion(message((1.0, THERE[:15])))


class Result(SimpleNamespace):
    """The codes are control_msgs'."""

    (
        SUCCESSFUL,
        INVALID_GOAL,
        INVALID_JOINTS,
        OLD_HEADER_TIMESTAMP,
        PATH_TOLERANCE_VIOLATED,
        GOAL_TOLERANCE_VIOLATED,
    ) = 0, -1, -2, -3, -4, -5


class Feedback(SimpleNamespace):
    def __init__(self, **fields) -> None:
        super().__init__(header=Header(), **fields)


def goal(*points: tuple, path=(), at_goal=(), wait: float = 0.0) -> SimpleNamespace:
    said = [[SimpleNamespace(name="joint_0.0", position=x) for x in values] for values in (path, at_goal)]
    time = Duration()
    set_stamp(time, wait)
    return SimpleNamespace(
        trajectory=message(*points), path_tolerance=said[0], goal_tolerance=said[1], goal_time_tolerance=time
    )


class Hand:
    """A hand that is where it is told to be, on simulated time: 20 ms from one joint state to the
    next."""

    def __init__(self, pair: Pair) -> None:
        self.node, self.peer = pair
        self.q, self.t, self.follows = HAND.home.copy(), 0.0, True
        self._to_joints = pair.peer.create_publisher(JointState, "joint_states", 10)
        pair.peer.create_subscription(JointState, "joint_command", self._command, 10)
        self.action = FollowAction(
            pair.node, pair.node.ask, SimpleNamespace(Result=Result, Feedback=Feedback)
        )

    def _command(self, message: JointState) -> None:
        if self.follows:
            self.q = np.array(message.position)

    def tick(self) -> None:
        self.t += 0.02
        self._to_joints.publish(joint_state(self.t, position=self.q))

    def begin(self, handle: Goal) -> Callable[[], tuple[Result] | None]:
        return turn_of(self.action.execute(handle), self.tick)

    def underway(self, handle: Goal) -> Callable[[], tuple[Result] | None]:
        turn = self.begin(handle)
        wait_until(lambda: turn() or handle.feedback, 60, "feedback")
        assert handle.feedback and not handle.status
        return turn

    def run(self, handle: Goal) -> Result:
        return wait_until(self.begin(handle), 60, "the end of the goal")[0]


@pytest.fixture
def hand(pair):
    made = Hand(pair(TrajectoryNode))
    assert made.node.autostart()
    wait_until(lambda: made.tick() or made.node.time > 0.0, 30, "the joints")
    return made


def test_a_goal_is_followed_with_feedback(hand):
    handle = Goal(goal((0.5, THERE)))
    result = hand.run(handle)
    assert handle.status == "succeeded" and result.error_code == Result.SUCCESSFUL
    np.testing.assert_allclose(hand.q, THERE, atol=0.05)
    message = handle.feedback[-1]
    assert len(handle.feedback) > 3 and list(message.joint_names) == list(HAND.joint_names)
    np.testing.assert_allclose(
        np.subtract(message.desired.positions, message.actual.positions), message.error.positions
    )


def test_a_cancelled_goal_stops_and_another_takes_over(hand):
    first = Goal(goal((8.0, THERE)))
    turn = hand.underway(first)
    assert hand.action.cancel(first) == CancelResponse.ACCEPT
    first.is_cancel_requested = True
    assert wait_until(turn, 60, "the end")[0].error_string == "cancelled" and first.status == "canceled"
    assert np.abs(hand.q - HAND.home).max() < 0.05

    old, new = Goal(goal((8.0, THERE))), Goal(goal((0.2, THERE)))
    turn = hand.underway(old)
    assert hand.run(new).error_code == Result.SUCCESSFUL
    assert (
        wait_until(turn, 60, "the end")[0].error_string == "another trajectory took over"
        and old.status == "aborted"
    )


def test_what_fails_says_which_tolerance_and_what_is_refused_says_why(hand):
    def violating(request, code, why):
        handle = Goal(request)
        result = hand.run(handle)
        assert handle.status == "aborted" and result.error_code == code and why in result.error_string

    for request, why in (
        (goal(), "without points"),
        (goal((0.5, THERE + 9.0)), "beyond its limits"),
        (goal((0.5, THERE), (0.4, THERE)), "must begin at 0 or later and increase"),
    ):
        violating(request, Result.INVALID_GOAL, why)
    hand.follows = False
    violating(goal((0.5, THERE), path=(0.05,)), Result.PATH_TOLERANCE_VIOLATED, "should be")
    violating(
        goal((0.2, THERE + 0.1 * INWARDS), path=(-1.0,), wait=0.2), Result.GOAL_TOLERANCE_VIOLATED, "ends"
    )
    hand.node.stop_worker()
    handle = Goal(goal((0.5, THERE)))
    assert hand.run(handle).error_string == "the trajectory node is not active"


def test_tolerances_of_a_goal_are_the_tightest_that_are_said():
    own = FollowParams()
    assert tolerances(goal(), own) == own
    said = tolerances(goal(path=(0.2, 0.1, 0.0), at_goal=(-1.0,), wait=2.5), own)
    assert (said.path_tolerance, said.goal_tolerance, said.goal_time) == (0.1, 1e3, 2.5)


def test_trajectories_on_the_topic_are_played_replaced_cancelled_or_refused(hand):
    states, still = [], np.zeros(16)
    hand.peer.create_subscription(
        DiagnosticStatus,
        "joint_trajectory/state",
        lambda m: states.append((m.message, m.values[0].value)),
        LATCHED,
    )
    to = hand.peer.create_publisher(JointTrajectory, "joint_trajectory", COMMAND)
    wait_until(lambda: to.get_subscription_count() and states, 30, "the node")
    for trajectory, phase, why in (
        (message((0.5, THERE)), "done", ""),
        (message((0.2, HAND.home, still), (0.5, THERE, still)), "done", ""),
        (message((50.0, HAND.home)), "following", ""),
        (message((1.0, HAND.home + 9.0)), "following", "beyond its limits"),
        (JointTrajectory(), "cancelled", "cancelled"),
        (message((1.0, HAND.home[:15])), "cancelled", "refused: every point of a trajectory needs"),
    ):
        states.clear()
        to.publish(trajectory)
        found = lambda p=phase, w=why: any(x == p and w in said for x, said in states)  # noqa: E731
        wait_until(lambda f=found: hand.tick() or f(), 60, f"'{phase}', not {states}")
        if phase == "done":
            np.testing.assert_allclose(hand.q, THERE, atol=0.05)


def test_a_motion_from_a_file_fails_where_the_hand_stays_limp(pair, tmp_path, capsys):
    file = tmp_path / "motion.npz"
    times, positions = np.array([0.0, 1.0]), np.array([HAND.home, THERE])
    write_waypoints(file, Waypoints(HAND.joint_names, times, positions))
    node, peer = pair(TrajectoryNode, motion=str(file), torque_within=0.5)
    to_joints = peer.create_publisher(JointState, "joint_states", 10)
    assert node.autostart()
    state = joint_state(1.0, position=HAND.home, effort=np.zeros(16))
    wait_until(lambda: to_joints.publish(state) or node.ended.is_set(), 60, "the end")
    assert node.exit_code == 1
    assert "the motion is failed: no torque for 0.5 s" in capsys.readouterr().out
