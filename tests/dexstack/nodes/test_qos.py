"""Topics: quality of service as `ros2 topic` expects, and one sentence that says why no message arrives."""

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import rclpy
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from harness import pose_message, spinning, wait_until
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from dexstack.nodes import common, wire
from dexstack.nodes.common import OK, SEVERE, WARN, WARNING, StackNode
from dexstack.nodes.silence import QUIET
from dexstack.nodes.wire import COMMAND, LATCHED, RECENT, Newest, PoseSample, WaitSet, read_pose

DEFAULT = QoSProfile(depth=10)
"""Default of `ros2 topic pub` and `ros2 topic echo`."""


@pytest.fixture
def pair(domain) -> Iterator[tuple[Node, Node]]:
    """A reader and a writer."""
    rclpy.init(domain_id=domain)
    nodes = rclpy.create_node("reader"), rclpy.create_node("writer")
    yield nodes
    for node in nodes:
        node.destroy_node()
    rclpy.shutdown()


def goal(x: float, t: float = 0.0) -> PoseStamped:
    return pose_message((x, 0, 0, 1, 0, 0, 0), t, kind=PoseStamped)


def read_goals(node: Node, topic: str = "goal_pose", qos: QoSProfile = LATCHED) -> Newest[PoseSample]:
    return Newest(node, PoseStamped, topic, qos, read_pose, lambda topic, reason: pytest.fail(reason))


def next_x(goals: Newest[PoseSample]) -> float:
    return wait_until(goals.take, 10, "a goal").pose[0]


@pytest.mark.parametrize("durability", [DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL])
def test_a_goal_arrives_from_volatile_and_transient_local_publishers(pair, durability):
    reader, writer = pair
    goals = read_goals(reader)
    to_goal = writer.create_publisher(PoseStamped, "goal_pose", QoSProfile(depth=10, durability=durability))
    both = 1 if durability == DurabilityPolicy.VOLATILE else 2
    wait_until(lambda: to_goal.get_subscription_count() == both, 10, "the subscriptions to be matched")
    for x in (1.0, 2.0, 3.0):
        to_goal.publish(goal(x))
        assert next_x(goals) == x
    time.sleep(0.3)
    assert goals.take() is None, "a message on two subscriptions counts once"


def test_a_latched_goal_is_received_and_replaced_by_one_of_another_publisher(pair):
    reader, writer = pair
    task = writer.create_publisher(PoseStamped, "goal_pose", LATCHED)
    task.publish(goal(1.0))
    goals = read_goals(reader)
    assert next_x(goals) == 1.0
    person = writer.create_publisher(PoseStamped, "goal_pose", DEFAULT)
    wait_until(person.get_subscription_count, 10, "the reader")
    person.publish(goal(2.0))
    assert next_x(goals) == 2.0
    task.publish(goal(3.0))
    assert next_x(goals) == 3.0
    time.sleep(0.3)
    assert goals.take() is None, "goals are not taken again from the other subscription"


def test_all_recent_samples_are_received(pair):
    reader, writer = pair
    poses = read_goals(reader, "pose", RECENT)
    to_pose = writer.create_publisher(PoseStamped, "pose", QoSProfile(depth=50))
    wait_until(to_pose.get_subscription_count, 10, "the reader")
    for k in range(20):
        to_pose.publish(goal(float(k), t=0.02 * k))
    seen: list[float] = []
    wait_until(
        lambda: seen.extend(sample.pose[0] for sample in poses.take_all()) or seen[-1:] == [19.0],
        10,
        "the last one",
    )
    assert seen == list(map(float, range(20)))


def test_every_publisher_of_joint_states_is_reliable():
    from docs.write_reference import _nodes

    offers = {
        node.name: use.qos
        for node in _nodes()
        for use in node.uses
        if use.name == "joint_states" and use.how == "writes"
    }
    assert set(offers.values()) == {"STATE"} and {"hand", "servo"} <= set(offers)
    assert wire.STATE.reliability == ReliabilityPolicy.RELIABLE


def test_messages_of_owned_subscriptions_do_not_wake_the_executor(pair):
    reader, writer = pair
    goals = read_goals(reader)
    executor = SingleThreadedExecutor()
    executor.add_node(reader)
    to_goal = writer.create_publisher(PoseStamped, "goal_pose", DEFAULT)
    wait_until(to_goal.get_subscription_count, 10, "the reader")
    to_goal.publish(goal(1.0))
    assert WaitSet(reader, goals).wait(10.0), "the goal"
    turns, end = 0, time.monotonic() + 0.5
    while time.monotonic() < end:
        executor.spin_once(0.2)
        turns += 1
    assert turns < 25, "it woke for messages of another thread"
    executor.shutdown()


