"""Simulated camera: renders pictures from the true object pose and the joint angles, on the topics and
in the format of a RealSense driver.

It is a separate process, so that rendering never delays the simulation. True poses and joint angles
are interpolated to the times at which the shutter opens and closes; the stamp is the middle between
them. A picture that cannot be rendered in time is skipped and counted, as in a real camera. Camera
faults are parameters that may change at run time.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from dataclasses import fields
from typing import Any

import cv2
import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseWithCovarianceStamped
from sensor_msgs.msg import CameraInfo, Image, JointState

from dexstack.graph.parameters import CameraNodeParams
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.nodes.common import OK, PATIENCE, WARN, StackNode, run_node
from dexstack.nodes.images import OPTICAL_FRAME, camera_message, image_message
from dexstack.nodes.tf import frame_prefix
from dexstack.nodes.wire import COMMAND, RECENT, JointReader, PoseSample, WaitSet, read_pose, set_stamp
from dexstack.perception.bundle import base_bundle, object_bundle
from dexstack.perception.camera_params import CameraFaultParams, MountParams, SimulatedCameraParams
from dexstack.perception.se3 import Transform, between
from dexstack.perception.simulated import SimulatedCamera
from dexstack.process.history import History, JointHistory
from dexstack.process.memory import keep_picture_memory


class CameraNode(StackNode):
    LIVE = frozenset(f.name for f in fields(CameraFaultParams))

    def __init__(self) -> None:
        super().__init__("camera", CameraNodeParams, SimulatedCameraParams, CameraFaultParams, MountParams)

    def configure(self) -> None:
        cv2.setNumThreads(1)
        p, camera = self.params(CameraNodeParams), self.params(SimulatedCameraParams)
        hand, obj = load_hand(p.hand), load_object(p.object)
        X_WC = self.params(MountParams).X_WC(hand.side)
        self._camera = SimulatedCamera(
            hand, obj, object_bundle(p.object), camera, X_WC, base=base_bundle(), seed=p.seed
        )
        self._frame = frame_prefix(self) + OPTICAL_FRAME
        self._read_joints = JointReader(hand.joint_names, "position")
        self._truths = self.newest(PoseWithCovarianceStamped, "object_pose_truth", RECENT, self._note_pose)
        self._joint_states = self.newest(JointState, "joint_states", RECENT, self._note_joints)
        self._wait = WaitSet(self, self._truths)
        self._to_image = self.create_publisher(Image, "camera/color/image_raw", COMMAND)
        self._to_info = self.create_publisher(CameraInfo, "camera/color/camera_info", COMMAND)

    def begin(self) -> None:
        self._poses: History[PoseSample] = History()
        self._joints = JointHistory()
        self._next = -np.inf
        self._drawn: deque[tuple[float, float, np.ndarray]] = deque()
        """Rendered pictures: time of arrival [s], stamp [s], pixels."""
        self._shown: np.ndarray | None = None
        self._rng = np.random.default_rng(self.params(CameraNodeParams).seed)
        self._pictures = self._reported = self._left_out = 0
        self._busy = 0.0

    def work(self) -> None:
        p = self.params(SimulatedCameraParams)
        self._wait.wait(PATIENCE)
        self._truths.take()
        self._joint_states.take()
        if not self._poses.samples or not self._joints.samples:
            return
        newest = self._poses.samples[-1].t
        if self._next < self._poses.samples[0].t or self._next > newest + 1.0:
            self._next = newest
            self._drawn.clear()
        while self._drawn and self._drawn[0][0] <= newest:
            self._publish(*self._drawn.popleft()[1:])
        period = 1.0 / p.frame_rate
        if newest < self._next + p.exposure_time:
            return
        late = int((newest - self._next - p.exposure_time) / period)
        self._left_out += late
        opens = self._next + late * period
        self._next = opens + period
        closes = opens + p.exposure_time
        begin = time.process_time()
        image = self._camera.picture(*self._at(closes), before=self._at(opens))
        self._busy += time.process_time() - begin
        stamp = (opens + closes) / 2
        age = (
            p.image_delay + p.image_jitter * self._rng.random() + self.params(CameraFaultParams).further_delay
        )
        self._drawn.append((stamp + age, stamp, image))

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        rate, self._reported = self._pictures - self._reported, self._pictures
        busy, self._busy = self._busy, 0.0
        values = {"rate_hz": rate, "left_out": self._left_out}
        if not rate:
            return WARN, self.silent(self._truths, self._joint_states) or "no picture is due", values
        return OK, f"{rate} Hz", {**values, "draw_s": busy / rate}

    def _note_pose(self, message: PoseWithCovarianceStamped) -> None:
        self._poses.add(sample := read_pose(message))
        self.time = sample.t

    def _note_joints(self, message: JointState) -> None:
        self._joints.add(self._read_joints(message))

    def _at(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Return joint angles (16,) and object pose (7,) at time ``t`` [s]."""
        a, b, s = self._poses.around(t)
        X_WO = between(Transform.of_pose(a.pose), Transform.of_pose(b.pose), s)
        return self._joints.at(t, np.inf).values, X_WO.pose

    def _publish(self, t: float, image: np.ndarray) -> None:
        faults = self.params(CameraFaultParams)
        if not faults.frozen_picture or self._shown is None:
            self._shown = image
        stamp = Time()
        set_stamp(stamp, t + faults.clock_offset)
        self._to_info.publish(camera_message(stamp, self._camera.camera, self._frame))
        self._to_image.publish(image_message(stamp, self._shown, self._frame))
        self._pictures += 1


def main() -> int:
    keep_picture_memory()
    return run_node(CameraNode)


if __name__ == "__main__":
    sys.exit(main())
