"""What the mpc node plans from: contacts with the pose of their stamp, goals of one rollout and of
the next; the planner only notes."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from harness import wait_until
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState, PointCloud2

from dexstack.control.base import Plan, SolveStatus
from dexstack.control.params import BlindParams
from dexstack.nodes import mpc as module
from dexstack.nodes.mpc import MpcNode
from dexstack.nodes.wire import SENSOR, contacts_message, fill_pose, seconds, set_stamp
from dexstack.tasks.palm_turn import PalmTurn

PERIOD = 0.02
SCENE = PalmTurn().scene()


class Notes:
    """In place of a supervisor, its planner and what predicts the state it is asked for."""

    def __init__(self) -> None:
        self.stalls = self.rollouts = 0
        self.asked: list[tuple[float, np.ndarray, np.ndarray]] = []
        """Time of the contacts, pose (7,) and goal (7,) of every plan."""
        self.angles: list[np.ndarray] = []
        """Joint angles (16,) of every plan."""
        self.then: list[np.ndarray] = []
        """Joint angles (16,) to which the state of every plan was to be predicted."""
        self.target = SCENE.robot.home
        self.lack = ""
        """Of every plan."""
        self.sents: list[tuple[float, np.ndarray]] = []
        """Time and target (16,) of what was sent, as the predictor is told."""

    def reset(self) -> None:
        self.rollouts += 1

    def warm_up(self) -> None:
        """Nothing to compile."""

    def predict(self, seen, q_then, t):
        self.then.append(q_then)
        return seen

    def sent(self, t, target):
        self.sents.append((t, np.array(target)))

    def plan(self, observation, goal_WO) -> Plan:
        self.asked.append((observation.t, observation.pose_WO, goal_WO))
        self.angles.append(observation.q)
        q = self.target
        return Plan(
            SolveStatus.OK, q, np.zeros((1, len(q))), np.zeros((2, 7 + len(q))), 0.0, 0.001, 0.001, self.lack
        )


@pytest.fixture
def notes(domain, monkeypatch):
    notes = Notes()
    monkeypatch.setattr(module, "make_realtime", lambda priority: False)  # the process is that of all tests
    parts = SimpleNamespace(supervisor=notes, planner=None, predictor=notes, warm_up=notes.warm_up)
    monkeypatch.setattr(module, "Controller", lambda task, scene, params: parts)
    rclpy.init(domain_id=domain)
    node = MpcNode()
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    thread = threading.Thread(target=executor.spin)
    thread.start()
    try:
        assert node.autostart()
        notes.node = node
        yield notes
    finally:
        node.stop_worker()
        executor.shutdown()
        thread.join()
        node.destroy_node()
        rclpy.shutdown()


class Sender:
    """Detector, camera, hand and a person with `ros2 topic pub`."""

    def __init__(self, node) -> None:
        kinds = {
            "object_pose": PoseWithCovarianceStamped,
            "joint_states": JointState,
            "contacts": PointCloud2,
        }
        self.to = {topic: node.create_publisher(kind, topic, SENSOR) for topic, kind in kinds.items()}
        quiet = PublisherEventCallbacks(
            use_default_callbacks=False
        )  # one of the two readers of a goal cannot be served, and need not be
        self.to["task/goal"] = node.create_publisher(
            PoseStamped, "task/goal", QoSProfile(depth=10), event_callbacks=quiet
        )
        wait_until(lambda: all(to.get_subscription_count() for to in self.to.values()), 20, "the node")

    def pose(self, t: float, x: float, spread: float = 0.0) -> None:
        """``spread``: standard deviation of the position [m]."""
        message = PoseWithCovarianceStamped()
        message.pose.covariance[:3] = [spread**2, 0.0, 0.0]
        fill_pose(message.pose.pose, np.array([x, 0.0, 0.05, 1.0, 0.0, 0.0, 0.0]))
        set_stamp(message.header.stamp, t)
        self.to["object_pose"].publish(message)

    def joints(self, t: float, moved: float = 0.0) -> None:
        """At home, ``moved`` on from there [rad]."""
        message = JointState(name=list(SCENE.robot.joint_names), position=list(SCENE.robot.home + moved))
        set_stamp(message.header.stamp, t)
        self.to["joint_states"].publish(message)

    def contacts(self, t: float) -> None:
        self.to["contacts"].publish(
            contacts_message(
                t, np.zeros((1, 3)), np.array([[0.0, 0.0, 1.0]]), np.zeros(1), np.zeros(1, np.int32)
            )
        )

    def goal(self, x: float, t: float) -> None:
        message = PoseStamped()
        message.pose.position.x = x
        set_stamp(message.header.stamp, t)
        self.to["task/goal"].publish(message)


@pytest.fixture
def sender(probe, notes) -> Sender:
    """Ready when the node has heard it once: the first messages may come before a reader knows its
    writer."""
    made = Sender(probe.node)

    def everything() -> None:
        made.goal(0.0, 0.0)
        made.pose(0.0, x=-1.0)
        made.joints(0.0)
        made.contacts(0.0)

    wait_until(lambda: everything() or notes.asked, 20, "the first plan")
    return made


def ask(sender: Sender, notes: Notes, t: float) -> tuple[float, np.ndarray, np.ndarray]:
    """Contacts of time t until they are answered: on its way a best-effort message may get lost,
    and joints may come after it."""
    count = len(notes.asked)
    answered = lambda: [row for row in notes.asked[count:] if row[0] == pytest.approx(t)]  # noqa: E731
    return wait_until(
        lambda: sender.joints(t) or sender.contacts(t) or answered(), 10, f"the plan for {t:g} s"
    )[-1]


def aim(sender, notes, x, t):
    """Send a goal, and wait until the node has it: what goes by another topic may overtake it."""
    sender.goal(x, t)
    goal = lambda: notes.node._goal  # noqa: E731
    wait_until(
        lambda: goal() is not None and goal().pose[0] == x and goal().t == t, 10, "the goal to be heard"
    )


def test_contacts_are_paired_with_the_pose_of_their_stamp_whatever_came_since(sender, notes):
    aim(sender, notes, 0.1, 1.0)
    for k in range(4):  # the detector is three poses behind
        sender.pose(1.0 + k * PERIOD, x=float(k))
    for k in range(4):
        t, pose_WO, goal_WO = ask(sender, notes, 1.0 + k * PERIOD)
        assert t == pytest.approx(1.0 + k * PERIOD) and pose_WO[0] == k and goal_WO[0] == 0.1


def test_poses_of_before_a_restart_are_forgotten(sender, notes):
    aim(sender, notes, 0.1, 1.0)
    for k in range(4):
        sender.pose(1.0 + k * PERIOD, x=float(k))
    ask(sender, notes, 1.0 + 3 * PERIOD)
    before = notes.rollouts
    sender.pose(0.5, x=10.0)
    sender.pose(0.5 + PERIOD, x=11.0)
    assert ask(sender, notes, 0.5 + PERIOD)[1][0] == 11.0
    assert notes.rollouts == before + 1, "time went backwards: another rollout"


def test_without_a_pose_of_about_the_time_nothing_is_planned(sender, notes):
    aim(sender, notes, 0.1, 1.0)
    sender.pose(1.0, x=0.0)
    ask(sender, notes, 1.0)
    without = notes.node.status()[2]["without_input"]
    wait_until(
        lambda: (
            sender.joints(5.0) or sender.contacts(5.0) or notes.node.status()[2]["without_input"] > without
        ),
        10,
        "the refusal",
    )
    assert max(t for t, _, _ in notes.asked) < 4.0


def test_another_goal_of_the_same_stamp_is_the_next_of_the_same_rollout(sender, notes):
    sender.pose(1.0, x=0.0)
    aim(sender, notes, 0.1, 1.0)
    assert ask(sender, notes, 1.0)[2][0] == 0.1
    rollouts = notes.rollouts
    aim(sender, notes, 0.2, 1.0)
    wait_until(lambda: ask(sender, notes, 1.0)[2][0] == 0.2, 10, "the next goal")
    assert notes.rollouts == rollouts
    sender.goal(0.3, 2.0)
    wait_until(lambda: ask(sender, notes, 1.0)[2][0] == 0.3, 10, "the goal of another rollout")
    assert notes.rollouts == rollouts + 1


def test_joint_angles_are_those_of_the_picture_and_the_state_is_predicted_to_the_newest(sender, notes):
    aim(sender, notes, 0.1, 1.0)
    sender.pose(1.0, x=0.0)
    ask(sender, notes, 1.0)
    count = len(notes.angles)

    def everything() -> None:
        for t, moved in (
            (2.0, 0.0),
            (2.01, 0.02),
            (2.07, 0.5),
        ):  # the pose is as old as its picture, the joints have moved on
            sender.joints(t, moved)
        sender.pose(2.005, x=0.0)
        sender.contacts(2.005)

    wait_until(lambda: everything() or len(notes.angles) > count, 10, "a plan")
    np.testing.assert_allclose(notes.angles[-1] - SCENE.robot.home, 0.01, atol=1e-9)
    np.testing.assert_allclose(notes.then[-1] - SCENE.robot.home, 0.5, atol=1e-9)
    wait_until(
        lambda: notes.sents[-1][0] == pytest.approx(2.07), 10, "the predictor to be told what was sent then"
    )
    np.testing.assert_array_equal(notes.sents[-1][1], notes.target)


@pytest.fixture
def commands(probe, sender) -> list[np.ndarray]:
    heard: list = []
    probe.node.create_subscription(
        JointState,
        "joint_command",
        lambda m: heard.append((seconds(m.header.stamp), np.array(m.position))),
        50,
    )
    return heard


def test_commands_slow_down_and_stop_as_the_pose_gets_worse(sender, notes, commands):
    limit = notes.node.params(BlindParams).blind_position
    aim(sender, notes, 0.1, 1.0)

    def command(t: float, target: float, spread: float) -> float:
        """The first joint's command when the planner wants ``target`` [rad] from home."""
        notes.target = SCENE.robot.home + target
        sender.pose(t, 0.0, spread)
        ask(sender, notes, t)
        wait_until(lambda: commands and commands[-1][0] == pytest.approx(t), 10, "a command")
        return commands[-1][1][0] - SCENE.robot.home[0]

    wait_until(lambda: (command(1.0, 0.0, 0.0), commands)[1], 10, "the writer to be met")
    assert command(1.1, 0.1, 0.4 * limit) == pytest.approx(0.1), "good enough"
    assert 0.1 < command(1.2, 0.2, 0.75 * limit) < 0.2, "slower"
    before = commands[-1][1][0]
    assert command(1.3, 0.5, 1.1 * limit) + SCENE.robot.home[0] == pytest.approx(before), "it stands"
    assert "known badly" in notes.node.status()[1]


