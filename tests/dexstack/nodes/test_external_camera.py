"""A foreign camera driver: its frame is read, and every frame on /tf_static has one parent."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import rclpy
from geometry_msgs.msg import PoseWithCovarianceStamped, TransformStamped
from harness import put, spinning, wait_until
from rclpy.node import Node
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
"""Pose of the optical frame in the camera's link."""


def frame(parent: str, name: str, X: Transform) -> Frame:
    return Frame(parent, name, X.p, X.pose[3:])


def test_a_chain_of_frames_ends_at_a_frame_without_parent():
    frames = StaticFrames()

    def note(one: Frame) -> None:
        frames.note(SimpleNamespace(transforms=transforms(0.0, [one])))

    assert frames.root(OPTICAL)[0] == OPTICAL
    note(frame("eye_link", OPTICAL, X_LC))
    root, X = frames.root(OPTICAL)
    assert root == "eye_link" and np.abs(difference(X, X_LC)).max() < 1e-9
    note(frame("world", "eye_link", MOUNT.compose(X_LC.inverse)))
    root, X = frames.root(OPTICAL)
    assert root == "world" and np.abs(difference(X, MOUNT)).max() < 1e-9
    note(frame(OPTICAL, "world", X_LC))
    frames.root(OPTICAL)  # a cycle ends, too


class Driver:
    """A camera driver with its own topics, frame and quality of service."""

    def __init__(self, node: Node) -> None:
        self.node = node
        latched = QoSProfile(depth=10, durability=LATCHED.durability)
        self._to_static = node.create_publisher(TransformStamped, "/tf_static", latched)
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

    def tell(self, one: Frame) -> None:
        self._to_static.publish(transforms(0.0, [one])[0])

    def send(self) -> None:
        self._t += 0.03
        image = image_message(CameraInfo().header.stamp, self.picture, OPTICAL)
        set_stamp(image.header.stamp, self._t)
        self.to_info.publish(camera_message(image.header.stamp, self._info, OPTICAL))
        self.to_image.publish(image)


class Eye:
    """The driver, and an estimator that subscribes to its topics."""

    def __init__(self, driver: Driver, estimator: PoseEstimatorNode) -> None:
        self.driver, self.estimator = driver, estimator

    def until(self, condition, what: str) -> None:
        wait_until(lambda: self.driver.send() or condition(), 60, what)


@pytest.fixture
def eye(domain, monkeypatch):
    # Stand-ins for TFMessage, which is not on PyPI: one frame a message.
    note = StaticFrames.note
    monkeypatch.setattr(pose_estimator, "tf_message", lambda: TransformStamped)
    monkeypatch.setattr(pose_estimator, "frames_message", lambda kind, t, frames: transforms(t, frames)[0])
    monkeypatch.setattr(StaticFrames, "note", lambda self, one: note(self, SimpleNamespace(transforms=[one])))
    topics = {"camera/color/image_raw": "/eye/image", "camera/color/camera_info": "/eye/info"}
    arguments = [word for pair in topics.items() for word in ("-r", ":=".join(pair))]
    with spinning(
        domain, lambda: rclpy.create_node("driver"), PoseEstimatorNode, arguments=arguments
    ) as nodes:
        put(nodes[1], reliable=True, frozen_after=1e5)
        yield Eye(Driver(nodes[0]), nodes[1])


def error(message: PoseWithCovarianceStamped) -> np.ndarray:
    p, q = message.pose.pose.position, message.pose.pose.orientation
    return difference(Transform.of_pose([p.x, p.y, p.z, q.w, q.x, q.y, q.z]), Transform.of_pose(START))


def test_extrinsics_come_from_tf_and_missing_frames_are_reported(eye):
    driver, node = eye.driver, eye.estimator
    put(node, calibration="tf")
    assert node.autostart()
    eye.until(lambda: f"no path from 'world' to the pictures' frame '{OPTICAL}'" in node.status()[1], "why")
    assert "it has no parent" in node.status()[1] and not driver.poses
    driver.tell(frame("eye_link", OPTICAL, X_LC))
    eye.until(lambda: "its frames end at 'eye_link'" in node.status()[1], "the next sentence")
    driver.tell(frame("world", "eye_link", MOUNT.compose(X_LC.inverse)))
    eye.until(lambda: driver.poses and node.status()[0] == b"\x00", "a pose without a warning")
    assert np.abs(error(driver.poses[-1])).max() < 0.02
    moved = Transform(MOUNT.R, MOUNT.p + np.array([0.1, 0.0, 0.0]))
    driver.tell(frame("world", "eye_link", moved.compose(X_LC.inverse)))
    eye.until(lambda: abs(error(driver.poses[-1])[0] - 0.1) < 0.01, "the moved camera")


def test_a_calibrated_camera_is_attached_to_the_world_by_its_topmost_frame(eye, monkeypatch):
    monkeypatch.setattr(pose_estimator, "SETTLE", 1.0)
    heard: list[TransformStamped] = []
    eye.driver.node.create_subscription(TransformStamped, "/tf_static", heard.append, LATCHED)
    assert eye.estimator.autostart()
    eye.driver.tell(frame("eye_link", OPTICAL, X_LC))
    eye.until(lambda: eye.driver.poses and [m for m in heard if m.header.frame_id == "world"], "the frame")
    frames = StaticFrames()
    for message in heard:
        frames.note(message)
    root, X_WC = frames.root(OPTICAL)
    assert root == "world" and np.abs(difference(X_WC, MOUNT)).max() < 1e-5
    assert np.abs(error(eye.driver.poses[-1])).max() < 0.02


@pytest.mark.skipif(tf_message() is not None, reason="tf2_msgs is installed")
def test_tf_without_tf2_msgs_is_one_sentence(domain):
    with spinning(domain, PoseEstimatorNode) as (node,):
        put(node, calibration="tf")
        with pytest.raises(ConfigError, match="'tf' needs tf2_msgs"):
            node.configure()
