"""Pose estimator: publishes the object's pose with its covariance for every picture, with its stamp.

Pictures come from a RealSense on this computer (``source: "realsense"``) or from any camera driver
on ``camera/color/image_raw`` and ``camera/color/camera_info``. The pose of the camera's frame is
read from ``/tf_static`` (``calibration: "tf"``) or known from a calibration; then the node publishes
the pose of the topmost of the camera's frames on ``/tf_static``, so that each frame has one parent.

A pose is published for every picture that shows the object, and, predicted with the corresponding
uncertainty, for pictures within ``coast`` after the last one that did. The reason for a missing pose
is logged when it begins and stays in the diagnostics while it lasts.

The tags on the hand's base are looked at after every second's pose is published, and the mount is
corrected or the camera said to have moved; see :mod:`dexstack.perception.mount_watch`. A pose from
``/tf_static`` belongs to another node and is never corrected.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any

import cv2
import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseWithCovarianceStamped
from sensor_msgs.msg import CameraInfo, Image

from dexstack.errors import ConfigError
from dexstack.graph.parameters import PoseEstimatorParams
from dexstack.model.frames import Frame
from dexstack.model.hand import load_hand
from dexstack.nodes.common import OK, PATIENCE, WARN, StackNode, run_node
from dexstack.nodes.frames import FrameBuffer
from dexstack.nodes.images import OPTICAL_FRAME, GreyImage, image_message, read_camera, read_image
from dexstack.nodes.tf import frame_prefix, frames_message, tf_message
from dexstack.nodes.wire import (
    COMMAND,
    LATCHED,
    SENSOR,
    STATIC,
    WORLD,
    BadMessage,
    Newest,
    WaitSet,
    fill_pose,
    set_stamp,
)
from dexstack.perception.bundle import base_bundle, object_bundle
from dexstack.perception.calibration import load_mount, measured_by_fingers
from dexstack.perception.camera import CameraModel
from dexstack.perception.camera_params import EstimatorParams, MountParams, RealSenseParams
from dexstack.perception.estimator import PictureResult, PoseEstimator, Sight
from dexstack.perception.images import to_grey
from dexstack.perception.mount_watch import MountWatch
from dexstack.perception.realsense import RealSenseCamera
from dexstack.perception.se3 import Transform
from dexstack.process.memory import keep_picture_memory
from dexstack.process.realtime import drop_realtime, make_realtime

FROM_TF = "tf"
HISTORY = 1024
SETTLE = 1.0
"""Time after the first picture that others have to publish the camera's frames [s]."""

_REASONS = {
    Sight.LOST: "no tag of the object '{object}' is in view: no pose",
    Sight.AMBIGUOUS: "one face is in view and two poses fit it: no pose until another picture decides",
    Sight.COVERED: "every tag in view is partly covered: no pose",
    Sight.FROZEN: "the camera repeats the same picture: no pose",
    Sight.STALE: "pictures with old stamps: not used",
}


