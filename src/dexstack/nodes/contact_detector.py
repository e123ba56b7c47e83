"""Contact detector: publishes the contact set of every object pose.

Poses are as old as the pictures they come from; the joint angles are interpolated to the stamp of
the pose. Like the planner the process runs under SCHED_FIFO, where permitted: a command may be
0.1 s old, pictures and all that is computed from them included.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseWithCovarianceStamped
from sensor_msgs.msg import JointState, PointCloud2
from visualization_msgs.msg import MarkerArray

from dexstack.contact.detector import ContactDetector, DetectorParams
from dexstack.graph.parameters import ContactDetectorParams
from dexstack.nodes.common import OK, PATIENCE, WARN, run_node
from dexstack.nodes.markers import contact_markers
from dexstack.nodes.scene import SceneNode
from dexstack.nodes.wire import (
    COMMAND,
    RECENT,
    SENSOR,
    JointReader,
    WaitSet,
    contacts_message,
)
from dexstack.process.compilation import use_compilation_cache
from dexstack.process.history import JointHistory
from dexstack.process.realtime import drop_realtime, make_realtime


class ContactDetectorNode(SceneNode):
    LIVE = frozenset({"joint_timeout", "marker_every"})

    def __init__(self) -> None:
        super().__init__("contact_detector", ContactDetectorParams, DetectorParams)

    def configure(self) -> None:
        use_compilation_cache()
        robot, obj, _ = self.make_task().setup()
        self._detector = ContactDetector(robot, obj, self.params(DetectorParams))
        # Compile now, not in the loop.
        self._detector.detect(np.array([0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0]), robot.home)
        self._poses = self.newest(PoseWithCovarianceStamped, "object_pose", SENSOR, self.read_pose)
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
        if priority := self.params(ContactDetectorParams).realtime_priority:
            make_realtime(priority)

    def finish(self) -> None:
        drop_realtime()

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
            self._to_markers.publish(contact_markers(pose.t, found.p_W[on], found.nhat_W[on], found.phi[on]))
        self._count += 1

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        rate, self._reported = self._count - self._reported, self._count
        busy, self._busy = self._busy, 0.0
        values = {"rate_hz": rate, "contacts": self._contacts, "poses_without_joints": self._without_joints}
        if not rate:
            lack = self.silent(self._poses, self._joints)
            clocks = "no joint angles at the time of the object's pose: check the clocks of both publishers"
            return WARN, lack or clocks, values
        values["detect_s"] = busy / rate
        return OK, f"{self._contacts} contacts", values


main = partial(run_node, ContactDetectorNode)
