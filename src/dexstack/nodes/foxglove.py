"""The Foxglove node: what happens in the graph, live, for the Foxglove application.

Every topic is offered as it is, with its definition; the node subscribes to those that somebody
looks at. Where tf2_msgs is not installed, as with rclpy from PyPI, the frames of hand and object go
along in Foxglove's own type, so that links are drawn all the same.

Foxglove's protocol asks nobody who they are: who reaches the port sees everything, and may stop the
hand. Enabling it, a new start, and goals need the parameter ``control``. On a ROS installation
foxglove_bridge does the same. The process lowers its own priority.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from rclpy.serialization import serialize_message
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from dexstack.config import param
from dexstack.errors import ConfigError
from dexstack.model import HAND_NAMES
from dexstack.model.frames import Frame, FrameTree
from dexstack.model.hand import load_hand
from dexstack.nodes.common import OK, StackNode, run_node, yield_to_others
from dexstack.nodes.taps import Offer, Tap, offers
from dexstack.nodes.tf import OBJECT, frame_prefix, prefixed, tf_message
from dexstack.nodes.wire import COMMAND, SENSOR, WORLD, JointReader, read_pose, seconds

TURN = 0.02
"""Time between two visits to the middleware [s]."""
LOOK = 0.5
"""Time between two looks for new topics [s]."""
ANSWER_TIMEOUT = 3.0
"""Longest time a service may take [s]."""
ALWAYS, WITH_CONTROL = ("hand/stop",), ("hand/enable", "task/restart")
"""Services for whoever is connected, and those that move something."""
GOAL = "goal_pose"


@dataclass(frozen=True)
class FoxgloveParams:
    """Parameters of the Foxglove node."""

    hand: str = param("right", f"which hand: {HAND_NAMES}; empty: none, and no frames")
    host: str = param(
        "127.0.0.1",
        "address to listen on; 0.0.0.0: everybody who reaches this machine sees the run and may stop the hand",
    )
    port: int = param(8765, "port; the next free one where it is taken", 1, 65535)
    rate: float = param(30.0, "largest number of sets of frames per second of message time", 1.0, 400.0)
    control: bool = param(
        False,
        "let whoever is connected enable the hand, start again and set goals, too: nobody is asked for a name",
    )


class FoxgloveNode(StackNode):
    """See the module's docstring."""

    LIVE = frozenset({"rate"})

    def __init__(self) -> None:
        super().__init__("foxglove", FoxgloveParams)
        self.url = ""
        self._server: Any = None

    def configure(self) -> None:
        try:
            from dexstack.report.foxglove_server import FoxgloveServer
        except ImportError:
            raise ConfigError(
                "Foxglove needs foxglove-sdk; pip install -c constraints.txt -e '.[foxglove]'"
            ) from None
        p = self.params(FoxgloveParams)
        self._clock = self.newest(Clock, "clock", SENSOR, lambda message: seconds(message.clock))
        self._frames = _Frames(self, p.hand) if p.hand and tf_message() is None else None
        published: dict[str, Callable[[bytes], None]] = {}
        if p.control:
            published[self.resolve_topic_name(GOAL)] = self.create_publisher(
                PoseStamped, GOAL, COMMAND
            ).publish
        names = (*ALWAYS, *(WITH_CONTROL if p.control else ()))
        triggers = {self.resolve_service_name(name): self._trigger(name) for name in names}
        self.close()
        self._server = FoxgloveServer((p.host, p.port), triggers, published)
        self._offers: dict[str, Offer | None] = {}
        self.url = self._server.url
        self.get_logger().info(f"Foxglove finds the graph at {self.url}")

    def begin(self) -> None:
        self._taps: dict[str, Tap] = {}
        self._looked = 0.0
        self._count = self._reported = 0

    def work(self) -> None:
        self._stop.wait(TURN)
        now = time.monotonic()
        if now - self._looked > LOOK:
            self._looked = now
            self._find_topics()
        self._follow_watchers()
        t = self._clock.take()
        if t is not None:
            self.time = t
            self._server.send_time(round(1e9 * t))
        for name, tap in self._taps.items():
            for message in tap.take():
                self._server.send(name, message.data, round(1e9 * self.time) or message.received)
                self._count += 1
        if self._frames is not None and self._server.wants_frames:
            joints_t, frames = self._frames.take(1.0 / self.params(FoxgloveParams).rate)
            if frames:
                self._server.send_frames(joints_t, frames)

    def finish(self) -> None:
        for tap in self._taps.values():
            tap.close()

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        rate, self._reported = self._count - self._reported, self._count
        return (
            OK,
            f"{rate} messages in the last second",
            {"address": self.url, "topics": len(self._offers), "watched": len(self._taps)},
        )

    def close(self) -> None:
        """Serve nobody any more."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def destroy_node(self) -> None:
        self.close()
        super().destroy_node()

    def _find_topics(self) -> None:
        for offer in offers(self):
            if offer.name in self._offers:
                continue
            try:
                tap = Tap(self, offer)
            except (ImportError, AttributeError, ConfigError) as error:
                self._offers[offer.name] = None
                self.get_logger().warning(f"{offer.name} is not shown: {error}")
                continue
            tap.close()  # until somebody looks
            self._offers[offer.name] = offer
            self._server.offer(offer.name, offer.type_name, tap.definition)

    def _follow_watchers(self) -> None:
        for name, looked_at in self._server.changes().items():
            if name in self._taps:
                if looked_at and not self._taps[name].latched:
                    continue
                self._taps.pop(
                    name
                ).close()  # for a new watcher, too: only a new subscription hears again what is latched
            offer = self._offers.get(name)
            if looked_at and offer is not None:
                self._taps[name] = Tap(self, offer)

    def _trigger(self, name: str) -> Callable[[], bytes]:
        client, full = self.create_client(Trigger, name), self.resolve_service_name(name)

        def call() -> bytes:
            if not client.service_is_ready():
                raise RuntimeError(f"nobody offers {full}")
            arrived = threading.Event()
            future = client.call_async(Trigger.Request())
            future.add_done_callback(lambda _: arrived.set())
            if not arrived.wait(ANSWER_TIMEOUT):
                raise RuntimeError(f"{full} does not answer")
            return serialize_message(future.result())

        return call


class _Frames:
    """The frames of hand and object, from the topics that say where both are."""

    def __init__(self, node: StackNode, hand_name: str) -> None:
        hand = load_hand(hand_name)
        self._tree, self._prefix = FrameTree(hand), frame_prefix(node)
        self._joints = node.newest(
            JointState, "joint_states", SENSOR, JointReader(hand.joint_names, "position")
        )
        self._poses = node.newest(PoseWithCovarianceStamped, "object_pose", SENSOR, read_pose)
        self._taken = 0.0

    def take(self, period: float) -> tuple[float, list[Frame]]:
        """Their time [s] and the newest; none if that was less than ``period`` [s] after those
        taken last."""
        joints, pose = self._joints.take(), self._poses.take()
        if joints is None or 0.0 <= joints.t - self._taken < period:
            return 0.0, []
        self._taken = joints.t
        frames = [*self._tree.fixed, *self._tree.moving(joints.values)]
        if pose is not None:
            frames.append(Frame(WORLD, OBJECT, pose.pose[:3], pose.pose[3:]))
        return joints.t, [
            frame._replace(
                parent=prefixed(frame.parent, self._prefix), name=prefixed(frame.name, self._prefix)
            )
            for frame in frames
        ]


def main() -> int:
    yield_to_others()
    return run_node(FoxgloveNode)


if __name__ == "__main__":
    sys.exit(main())