class PoseEstimatorNode(StackNode):
    LIVE = frozenset({"image_timeout"})

    def __init__(self) -> None:
        super().__init__("pose_estimator", PoseEstimatorParams, EstimatorParams, MountParams, RealSenseParams)

    def configure(self) -> None:
        keep_picture_memory()
        cv2.setNumThreads(1)
        p = self.params(PoseEstimatorParams)
        self._bundle = object_bundle(p.object)
        self._hand = load_hand(p.hand)
        self._X_WC = self._mount()
        self._watch = None if self._X_WC is None else self._watch_over(self._X_WC)
        self._realsense: RealSenseCamera | None = None
        if p.source == "realsense":
            self._realsense = RealSenseCamera(self.params(RealSenseParams))
        else:
            qos = COMMAND if p.reliable else SENSOR
            self._images = self.newest(Image, "camera/color/image_raw", qos, read_image)
            self._infos = self.newest(CameraInfo, "camera/color/camera_info", qos, self._read_camera)
            self._wait = WaitSet(self, self._images)
        self._pose = PoseWithCovarianceStamped()
        self._pose.header.frame_id = WORLD
        self._to_pose = self.create_publisher(PoseWithCovarianceStamped, "object_pose", SENSOR)
        self._to_picture = self.create_publisher(Image, "object_pose/image", SENSOR)
        self._frames = FrameBuffer()
        self._static: Newest[None] | None = None
        self._message = tf_message()
        if self._message is not None:
            note = partial(self._frames.note, fixed=True)
            self._static = self.newest(self._message, "/tf_static", STATIC, note)
            self._to_static = self.create_publisher(self._message, "/tf_static", LATCHED)
        elif self._X_WC is None:
            raise ConfigError(
                "calibration 'tf' needs tf2_msgs, which comes with a ROS 2 installation; "
                "set 'calibration' to a file instead"
            )

    def begin(self) -> None:
        self._estimator: PoseEstimator | None = None
        self._camera: CameraModel | None = None
        self._info_trouble = ""
        self._trouble = ""
        self._heard = time.monotonic()
        self._first, self._placed = math.inf, False
        self._root: tuple[str, Transform] | None = None
        """Topmost of the camera's frames, and the optical frame in it, once its pose is published."""
        self._count = self._reported = self._images_seen = self._predicted = 0
        self._busy = np.zeros(HISTORY)
        self._outcome: PictureResult | None = None
        if self._realsense is not None:
            self._realsense.start()
        if priority := self.params(PoseEstimatorParams).realtime_priority:
            make_realtime(priority)

    def finish(self) -> None:
        drop_realtime()
        if self._realsense is not None:
            self._realsense.stop()

    def work(self) -> None:
        image = self._next()
        if image is None:
            if time.monotonic() - self._heard > self.params(PoseEstimatorParams).image_timeout:
                self._say(self._why_no_image())
            return
        self._heard = time.monotonic()
        if self._camera is None:
            self._say(self._info_trouble or "pictures without camera_info: no intrinsics, no pose")
            return
        if image.grey.shape != (self._camera.height, self._camera.width):
            expected = f"{self._camera.width} x {self._camera.height}"
            self._take_info()
            height, width = image.grey.shape
            self._say(f"the pictures have {width} x {height} pixels, the camera_info is for {expected}")
            return
        if trouble := self._find_camera(image.frame):
            self._say(trouble)
            return
        begin = time.perf_counter()
        outcome = self._follow(image)
        self._busy[self._images_seen % HISTORY] = time.perf_counter() - begin
        self._images_seen += 1
        self._say(_REASONS.get(outcome.sight, "").format(object=self._bundle.name))
        self._look_at_base(image, outcome.sight)
        self._take_info()
        if self._to_picture.get_subscription_count():
            picture = annotated(image.grey, outcome, self._camera)
            self._to_picture.publish(image_message(image.stamp, picture, image.frame))

    def status(self) -> tuple[bytes, str, dict[str, Any]]:
        rate, self._reported = self._count - self._reported, self._count
        n = min(self._images_seen, HISTORY)
        values: dict[str, Any] = {
            "rate_hz": rate,
            "pictures": self._images_seen,
            "poses": self._count,
            "predicted": self._predicted,
        }
        if n:
            p50, p99 = np.percentile(self._busy[:n], [50, 99])
            values |= {"pose_p50": float(p50), "pose_p99": float(p99)}
        if self._outcome is not None and self._outcome.seen is not None:
            seen = self._outcome.seen
            values |= {
                "tags": " ".join(map(str, seen.tags)),
                "outliers": " ".join(map(str, seen.outliers)),
                "residual_px": seen.residual,
            }
        if self._watch is not None:
            values |= self._watch.values()
        trouble = self._trouble or ("" if self._watch is None else self._watch.trouble)
        return (WARN, trouble, values) if trouble else (OK, f"{rate} Hz", values)

    # --- pose of the camera ----------------------------------------------------------------------

    def _mount(self) -> Transform | None:
        """Return the pose of the optical frame in the world; None: from ``/tf_static``."""
        p = self.params(PoseEstimatorParams)
        if p.calibration == FROM_TF:
            return None
        if p.calibration:
            return load_mount(p.calibration, self._hand)
        return self.params(MountParams).X_WC(self._hand.side)

    def _watch_over(self, X_WC: Transform) -> MountWatch:
        calibration = self.params(PoseEstimatorParams).calibration
        return MountWatch(
            base_bundle(),
            Transform.of_pose([*self._hand.p_WP, *self._hand.quat_WP]),
            X_WC,
            self.params(EstimatorParams),
            learn=calibration not in ("", FROM_TF) and measured_by_fingers(calibration),
            correct=calibration != FROM_TF,
        )

    def _look_at_base(self, image: GreyImage, sight: Sight) -> None:
        """Watch the mount in a picture whose pose is published."""
        if news := self._watch.follow(image.t, image.grey, self._estimator, sight):
            self.get_logger().warning(news)
        if self._watch.X_WC is not self._X_WC:
            self._X_WC = self._watch.X_WC
            self._publish_mount()

    def _find_camera(self, frame: str) -> str:
        """Read the pose of the pictures' frame from ``/tf_static``, or publish it there.

        Returns:
            Why the pose is unknown; empty if it is known.
        """
        if self._static is not None:
            self._static.take()
        try:
            root, X_RC = self._frames.root(frame)
        except ConfigError as error:
            return str(error)
        if self.params(PoseEstimatorParams).calibration == FROM_TF:
            if root != WORLD:
                return no_path(frame, root)
            if self._X_WC is None or not np.array_equal(self._X_WC.pose, X_RC.pose):
                self._X_WC, self._estimator = X_RC, None
                self._watch = self._watch_over(X_RC)
            return ""
        now = time.monotonic()
        self._first = min(self._first, now)
        if self._message is not None and not self._placed and now - self._first > SETTLE:
            self._placed = True
            if root == WORLD:
                self.get_logger().warning(
                    f"/tf_static has the pose of '{frame}' in '{WORLD}' too; the calibration is used"
                )
            else:
                self._root = root, X_RC
                self._publish_mount()
        return ""

    def _publish_mount(self) -> None:
        """Publish the pose of the topmost of the camera's frames, where this node places it."""
        if self._root is not None:
            root, X_RC = self._root
            X_WR = self._X_WC.compose(X_RC.inverse)
            frame = Frame(WORLD, root, X_WR.p, X_WR.pose[3:])
            self._to_static.publish(frames_message(self._message, 0.0, [frame]))

    # --- one picture -----------------------------------------------------------------------------

    def _next(self) -> GreyImage | None:
        """Return the next picture, or None; takes in its intrinsics."""
        if self._realsense is not None:
            frame = self._realsense.take(PATIENCE)
            if frame is None:
                return None
            self._use(frame.camera)
            stamp = Time()
            set_stamp(stamp, frame.t)
            grey = to_grey(frame.data, frame.width, frame.height, frame.encoding)
            return GreyImage(frame.t, stamp, grey, frame_prefix(self) + OPTICAL_FRAME)
        self._wait.wait(PATIENCE)
        if self._camera is None:
            self._take_info()
        return self._images.take()

    def _take_info(self) -> None:
        """Take in the newest camera_info; called after a picture is processed, so as not to delay it."""
        camera = None if self._realsense is not None else self._infos.take()
        if camera is not None:
            self._use(camera)

    def _use(self, camera: CameraModel) -> None:
        """Set the intrinsics; a change resets the estimator."""
        if self._camera is None or self._camera.document() != camera.document():
            self._camera, self._estimator = camera, None

    def _follow(self, image: GreyImage) -> PictureResult:
        if self._estimator is None:
            self._estimator = PoseEstimator(
                self._bundle, self._camera, self._X_WC, self.params(EstimatorParams)
            )
            self._estimator.mount(self._X_WC, self._watch.doubt)
        self.time = image.t
        self._outcome = outcome = self._estimator.process(image.t, image.grey)
        if outcome.estimate is not None:
            self._pose.header.stamp = image.stamp
            fill_pose(self._pose.pose.pose, outcome.estimate.X_WO.pose)
            self._pose.pose.covariance = outcome.estimate.covariance.ravel()
            self._to_pose.publish(self._pose)
            self._count += 1
            self._predicted += outcome.sight is not Sight.SEEN
        return outcome

    # --- faults ----------------------------------------------------------------------------------

    def _read_camera(self, message: CameraInfo) -> CameraModel | None:
        """Return the intrinsics, or None; keeps the reason, to log it once rather than per message."""
        try:
            camera = read_camera(message)
            camera.check_topic(self._images.subscriptions[0].topic_name)
        except (BadMessage, ConfigError) as error:
            self._info_trouble = f"camera_info cannot be used: {error}"
            return None
        self._info_trouble = ""
        return camera

    def _why_no_image(self) -> str:
        if self._realsense is not None:
            return self._realsense.trouble or "the camera sends no frames"
        return f"no pictures on {self._images.subscriptions[0].topic_name}"

    def _say(self, trouble: str) -> None:
        """Log a fault when it begins and when it ends (empty)."""
        if trouble == self._trouble:
            return
        if trouble:
            self.get_logger().warning(trouble)
        else:
            self.get_logger().info("the object is in view")
        self._trouble = trouble


