"""Simulated camera: renders pictures from the true object pose and the joint angles, on the topics and
in the format of a RealSense driver.

It is a separate process, so that rendering never delays the simulation. True poses and joint angles
are interpolated to the times at which the shutter opens and closes; the stamp is the middle between
them. A picture that cannot be rendered in time is skipped and counted, as in a real camera. Camera
faults are parameters that may change at run time.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import fields
from functools import partial
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
from dexstack.nodes.wire import COMMAND, RECENT, BadMessage, JointReader, Kept, WaitSet, read_pose, set_stamp
from dexstack.perception.bundle import base_bundle, object_bundle
from dexstack.perception.camera_params import CameraFaultParams, MountParams, SimulatedCameraParams
from dexstack.perception.se3 import Transform, between
from dexstack.perception.simulated import SimulatedCamera
from dexstack.process.history import History
from dexstack.process.memory import keep_picture_memory
from dexstack.process.realtime import set_niceness


class CameraNode(StackNode):
    LIVE = frozenset(f.name for f in fields(CameraFaultParams))

    def __init__(self) -> None:
        super().__init__("camera", CameraNodeParams, SimulatedCameraParams, CameraFaultParams, MountParams)

    def configure(self) -> None:
        keep_picture_memory()
        cv2.setNumThreads(1)
        p, camera = self.params(CameraNodeParams), self.params(SimulatedCameraParams)
        hand, obj = load_hand(p.hand), load_object(p.object)
        X_WC = self.params(MountParams).X_WC(hand.side)
        self._camera = SimulatedCamera(
            hand, obj, object_bundle(p.object), camera, X_WC, base=base_bundle(), seed=p.seed
        )
        self._frame = frame_prefix(self) + OPTICAL_FRAME
        self._read_joints = JointReader(hand.joint_names, "position")
        self._truths = self.kept(PoseWithCovarianceStamped, "object_pose_truth", RECENT)
        self._joint_states = self.kept(JointState, "joint_states", RECENT)
        self._wait = WaitSet(self, self._truths)
        self._to_image = self.create_publisher(Image, "camera/color/image_raw", COMMAND)
        self._to_info = self.create_publisher(CameraInfo, "camera/color/camera_info", COMMAND)

    def begin(self) -> None:
        self._poses: History[Kept] = History()
        self._joints: History[Kept] = History()
        self._next = -np.inf
        self._drawn: deque[tuple[float, float, np.ndarray]] = deque()
        """Rendered pictures: time of arrival [s], stamp [s], pixels."""
        self._shown: np.ndarray | None = None
        self._rng = np.random.default_rng(self.params(CameraNodeParams).seed)
        self._pictures = self._reported = self._left_out = 0
        self._busy = self._rested = 0.0
        self._urgent = False

    def finish(self) -> None:
        set_niceness(0)

    def work(self) -> None:
        p = self.params(SimulatedCameraParams)
        self._wait.wait(PATIENCE)
        for pose in self._truths.take_all():
            self._poses.add(pose)
            self.time = pose.t
        for angles in self._joint_states.take_all():
            self._joints.add(angles)
        if not self._poses.samples or not self._joints.samples:
            return
        newest = self._poses.samples[-1].t
        if self._next < self._poses.samples[0].t or self._next > newest + 1.0:
            self._next = newest
            self._drawn.clear()
        while self._drawn and self._drawn[0][0] <= newest:
            self._publish(*self._drawn.popleft()[1:])
        period = 1.0 / p.frame_rate
        if newest < self._next + p.exposure_time or time.monotonic() < self._rested:
            return
        late = int((newest - self._next - p.exposure_time) / period)
        self._left_out += late
        opens = self._next + late * period
        self._next = opens + period
        closes = opens + p.exposure_time
        begin, wall = time.process_time(), time.monotonic()
        try:
            now, before = self._at(closes), self._at(opens)
            self._hurry()
        except BadMessage as reason:
            self.drop(self._truths.topic, str(reason))
            return
        image = self._camera.picture(*now, before=before)
        self._busy += time.process_time() - begin
        self._rested = 2.0 * time.monotonic() - wall  # half of the time is left to others
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

    def _hurry(self) -> None:
        """Take precedence while the hand follows commands; before, planners compile."""
        urgent = not self._read_joints(self._joints.samples[-1].message(JointState)).limp
        if urgent != self._urgent:
            self._urgent = urgent
            set_niceness(self.params(CameraNodeParams).niceness if urgent else 0)

    def _at(self, t: float) -> tuple[np.ndarray, np.ndarray]:
        """Return joint angles (16,) and object pose (7,) at time ``t`` [s].

        Raises:
            BadMessage: a pose or a joint state of that time is invalid.
        """
        a, b, s = self._poses.around(t)
        X_WA, X_WB = (
            Transform.of_pose(read_pose(kept.message(PoseWithCovarianceStamped)).pose) for kept in (a, b)
        )
        q_a, q_b, share = self._joints.around(t)
        angles_a, angles_b = (self._read_joints(kept.message(JointState)).values for kept in (q_a, q_b))
        return angles_a + share * (angles_b - angles_a), between(X_WA, X_WB, s).pose

    def _publish(self, t: float, image: np.ndarray) -> None:
        faults = self.params(CameraFaultParams)
        if not faults.frozen_picture or self._shown is None:
            self._shown = image
        stamp = Time()
        set_stamp(stamp, t + faults.clock_offset)
        self._to_info.publish(camera_message(stamp, self._camera.camera, self._frame))
        self._to_image.publish(image_message(stamp, self._shown, self._frame))
        self._pictures += 1


main = partial(run_node, CameraNode)
