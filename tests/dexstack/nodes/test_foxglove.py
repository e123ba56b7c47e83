"""The live stream: somebody connected as the Foxglove application is sees topics and frames, and
may do what was allowed."""

from __future__ import annotations

import contextlib
import json
import struct
import threading

import numpy as np
import pytest
import rclpy
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from harness import wait_until
from rclpy.executors import SingleThreadedExecutor
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from dexstack.errors import ConfigError
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.nodes.wire import COMMAND, LATCHED, SENSOR, fill_pose
from tests.acceptance.probe import Probe

pytest.importorskip("foxglove", reason="the live stream needs the extra 'foxglove'")
pytestmark = pytest.mark.flaky(
    reruns=3
)  # in real time: another process may take the core for longer than a node waits

SUBPROTOCOL = "foxglove.sdk.v1"
DATA, CALL, RESPONSE = 1, 2, 3
"""Binary messages: what the server sends of a topic; what a client publishes is 1, too; a call of a
service, and its answer."""


class Foxglove:
    """Somebody who connected with the application."""

    def __init__(self, url: str) -> None:
        self._stack = contextlib.ExitStack()
        self._socket = self._stack.enter_context(connect(url, subprotocols=[SUBPROTOCOL], max_size=None))
        self.channels, self.services, self.told, self.messages, self.answers = {}, {}, [], {}, []
        self._topics: dict[int, str] = {}
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(ConnectionClosed):  # the server need not say goodbye
            self._listen()

    def _listen(self) -> None:
        for message in self._socket:
            if isinstance(message, str):
                self._note(json.loads(message))
            elif message[0] == DATA:
                number = struct.unpack_from("<I", message, 1)[0]
                self.messages.setdefault(self._topics[number], []).append(bytes(message[13:]))
            elif message[0] == RESPONSE:
                self.answers.append(bytes(message[13 + struct.unpack_from("<I", message, 9)[0] :]))

    def _note(self, told: dict) -> None:
        self.told.append(told)
        for channel in told.get("channels", ()) if told["op"] == "advertise" else ():
            self.channels[channel["topic"]] = channel
        for service in told.get("services", ()) if told["op"] == "advertiseServices" else ():
            self.services[service["name"]] = service

    @property
    def info(self) -> dict:
        return next((told for told in self.told if told["op"] == "serverInfo"), {})

    def say(self, op: str, **values) -> None:
        self._socket.send(json.dumps({"op": op, **values}))

    def watch(self, topic: str) -> None:
        wait_until(lambda: topic in self.channels, 20, topic)
        self._topics[len(self._topics) + 1] = topic
        self.say(
            "subscribe", subscriptions=[{"id": len(self._topics), "channelId": self.channels[topic]["id"]}]
        )

    def leave(self, topic: str) -> None:
        self.say("unsubscribe", subscriptionIds=[n for n, name in self._topics.items() if name == topic])

    def call(self, service: str) -> None:
        wait_until(lambda: service in self.services, 20, service)
        encoding = b"cdr"
        head = struct.pack("<BIII", CALL, self.services[service]["id"], 1, len(encoding))
        self._socket.send(head + encoding + b"\x00\x01\x00\x00\x00")

    def publish(self, topic: str, type_name: str, data: bytes) -> None:
        self.say(
            "advertise", channels=[{"id": 1, "topic": topic, "encoding": "cdr", "schemaName": type_name}]
        )
        self._socket.send(struct.pack("<BI", DATA, 1) + data)

    def close(self) -> None:
        self._stack.close()
        self._reader.join()


@pytest.fixture(params=[False, True], ids=["watching", "control"])
def server(request, domain):
    """The node, by itself; whether those who are connected may move something."""
    from dexstack.nodes.foxglove import FoxgloveNode

    rclpy.init(domain_id=domain)
    node = FoxgloveNode()
    assert node.set_parameters([rclpy.parameter.Parameter("control", value=request.param)])[0].successful
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    thread = threading.Thread(target=executor.spin)
    thread.start()
    assert node.autostart()
    yield node
    node.stop_worker()
    executor.shutdown()
    thread.join()
    node.destroy_node()
    rclpy.shutdown()


@pytest.fixture
def app(server):
    made = Foxglove(server.url)
    yield made
    made.close()


def may_control(server) -> bool:
    return server.get_parameter("control").value


def test_a_topic_comes_as_it_is_while_somebody_looks(server, app, probe: Probe):
    to_words = probe.node.create_publisher(String, "words", COMMAND)
    app.watch("/words")
    wait_until(lambda: to_words.get_subscription_count() == 1, 10, "the subscription")
    wait_until(lambda: to_words.publish(String(data="tilt")) or app.messages.get("/words"), 10, "the message")
    assert deserialize_message(app.messages["/words"][0], String).data == "tilt"
    channel = app.channels["/words"]
    assert (channel["encoding"], channel["schemaName"], channel["schemaEncoding"]) == (
        "cdr",
        "std_msgs/msg/String",
        "ros2msg",
    )
    assert "string data" in channel["schema"]
    app.leave("/words")
    wait_until(lambda: to_words.get_subscription_count() == 0, 10, "the end of the subscription")


