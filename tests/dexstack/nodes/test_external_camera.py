"""A camera that somebody else drives: its frame is read, and every frame on /tf_static has one
parent."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import rclpy
from geometry_msgs.msg import PoseWithCovarianceStamped, TransformStamped
from harness import wait_until
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo, Image

pytest.importorskip("cv2")
pytest.importorskip("pupil_apriltags")

from dexstack.errors import ConfigError
from dexstack.model.frames import Frame
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.nodes import pose_estimator
from dexstack.nodes.images import camera_message, image_message
from dexstack.nodes.pose_estimator import PoseEstimatorNode
from dexstack.nodes.tf import StaticFrames, tf_message, transforms
from dexstack.nodes.wire import LATCHED, RECENT, set_stamp
from dexstack.perception.bundle import base_bundle, object_bundle
from dexstack.perception.camera_params import MOUNT, SimulatedCameraParams
from dexstack.perception.se3 import Transform, difference
from dexstack.perception.simulated import SimulatedCamera

HAND, CUBE = load_hand(), load_object("cube")
START = CUBE.start("allegro").pose_WO
OPTICAL = "eye_color_optical_frame"
X_LC = Transform.of_pose([0.015, 0.001, 0.002, 0.5, -0.5, 0.5, -0.5])
"""The optical frame in the camera's link, as drivers have it."""


def frame(parent: str, name: str, X: Transform) -> Frame:
    return Frame(parent, name, X.p, X.pose[3:])


def told(*frames: Frame) -> SimpleNamespace:
    """As a TFMessage, whose type is not on PyPI."""
    return SimpleNamespace(transforms=transforms(0.0, frames))


def test_a_chain_of_frames_ends_where_nobody_tells_of_a_parent():
    frames = StaticFrames()
    assert frames.root(OPTICAL)[0] == OPTICAL
    frames.note(told(frame("eye_link", OPTICAL, X_LC)))
    root, X = frames.root(OPTICAL)
    assert root == "eye_link" and np.abs(difference(X, X_LC)).max() < 1e-9
    frames.note(told(frame("world", "eye_link", MOUNT.compose(X_LC.inverse))))
    root, X = frames.root(OPTICAL)
    assert root == "world" and np.abs(difference(X, MOUNT)).max() < 1e-9
    frames.note(told(frame(OPTICAL, "world", X_LC)))
    frames.root(OPTICAL)  # a ring ends, too


class Driver:
    """A camera's driver as others write them: QoS of its own, topics of its own, a frame of its
    own."""

    def __init__(self) -> None:
        self.node = rclpy.create_node("driver")
        self.to_image = self.node.create_publisher(Image, "/eye/image", 10)
        self.to_info = self.node.create_publisher(CameraInfo, "/eye/info", 10)
        self.poses: list[PoseWithCovarianceStamped] = []
        self.node.create_subscription(PoseWithCovarianceStamped, "object_pose", self.poses.append, RECENT)
        camera = SimulatedCameraParams()
        self.picture = SimulatedCamera(
            HAND, CUBE, object_bundle("cube"), camera, MOUNT, base=base_bundle()
        ).picture(HAND.home, START)
        self._info = camera.camera
        self._t = 5.0

    def send(self) -> None:
        self._t += 0.03
        image = image_message(CameraInfo().header.stamp, self.picture, OPTICAL)
        set_stamp(image.header.stamp, self._t)
        self.to_info.publish(camera_message(image.header.stamp, self._info, OPTICAL))
        self.to_image.publish(image)