def test_without_sight_the_last_target_is_held_for_a_while(sender, notes, commands):
    aim(sender, notes, 0.1, 1.0)
    sender.pose(1.0, x=0.0)
    ask(sender, notes, 1.0)
    hold = notes.node.params(BlindParams).blind_hold
    held = lambda t: [c for c in commands if c[0] > t]  # noqa: E731
    wait_until(lambda: sender.joints(4.0) or held(3.9), 10, "a command though nothing was seen for 3 s")
    np.testing.assert_allclose(held(3.9)[-1][1], notes.target)
    sender.joints(1.0 + hold + 1.0)
    time.sleep(0.3)
    count = len(commands)
    time.sleep(0.3)
    assert len(commands) == count, "not for ever"


@pytest.mark.parametrize("seen", [1.2, 2.8])
def test_what_is_seen_too_late_or_too_early_moves_nothing(sender, notes, commands, seen):
    """The hand refuses what answers it, and commands that hold on must not bring it there with a
    new stamp."""
    aim(sender, notes, 0.1, 1.0)
    sender.pose(1.0, x=0.0)
    ask(sender, notes, 1.0)
    before, count = notes.target, len(notes.asked)
    notes.target = before + 0.3

    def go_on() -> bool:
        for t in (seen - 0.01, seen + 0.01, 2.0):
            sender.joints(t)
        sender.pose(seen, x=0.0)
        sender.contacts(seen)
        return [c for c in commands if c[0] > 1.9]

    wait_until(go_on, 10, "commands that hold on")
    time.sleep(0.2)
    assert len(notes.asked) == count and all(np.array_equal(q, before) for t, q in commands if t > 1.0)


def test_what_keeps_plans_from_being_better_is_told_while_it_does(sender, notes):
    for k, lack in enumerate(("a search has 8 of 32 plans", "")):
        notes.lack = lack
        sender.pose(1.0 + k, x=0.0)
        ask(sender, notes, 1.0 + k)
        level, message, _ = notes.node.status()
        assert (message == lack) if lack else "Hz" in message
        assert (level == DiagnosticStatus.WARN) == bool(lack)
