"""Robot state: publishes the robot description, the frames of hand and object, and object markers.

``robot_description`` (latched) carries the hand's URDF. Where tf2_msgs is installed, ``/tf_static``
and ``/tf`` carry the tree world → palm → links → tips, and world → object, with the graph's prefix;
otherwise, as with rclpy from PyPI, the node logs so once and publishes the description only. With
``links`` false, robot_state_publisher provides description and links, and this node the frames of
palm and object, which are not in the URDF. ``object_markers`` carries the object and, in transparent
green, its goal, if the topic has subscribers. The camera's frame comes from the pose estimator.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from visualization_msgs.msg import MarkerArray

from dexstack.config import param
from dexstack.model import HAND_NAMES
from dexstack.model.frames import Frame, FrameTree
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.nodes.common import OK, PATIENCE, WARN, StackNode, run_node
from dexstack.nodes.markers import object_marker
from dexstack.nodes.tf import OBJECT, frame_prefix, frames_message, tf_message, transforms
from dexstack.nodes.wire import (
    COMMAND,
    LATCHED,
    SENSOR,
    WORLD,
    JointReader,
    PoseSample,
    WaitSet,
    fill_pose,
    set_stamp,
)
from dexstack.perception.se3 import Transform

_COLOURS = (0.85, 0.65, 0.25, 1.0), (0.2, 0.7, 0.35, 0.3)
"""Red, green, blue and opacity of the object and of its goal."""


@dataclass(frozen=True)
class RobotStateParams:
    """Parameters of the robot state node."""

    hand: str = param("right", f"which hand: {HAND_NAMES}")
    object: str = param("cube", "name of an object, or the path to its YAML file")
    links: bool = param(
        True, "publish robot_description and the frames of links; false: robot_state_publisher does"
    )
    world_on_palm: bool = param(
        False,
        "publish world as a child of palm, whose pose comes from an arm's frames; false: palm as a child of "
        "world, where it is fixed",
    )
    rate: float = param(30.0, "largest rate of messages on /tf in message time [Hz]", 1.0, 400.0)


class RobotStateNode(StackNode):
    LIVE = frozenset({"rate"})

    def __init__(self) -> None:
        super().__init__("robot_state", RobotStateParams)

    def configure(self) -> None:
        p = self.params(RobotStateParams)
        hand = load_hand(p.hand)
        self._tree, self._prefix = FrameTree(hand), frame_prefix(self)
        self._poses = self.newest(PoseWithCovarianceStamped, "object_pose", SENSOR, self.read_pose)
        self._joints = self.newest(
            JointState, "joint_states", SENSOR, JointReader(hand.joint_names, "position")
        )
        self._wait = WaitSet(self, self._joints)
        self._goals = self.newest(PoseStamped, "task/goal", LATCHED, self.read_pose)
        self._to_markers = self.create_publisher(MarkerArray, "object_markers", COMMAND)
        self._markers = [object_marker(load_object(p.object), k, rgba) for k, rgba in enumerate(_COLOURS)]
        self._links = p.links
        self._description = String(data=hand.urdf_path.read_text(encoding="utf-8"))
        self._to_description = (
            self.create_publisher(String, "robot_description", LATCHED) if p.links else None
        )
        self._to_tf = self._to_static = None
        self._message = tf_message()
        if self._message is None:
            self.get_logger().info("tf2_msgs is not installed: no frames on /tf")
            return
        self._to_tf = self.create_publisher(self._message, "/tf", COMMAND)
        self._to_static = self.create_publisher(self._message, "/tf_static", LATCHED)

    def begin(self) -> None:
        self._pose: PoseSample | None = None
        self._goal: PoseSample | None = None
        self._last = -1.0
        self._count = self._reported = 0
        if self._to_description is not None:
            self._to_description.publish(self._description)
        if self._to_static is not None:
            mount, *fixed = self._tree.fixed if self._links else self._tree.mount
            if self.params(RobotStateParams).world_on_palm:
                X_PW = Transform.of_pose([*mount.p, *mount.quat]).inverse
                mount = Frame(mount.name, mount.parent, X_PW.p, X_PW.pose[3:])
            fixed = [mount, *fixed]
            self._to_static.publish(frames_message(self._message, 0.0, fixed, self._prefix))

    def work(self) -> None:
        self._wait.wait(PATIENCE)
        joints = self._joints.take()
        if joints is None or 0.0 <= joints.t - self._last < 1.0 / self.params(RobotStateParams).rate:
            return
        self.time = self._last = joints.t
        self._pose = self._poses.take() or self._pose
        self._goal = self._goals.take() or self._goal
        self._count += 1
        if self._to_markers.get_subscription_count():
            self._publish_markers(joints.t)
        if self._to_tf is None:
            return
        moving = transforms(joints.t, self._tree.moving(joints.values), self._prefix) if self._links else []
        if self._pose is not None:
            moving += transforms(
                self._pose.t, [Frame(WORLD, OBJECT, self._pose.pose[:3], self._pose.pose[3:])], self._prefix
            )
        if moving:
            self._to_tf.publish(self._message(transforms=moving))

    def _publish_markers(self, t: float) -> None:
        shown = []
        for marker, sample in zip(self._markers, (self._pose, self._goal), strict=True):
            if sample is not None:
                set_stamp(marker.header.stamp, t)
                fill_pose(marker.pose, sample.pose)
                shown.append(marker)
        self._to_markers.publish(MarkerArray(markers=shown))

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        rate, self._reported = self._count - self._reported, self._count
        values = {"rate_hz": rate, "tf": self._to_tf is not None}
        return (OK, f"{rate} Hz", values) if rate else (WARN, "no joint states", values)


main = partial(run_node, RobotStateNode)
