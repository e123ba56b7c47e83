"""Silent topics: one sentence says why no message arrives."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest
import rclpy
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from harness import pose_message, spinning, wait_until
from rclpy.qos import QoSProfile, ReliabilityPolicy

from dexstack.nodes import common
from dexstack.nodes.common import OK, SEVERE, WARN, WARNING, StackNode
from dexstack.nodes.silence import QUIET
from dexstack.nodes.wire import COMMAND, LATCHED, read_pose

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
def pair(domain, monkeypatch):
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


def test_a_topic_without_publisher_is_logged_once(pair):
    reader, _ = pair
    for _ in range(5):
        says(reader, "no node publishes object_pose")
    wait_until(lambda: reader.said, 5, "the log")
    assert reader.said == ["no node publishes object_pose"]


def test_a_control_loop_does_not_wait_for_the_log(pair):
    reader, _ = pair
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
def test_another_type_quality_of_service_or_frame_is_reported(pair, message, qos, sentence):
    reader, writer = pair
    to = writer.create_publisher(type(message), "object_pose", qos)
    says(reader, sentence, lambda: to.publish(message))


def test_a_silent_publisher_is_named_until_it_publishes(pair):
    reader, writer = pair
    to = writer.create_publisher(PoseWithCovarianceStamped, "object_pose", COMMAND)
    says(reader, "someone publishes object_pose, but no message arrives")
    says(reader, "", lambda: to.publish(pose_message(SPOT)))
    says(reader, "someone publishes object_pose, but no message arrives")


def test_a_latched_message_needs_no_repetition(pair):
    reader, writer = pair
    assert reader.silent(reader.goal) == "no node publishes task/goal"
    message = pose_message(SPOT, kind=PoseStamped)
    writer.create_publisher(PoseStamped, "task/goal", LATCHED).publish(message)
    wait_until(lambda: reader.goal.heard > 0.0, 10, "the goal")
    reader.goal.heard -= 10.0 * QUIET
    assert reader.silent(reader.goal) == ""