SPOT = [0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0]


class Reader(StackNode):
    """Reader of poses, reliable, and of a latched goal."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.log = self.said.append
        super().__init__("reader")

    def get_logger(self):
        return SimpleNamespace(warning=self.log, fatal=self.log, error=self.log)

    def configure(self) -> None:
        self.poses = self.newest(PoseWithCovarianceStamped, "object_pose", COMMAND, read_pose)
        self.goal = self.newest(PoseStamped, "task/goal", LATCHED, read_pose)

    def work(self) -> None:
        self.poses.take()
        self.goal.take()
        time.sleep(0.01)

    def status(self):
        lack = self.silent(self.poses)
        return (WARN, lack, {}) if lack else (OK, "", {})


@pytest.fixture
def reading(domain, monkeypatch):
    monkeypatch.setattr(common, "START", 0.0)
    elsewhere = rclpy.Context()  # one process may have one type of a topic only
    elsewhere.init(domain_id=domain)
    writer = rclpy.create_node("someone", context=elsewhere)
    with spinning(domain, Reader) as (reader,):
        assert reader.autostart()
        yield reader, writer
    writer.destroy_node()
    elsewhere.shutdown()


def says(reader, sentence, meanwhile=lambda: None):
    wait_until(
        lambda: meanwhile() or reader.status()[1] == sentence,
        10 + QUIET,
        f"'{sentence}', not '{reader.status()[1]}'",
    )


def test_a_topic_without_publisher_is_logged_once(reading):
    reader, _ = reading
    for _ in range(5):
        says(reader, "no node publishes object_pose")
    wait_until(lambda: reader.said, 5, "the log")
    assert reader.said == ["no node publishes object_pose"]


def test_a_control_loop_does_not_wait_for_the_log(reading):
    reader, _ = reading
    begun, go_on, said = threading.Event(), threading.Event(), []
    reader.log = lambda text: (begun.set(), go_on.wait(10), said.append(text))
    reader.say(WARNING, "one", about="a motor")
    assert begun.wait(5)
    reader.say(WARNING, "two", about="a motor")
    reader.say(SEVERE, "three")
    assert not said, "the log blocks, this thread does not"
    go_on.set()
    wait_until(lambda: len(said) == 2, 5, "the log")
    assert said == ["one", "three"], "once in 5 s per subject"


KINDS = "geometry_msgs/msg/PoseStamped, and this node reads geometry_msgs/msg/PoseWithCovarianceStamped"
BEST_EFFORT = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


@pytest.mark.parametrize(
    ("message", "qos", "sentence"),
    [
        (pose_message(SPOT, kind=PoseStamped), COMMAND, f"someone publishes object_pose as {KINDS}"),
        (
            pose_message(SPOT),
            BEST_EFFORT,
            "someone publishes object_pose with an incompatible quality of service: "
            "Best effort publisher and reliable subscription",
        ),
        (
            pose_message(SPOT, frame="map"),
            COMMAND,
            "every message on object_pose is dropped: frame 'map', 'world' expected",
        ),
    ],
)
def test_another_type_quality_of_service_or_frame_is_reported(reading, message, qos, sentence):
    reader, writer = reading
    to = writer.create_publisher(type(message), "object_pose", qos)
    says(reader, sentence, lambda: to.publish(message))


def test_a_silent_publisher_is_named_until_it_publishes(reading):
    reader, writer = reading
    to = writer.create_publisher(PoseWithCovarianceStamped, "object_pose", COMMAND)
    says(reader, "someone publishes object_pose, but no message arrives")
    says(reader, "", lambda: to.publish(pose_message(SPOT)))
    says(reader, "someone publishes object_pose, but no message arrives")


def test_a_latched_message_needs_no_repetition(reading):
    reader, writer = reading
    assert reader.silent(reader.goal) == "no node publishes task/goal"
    message = pose_message(SPOT, kind=PoseStamped)
    writer.create_publisher(PoseStamped, "task/goal", LATCHED).publish(message)
    wait_until(lambda: reader.goal.heard > 0.0, 10, "the goal")
    reader.goal.heard -= 10.0 * QUIET
    assert reader.silent(reader.goal) == ""
