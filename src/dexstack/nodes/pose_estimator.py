"""The pose estimator node: pictures in, the object's pose with its covariance out, at the pictures'
rate and with their stamps.

Pictures come from a RealSense on this computer (``source: "realsense"``) or from any camera driver
on ``camera/color/image_raw`` and ``camera/color/camera_info``, in the frame that they name. Where
that frame stands is read from ``/tf_static`` (``calibration: "tf"``), or is known; then
``/tf_static`` is told where the topmost of the camera's frames stands in the world, so that each
has one parent.

A pose is published for every picture that shows the object, and, predicted with the uncertainty
that belongs to that, for those within ``coast`` after the last one that did; after that, none. What
is missing is said once when it begins to be missing: in the log, and in the diagnostics for as long
as it lasts.
"""

from __future__ import annotations

import math
import sys
import time
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
from dexstack.nodes.images import OPTICAL_FRAME, GreyImage, image_message, read_camera, read_image
from dexstack.nodes.tf import StaticFrames, frame_prefix, tf_message, transforms
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
from dexstack.perception.bundle import object_bundle
from dexstack.perception.calibration import load_mount
from dexstack.perception.camera import CameraModel
from dexstack.perception.estimator import Outcome, PoseEstimator, Sight
from dexstack.perception.images import to_grey
from dexstack.perception.camera_params import EstimatorParams, MountParams, RealSenseParams
from dexstack.perception.realsense import RealSenseCamera
from dexstack.perception.se3 import Transform
from dexstack.process.memory import keep_memory_of_pictures

SOURCES = ("topic", "realsense")
FROM_TF = "tf"
HISTORY = 1024
SETTLE = 1.0
"""After the first picture others may take so long to tell of the camera's frames [s]."""


