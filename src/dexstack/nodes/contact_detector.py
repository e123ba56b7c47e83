"""The contact detector node: object pose and joint angles in, the contact set out, at the rate of
the poses.

Poses are as old as the pictures they come from; the joint angles that belong to one are those of
its stamp, interpolated.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from geometry_msgs.msg import Point, PoseWithCovarianceStamped
from sensor_msgs.msg import JointState, PointCloud2
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from dexstack.contact.detector import ContactDetector, DetectorParams
from dexstack.graph.parameters import ContactDetectorParams
from dexstack.nodes.common import OK, PATIENCE, WARN, run_node
from dexstack.nodes.scene import SceneNode
from dexstack.nodes.wire import (
    COMMAND,
    RECENT,
    SENSOR,
    WORLD,
    JointReader,
    WaitSet,
    contacts_message,
    read_pose,
    set_stamp,
)
from dexstack.process.compilation import use_compilation_cache
from dexstack.process.history import JointHistory
from dexstack.report.colours import distance_colours

NORMAL_LENGTH = 0.02
"""Length at which markers show a normal [m]."""


class ContactDetectorNode(SceneNode):
    """See the module's docstring."""

    LIVE = frozenset({"joint_timeout", "marker_every"})

    def __init__(self) -> None:
        super().__init__("contact_detector", ContactDetectorParams, DetectorParams)

    def configure(self) -> None:
        use_compilation_cache()
        robot, obj, _ = self.make_task().scene()
        self._detector = ContactDetector(robot, obj, self.params(DetectorParams))
        self._detector.detect(
            np.array([0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0]), robot.home
        )  # compile now, not in the loop
        self._poses = self.newest(PoseWithCovarianceStamped, "object_pose", SENSOR, read_pose)
        self._joints = self.newest(
            JointState, "joint_states", RECENT, JointReader(robot.joint_names, "position")
        )
        self._wait = WaitSet(self, self._poses)
        self._to_contacts = self.create_publisher(PointCloud2, "contacts", SENSOR)
        self._to_markers = self.create_publisher(MarkerArray, "contact_markers", COMMAND)

    def begin(self) -> None:
        self._history = JointHistory()
        self._count = self._reported = self._without_joints = 0
        self._contacts = 0
        self._busy = 0.0

    def work(self) -> None:
        p = self.params(ContactDetectorParams)
        self._wait.wait(PATIENCE)
        pose = self._poses.take()
        if pose is None:
            return
        self.time = pose.t
        for sample in self._joints.take_all():
            self._history.add(sample)
        joints = self._history.at(pose.t, p.joint_timeout)
        if joints is None:
            self._without_joints += 1
            return
        start = time.perf_counter()
        found = self._detector.detect(pose.pose, joints.values)
        on = np.asarray(found.active)
        self._to_contacts.publish(
            contacts_message(pose.t, found.p_W[on], found.nhat_W[on], found.phi[on], found.link[on])
        )
        self._busy += time.perf_counter() - start
        self._contacts = int(on.sum())
        if self._count % p.marker_every == 0 and self._to_markers.get_subscription_count():
            self._to_markers.publish(_markers(pose.t, found.p_W[on], found.nhat_W[on], found.phi[on]))
        self._count += 1

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        rate, self._reported = self._count - self._reported, self._count
        busy, self._busy = self._busy, 0.0
        values = {"rate_hz": rate, "contacts": self._contacts, "poses_without_joints": self._without_joints}
        if not rate:
            lack = self.silent(self._poses, self._joints)
            return (
                WARN,
                lack or "no joint angles of the time of the object's pose: one of two clocks is wrong",
                values,
            )
        values["detect_s"] = busy / rate
        return OK, f"{self._contacts} contacts", values


def _markers(t: float, p_W: np.ndarray, nhat_W: np.ndarray, phi: np.ndarray) -> MarkerArray:
    """The object's outward normals as lines, coloured by distance: red touches, blue is far."""
    marker = Marker(ns="contacts", type=Marker.LINE_LIST, action=Marker.ADD)
    marker.header.frame_id = WORLD
    set_stamp(marker.header.stamp, t)
    marker.scale.x = 0.001
    marker.color.a = 1.0
    marker.pose.orientation.w = 1.0
    ends = np.stack([p_W, p_W + NORMAL_LENGTH * nhat_W], axis=1).reshape(-1, 3)
    marker.points = [Point(x=float(x), y=float(y), z=float(z)) for x, y, z in ends]
    colours = np.repeat(distance_colours(phi), 2, axis=0) / 255.0
    marker.colors = [ColorRGBA(r=float(r), g=float(g), b=float(b), a=1.0) for r, g, b in colours]
    return MarkerArray(markers=[marker])


def main() -> int:
    return run_node(ContactDetectorNode)


if __name__ == "__main__":
    sys.exit(main())