def no_path(frame: str, root: str) -> str:
    """Return why ``/tf_static`` does not give the pose of the pictures' frame in the world."""
    if not frame:
        return "the pictures have no frame_id, so /tf_static cannot give the camera's pose"
    ends = f"its frames end at '{root}'" if root != frame else "it has no parent"
    return (
        f"no path from '{WORLD}' to the pictures' frame '{frame}' on /tf_static: {ends}; "
        f"publish the pose of '{root}' in '{WORLD}'"
    )


def annotated(grey: np.ndarray, outcome: PictureResult, camera: CameraModel) -> np.ndarray:
    """Return (height, width, 3) uint8 RGB with the detected tags, green if used and red if not, and the
    object's axes."""
    image = cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB)
    counted = () if outcome.seen is None else outcome.seen.tags
    for d in outcome.detections:
        colour = (40, 200, 60) if d.tag in counted else (220, 50, 40)
        cv2.polylines(image, [np.round(d.corners * 16).astype(np.int32)], True, colour, 1, cv2.LINE_AA, 4)
    if outcome.seen is not None:
        ends = camera.project(outcome.seen.X_CO.apply(0.04 * np.vstack([np.zeros(3), np.eye(3)])))
        for end, colour in zip(ends[1:], ((230, 60, 60), (60, 180, 60), (60, 90, 230)), strict=True):
            a, b = (tuple(np.round(16 * x).astype(int).tolist()) for x in (ends[0], end))
            cv2.line(image, a, b, colour, 2, cv2.LINE_AA, 4)
    return image


main = partial(run_node, PoseEstimatorNode)