class PoseEstimatorNode(StackNode):
    """See the module's docstring."""

    LIVE = frozenset({"image_timeout"})

    def __init__(self) -> None:
        super().__init__("pose_estimator", PoseEstimatorParams, EstimatorParams, MountParams, RealSenseParams)

    def configure(self) -> None:
        cv2.setNumThreads(1)
        p = self.params(PoseEstimatorParams)
        if p.source not in SOURCES:
            raise ConfigError(f"'source' must be one of {', '.join(SOURCES)}, got '{p.source}'")
        self._bundle = object_bundle(p.object)
        self._X_WC = self._mount()
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
        self._frames = StaticFrames()
        self._told: Newest[None] | None = None
        self._message = tf_message()
        if self._message is not None:
            self._told = self.newest(self._message, "/tf_static", STATIC, self._frames.note)
            self._to_static = self.create_publisher(self._message, "/tf_static", LATCHED)
        elif self._X_WC is None:
            raise ConfigError(
                "calibration 'tf' needs tf2_msgs, which comes with a ROS 2 installation; give a calibration's file instead"
            )

    def begin(self) -> None:
        self._estimator: PoseEstimator | None = None
        self._camera: CameraModel | None = None
        self._info_trouble = ""
        self._trouble = ""
        self._heard = time.monotonic()
        self._first, self._placed = math.inf, False
        self._count = self._reported = self._images_seen = self._predicted = 0
        self._busy = np.zeros(HISTORY)
        self._outcome: Outcome | None = None
        if self._realsense is not None:
            self._realsense.start()

    def finish(self) -> None:
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
            self._say(
                self._info_trouble or "pictures, but no camera_info: without intrinsics there is no pose"
            )
            return
        if image.grey.shape != (self._camera.height, self._camera.width):
            height, width = image.grey.shape
            self._note_camera()
            self._say(
                f"the pictures have {width} x {height} pixels, the camera_info is for {self._camera.width} x {self._camera.height}"
            )
            return
        if trouble := self._find_camera(image.frame):
            self._say(trouble)
            return
        begin = time.perf_counter()
        outcome = self._follow(image)
        self._busy[self._images_seen % HISTORY] = time.perf_counter() - begin
        self._images_seen += 1
        self._say_sight(outcome.sight)
        self._note_camera()
        if self._to_picture.get_subscription_count():
            self._to_picture.publish(
                image_message(image.stamp, annotated(image.grey, outcome, self._camera), image.frame)
            )

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
        if self._trouble:
            return WARN, self._trouble, values
        return OK, f"{rate} Hz", values

    # --- where the camera is --------------------------------------------------------------------------------------------------------

    def _mount(self) -> Transform | None:
        """The optical frame in the world; None: others tell."""
        p = self.params(PoseEstimatorParams)
        if p.calibration == FROM_TF:
            return None
        hand = load_hand(p.hand)
        return load_mount(p.calibration, hand) if p.calibration else self.params(MountParams).X_WC(hand.side)

    def _find_camera(self, frame: str) -> str:
        """Learn from others where the frame of the pictures is, or tell them; why it is not
        known."""
        if self._told is not None:
            self._told.take()
        root, X_RC = self._frames.root(frame)
        if self.params(PoseEstimatorParams).calibration == FROM_TF:
            if root != WORLD:
                return no_way(frame, root)
            if self._X_WC is None or not np.array_equal(self._X_WC.pose, X_RC.pose):
                self._X_WC, self._estimator = X_RC, None
            return ""
        now = time.monotonic()
        self._first = min(self._first, now)
        if self._message is not None and not self._placed and now - self._first > SETTLE:
            self._placed = True
            if root == WORLD:
                self.get_logger().warning(
                    f"others tell where '{frame}' is in '{WORLD}', too; the calibration counts"
                )
            else:
                X_WR = self._X_WC.compose(X_RC.inverse)
                self._to_static.publish(
                    self._message(transforms=transforms(0.0, [Frame(WORLD, root, X_WR.p, X_WR.pose[3:])]))
                )
        return ""

    # --- one picture ------------------------------------------------------------------------------------------------------------------

    def _next(self) -> GreyImage | None:
        """The next picture with the camera that took it, or None when there is none yet."""
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
            self._note_camera()
        return self._images.take()

    def _note_camera(self) -> None:
        """Look at the newest camera_info; while there is one, this is done between pictures, where
        nobody waits."""
        camera = None if self._realsense is not None else self._infos.take()
        if camera is not None:
            self._use(camera)

    def _use(self, camera: CameraModel) -> None:
        """Start anew when the intrinsics change."""
        if self._camera is not None and self._camera.document() == camera.document():
            return
        self._camera, self._estimator = camera, None

    def _follow(self, image: GreyImage) -> Outcome:
        if self._estimator is None:
            self._estimator = PoseEstimator(
                self._bundle, self._camera, self._X_WC, self.params(EstimatorParams)
            )
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

    # --- what is wrong ----------------------------------------------------------------------------------------------------------------

    def _read_camera(self, message: CameraInfo) -> CameraModel | None:
        """Intrinsics, or None with the reason kept: it is said once, not with every message."""
        try:
            camera = read_camera(message)
        except BadMessage as error:
            self._info_trouble = f"camera_info cannot be used: {error}"
            return None
        self._info_trouble = ""
        return camera

    def _why_no_image(self) -> str:
        if self._realsense is not None:
            return self._realsense.trouble or "the camera sends no frames"
        return f"no pictures on {self._images.subscriptions[0].topic_name}"

    def _say_sight(self, sight: Sight) -> None:
        if sight is Sight.LOST:
            self._say(f"no tag of the object '{self._bundle.name}' is in view: no pose")
        elif sight is Sight.AMBIGUOUS:
            self._say("one face is in view and two poses fit it: no pose until another picture decides")
        elif sight is Sight.COVERED:
            self._say("every tag in view is covered in part: no pose")
        elif sight is Sight.FROZEN:
            self._say("the camera gives the same picture again and again: no pose")
        elif sight is Sight.STALE:
            self._say("pictures with old stamps: not used")
        else:
            self._say("")

    def _say(self, trouble: str) -> None:
        """Log what is wrong when it begins, and when it is over."""
        if trouble == self._trouble:
            return
        if trouble:
            self.get_logger().warning(trouble)
        else:
            self.get_logger().info("the object is in view")
        self._trouble = trouble


def no_way(frame: str, root: str) -> str:
    """Why ``/tf_static`` does not say where the pictures' frame is."""
    if not frame:
        return "the pictures name no frame (frame_id), so that /tf_static cannot say where the camera is"
    ends = f"its frames end at '{root}'" if root != frame else "nobody tells of it"
    return f"no way from '{WORLD}' to the pictures' frame '{frame}' on /tf_static: {ends}; publish where '{root}' stands in '{WORLD}'"


def annotated(grey: np.ndarray, outcome: Outcome, camera: CameraModel) -> np.ndarray:
    """(height, width, 3) uint8 RGB: the tags found (green where they count, red where not), and the
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


def main() -> int:
    keep_memory_of_pictures()
    return run_node(PoseEstimatorNode)


if __name__ == "__main__":
    sys.exit(main())