def test_whoever_comes_late_hears_what_is_latched(server, app, probe: Probe):
    to_state = probe.node.create_publisher(String, "rollout/state", LATCHED)
    to_state.publish(String(data="{}"))
    second = Foxglove(server.url)
    for one in (app, second):
        one.watch("/rollout/state")
        wait_until(lambda one=one: one.messages.get("/rollout/state"), 10, "the last state")
    second.close()


def test_the_links_are_drawn_without_tf2_msgs(server, app, probe: Probe):
    hand = load_hand("right")
    to_joints = probe.node.create_publisher(JointState, "joint_states", SENSOR)
    to_pose = probe.node.create_publisher(PoseWithCovarianceStamped, "object_pose", SENSOR)
    pose = PoseWithCovarianceStamped()
    pose.header.frame_id = "world"
    fill_pose(pose.pose.pose, load_object("cube").start("allegro").pose_WO)
    joints = JointState(name=list(hand.joint_names), position=list(hand.home))
    ticks = iter(range(1, 100_000))

    def tick() -> None:
        for stamp in (joints.header.stamp, pose.header.stamp):
            stamp.sec = next(ticks)
        to_pose.publish(pose)
        to_joints.publish(joints)

    app.watch("/tf")
    assert app.channels["/tf"]["schemaName"] == "foxglove.FrameTransforms"
    names = (b"palm", b"object", hand.bodies[-1].name.encode())
    sent = lambda: b"".join(app.messages.get("/tf", []))  # noqa: E731
    wait_until(lambda: tick() or all(name in sent() for name in names), 10, "the frames")


def test_anybody_may_stop_and_the_hand_answers(server, app, probe: Probe):
    stopped = []

    def stop(_, response):
        stopped.append(True)
        response.success, response.message = True, "off"
        return response

    probe.node.create_service(Trigger, "hand/stop", stop)
    wait_until(lambda: app.info, 10, "the server's first words")
    wait_until(lambda: "/hand/stop" in app.services, 10, "the service")

    def answered() -> bool:
        if not app.answers and not stopped:
            app.call("/hand/stop")
        return bool(app.answers)

    wait_until(answered, 20, "the answer")
    answer = deserialize_message(app.answers[-1], Trigger.Response)
    assert answer.success and answer.message == "off"


def test_only_who_may_control_moves_something(server, app, probe: Probe):
    goals = []
    probe.node.create_subscription(PoseStamped, "goal_pose", goals.append, COMMAND)
    wait_until(lambda: "/hand/stop" in app.services, 10, "the services")
    allowed = may_control(server)
    assert ("clientPublish" in app.info["capabilities"]) is allowed
    assert set(app.services) == {"/hand/stop"} | ({"/hand/enable", "/task/restart"} if allowed else set())
    goal = PoseStamped()
    goal.header.frame_id = "world"
    goal.pose.orientation.w = 1.0
    if not allowed:
        app.publish("/goal_pose", "geometry_msgs/msg/PoseStamped", serialize_message(goal))
        app.call("/hand/stop")  # answered after what was said before
        wait_until(lambda: any(told["op"] == "serviceCallFailure" for told in app.told), 10, "the answer")
        assert goals == []
        return
    wait_until(lambda: probe.node.count_publishers("goal_pose") == 1, 10, "the publisher")
    say = lambda: app.publish("/goal_pose", "geometry_msgs/msg/PoseStamped", serialize_message(goal))  # noqa: E731
    wait_until(lambda: goals or say(), 10, "the goal")
    assert goals[0].header.frame_id == "world" and np.isclose(goals[0].pose.orientation.w, 1.0)
    other = serialize_message(String(data="out"))
    app.publish("/hand/command", "std_msgs/msg/String", other)
    app.call("/task/restart")
    wait_until(lambda: any(told["op"] == "serviceCallFailure" for told in app.told), 10, "the answer")
    assert probe.node.count_publishers("hand/command") == 0, "what is not offered is published for nobody"


def test_a_port_that_is_taken_is_passed_over_and_a_foreign_address_refused(domain):
    from dexstack.report.foxglove_server import FoxgloveServer

    first = FoxgloveServer(("127.0.0.1", 8801), {}, {})
    second = FoxgloveServer(("127.0.0.1", 8801), {}, {})
    assert first.url != second.url
    first.close()
    second.close()
    with pytest.raises(ConfigError, match=r"no port of 192.0.2.1 from 8801 on is free"):
        FoxgloveServer(("192.0.2.1", 8801), {}, {})