@pytest.fixture
def eye(domain):
    """The driver, and what makes an estimator that listens to it."""
    rclpy.init(
        args=[
            "--ros-args",
            "-r",
            "camera/color/image_raw:=/eye/image",
            "-r",
            "camera/color/camera_info:=/eye/info",
        ],
        domain_id=domain,
    )
    driver, executor, made = Driver(), SingleThreadedExecutor(), []
    executor.add_node(driver.node)

    def make(**parameters) -> PoseEstimatorNode:
        node = PoseEstimatorNode()
        made.append(node)
        for name, value in (parameters | {"reliable": True, "frozen_after": 1e5}).items():
            assert node.set_parameters([Parameter(name, value=value)])[0].successful, name
        return node

    def until(condition, what: str) -> None:
        def look():
            driver.send()
            executor.spin_once(0.01)
            return condition()

        wait_until(look, 60, what)

    yield driver, make, until
    for node in (*made, driver.node):
        if node is not driver.node:
            node.stop_worker()
        node.destroy_node()
    executor.shutdown()
    rclpy.shutdown()


def truth(message: PoseWithCovarianceStamped) -> np.ndarray:
    p, q = message.pose.pose.position, message.pose.pose.orientation
    return difference(Transform.of_pose([p.x, p.y, p.z, q.w, q.x, q.y, q.z]), Transform.of_pose(START))


def test_extrinsics_come_through_tf_and_what_is_missing_is_said(eye, monkeypatch):
    note = StaticFrames.note
    monkeypatch.setattr(
        pose_estimator, "tf_message", lambda: TransformStamped
    )  # stands in for TFMessage: one frame a message
    monkeypatch.setattr(StaticFrames, "note", lambda self, one: note(self, SimpleNamespace(transforms=[one])))
    driver, make, until = eye
    node = make(calibration="tf")
    assert node.autostart()
    until(
        lambda: f"no way from 'world' to the pictures' frame '{OPTICAL}'" in node.status()[1], "the sentence"
    )
    assert "nobody tells of it" in node.status()[1] and not driver.poses
    to_static = driver.node.create_publisher(
        TransformStamped, "/tf_static", QoSProfile(depth=10, durability=LATCHED.durability)
    )
    to_static.publish(transforms(0.0, [frame("eye_link", OPTICAL, X_LC)])[0])
    until(lambda: "its frames end at 'eye_link'" in node.status()[1], "the next sentence")
    to_static.publish(transforms(0.0, [frame("world", "eye_link", MOUNT.compose(X_LC.inverse))])[0])
    until(lambda: driver.poses and node.status()[0] == b"\x00", "a pose, and nothing to complain of")
    assert np.abs(truth(driver.poses[-1])).max() < 0.02
    moved = Transform(MOUNT.R, MOUNT.p + np.array([0.1, 0.0, 0.0]))
    to_static.publish(transforms(0.0, [frame("world", "eye_link", moved.compose(X_LC.inverse))])[0])
    until(lambda: abs(truth(driver.poses[-1])[0] - 0.1) < 0.01, "the camera that was moved")


def test_a_calibrated_camera_is_hung_into_the_world_by_its_topmost_frame(eye, monkeypatch):
    monkeypatch.setattr(pose_estimator, "SETTLE", 0.0)
    driver, make, until = eye
    node = make()
    assert node.autostart()
    published: list[SimpleNamespace] = []
    node._frames.note(told(frame("eye_link", OPTICAL, X_LC)))
    node._to_static, node._message = SimpleNamespace(publish=published.append), SimpleNamespace
    until(lambda: published and driver.poses, "the frame and a pose")
    (message,) = published[0].transforms
    assert (message.header.frame_id, message.child_frame_id) == ("world", "eye_link") and len(published) == 1
    node._frames.note(published[0])
    root, X_WC = node._frames.root(OPTICAL)
    assert root == "world" and np.abs(difference(X_WC, MOUNT)).max() < 1e-5
    assert np.abs(truth(driver.poses[-1])).max() < 0.02


@pytest.mark.skipif(tf_message() is not None, reason="tf2_msgs is installed")
def test_without_tf_that_is_one_sentence(eye):
    node = eye[1](calibration="tf")
    with pytest.raises(ConfigError, match="'tf' needs tf2_msgs"):
        node.configure()
