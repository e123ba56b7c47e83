"""Quality of service: compatibility with the defaults of `ros2 topic`."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import rclpy
from geometry_msgs.msg import PoseStamped
from harness import pose_message, wait_until
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from dexstack.nodes import wire
from dexstack.nodes.wire import LATCHED, RECENT, Newest, PoseSample, WaitSet, read_pose

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
