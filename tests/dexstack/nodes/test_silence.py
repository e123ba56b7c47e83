"""Why nothing comes: said in a sentence, whatever is wrong with who should publish."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest
import rclpy
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from harness import wait_until
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile, ReliabilityPolicy

from dexstack.nodes import common
from dexstack.nodes.common import OK, SEVERE, WARN, WARNING, StackNode
from dexstack.nodes.silence import QUIET
from dexstack.nodes.wire import COMMAND, LATCHED, fill_pose, read_pose

SPOT = [0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0]


class Reader(StackNode):
    """Reads poses reliably, and one goal that its publisher keeps."""

    def __init__(self) -> None:
        super().__init__("reader")
        self.said: list[str] = []
        self._logger = SimpleNamespace(
            warning=self.said.append, fatal=self.said.append, error=self.said.append
        )

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
def pair(domain, monkeypatch):
    monkeypatch.setattr(common, "START", 0.0)
    rclpy.init(domain_id=domain)
    elsewhere = rclpy.Context()
    elsewhere.init(domain_id=domain)
    reader, writer = Reader(), rclpy.create_node("someone", context=elsewhere)
    executor = SingleThreadedExecutor()
    executor.add_node(reader)
    spinner = threading.Thread(target=executor.spin)
    spinner.start()
    try:
        assert reader.autostart()
        yield reader, writer
    finally:
        reader.stop_worker()
        executor.shutdown()
        spinner.join()
        reader.destroy_node()
        writer.destroy_node()
        elsewhere.shutdown()
        rclpy.shutdown()


def says(reader, sentence, meanwhile=lambda: None):
    wait_until(
        lambda: meanwhile() or reader.status()[1] == sentence,
        10 + QUIET,
        f"'{sentence}', not '{reader.status()[1]}'",
    )


def pose(frame="world"):
    message = PoseWithCovarianceStamped()
    message.header.frame_id = frame
    fill_pose(message.pose.pose, SPOT)
    return message


def test_nobody_publishes_and_it_is_said_once_in_the_log(pair):
    reader, _ = pair
    for _ in range(5):
        says(reader, "nobody publishes object_pose")
    wait_until(lambda: reader.said, 5, "the log")
    assert reader.said == ["nobody publishes object_pose"]


def test_a_control_loop_does_not_wait_for_the_log(pair):
    reader, _ = pair
    begun, go_on, said = threading.Event(), threading.Event(), []

    def slow(text):
        begun.set()
        go_on.wait(10)
        said.append(text)

    reader._logger = SimpleNamespace(warning=slow, error=slow)
    reader.say(WARNING, "one", about="a motor")
    assert begun.wait(5)
    reader.say(WARNING, "two", about="a motor")
    reader.say(SEVERE, "three")
    assert not said, "the log still waits, and this thread goes on"
    go_on.set()
    wait_until(lambda: len(said) == 2, 5, "the log")
    assert said == ["one", "three"], "of the same thing once in 5 s"


def test_who_publishes_another_type_is_named(pair):
    reader, writer = pair
    writer.create_publisher(PoseStamped, "object_pose", 10)
    kinds = "geometry_msgs/msg/PoseStamped, and this node reads geometry_msgs/msg/PoseWithCovarianceStamped"
    says(reader, f"someone publishes object_pose as {kinds}")


def test_quality_of_service_that_does_not_fit_is_said(pair):
    reader, writer = pair
    to = writer.create_publisher(
        PoseWithCovarianceStamped,
        "object_pose",
        QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT),
    )
    reason = "Best effort publisher and reliable subscription"
    says(
        reader,
        f"someone publishes object_pose so that this node cannot hear it: {reason}",
        lambda: to.publish(pose()),
    )


def test_a_publisher_that_says_nothing_is_named_until_it_speaks(pair):
    reader, writer = pair
    to = writer.create_publisher(PoseWithCovarianceStamped, "object_pose", COMMAND)
    says(reader, "someone publishes object_pose, and nothing comes")
    says(reader, "", lambda: to.publish(pose()))
    says(reader, "someone publishes object_pose, and nothing comes")


def test_a_frame_that_nobody_knows_is_said(pair):
    reader, writer = pair
    to = writer.create_publisher(PoseWithCovarianceStamped, "object_pose", COMMAND)
    sentence = "every message on object_pose is dropped: frame 'map', 'world' expected"
    says(reader, sentence, lambda: to.publish(pose("map")))
    assert any("frame 'map'" in said for said in reader.said)


def test_what_is_published_once_and_kept_need_not_come_again(pair):
    reader, writer = pair
    assert reader.silent(reader.goal) == "nobody publishes task/goal"
    message = PoseStamped()
    fill_pose(message.pose, SPOT)
    writer.create_publisher(PoseStamped, "task/goal", LATCHED).publish(message)
    wait_until(lambda: reader.goal.heard > 0.0, 10, "the goal")
    reader.goal.heard -= 10.0 * QUIET
    assert reader.silent(reader.goal) == ""
