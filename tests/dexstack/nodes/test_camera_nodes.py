"""Pose estimator and simulated camera: each alone with a peer, with a foreign driver, and in a run."""

import importlib.util
import itertools
import json
import time
from array import array
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from geometry_msgs.msg import PoseWithCovarianceStamped, TransformStamped
from harness import HAND, Pair, joint_state, pose_message, put, spinning, wait_until
from rclpy.qos import QoSProfile
from sensor_msgs.msg import CameraInfo, Image, JointState

pytest.importorskip("cv2")
pytest.importorskip("pupil_apriltags")

from dexstack.cli.main import main
from dexstack.errors import ConfigError
from dexstack.graph.modes import MODES
from dexstack.model.frames import Frame
from dexstack.model.objects import load_object
from dexstack.nodes import pose_estimator
from dexstack.nodes.camera import CameraNode
from dexstack.nodes.frames import FrameBuffer
from dexstack.nodes.images import OPTICAL_FRAME, camera_message, image_message
from dexstack.nodes.pose_estimator import PoseEstimatorNode
from dexstack.nodes.tf import tf_message, transforms
from dexstack.nodes.wire import (
    COMMAND,
    LATCHED,
    RECENT,
    SENSOR,
    WORLD,
    read_pose,
    seconds,
    set_stamp,
)
from dexstack.perception.bundle import base_bundle, object_bundle
from dexstack.perception.camera_params import MOUNT, SimulatedCameraParams
from dexstack.perception.se3 import Transform, difference, exp
from dexstack.perception.simulated import SimulatedCamera

CUBE = load_object("cube")
START = CUBE.start("allegro").pose_WO
CAMERA = SimulatedCameraParams().camera
OPTICAL = "eye_color_optical_frame"
"""Frame of a foreign driver's pictures."""
OWN = {"step": 1e-4, "frame": OPTICAL_FRAME}


@pytest.fixture(scope="module")
def picture() -> np.ndarray:
    camera = SimulatedCamera(
        HAND, CUBE, object_bundle("cube"), SimulatedCameraParams(), MOUNT, base=base_bundle()
    )
    return camera.picture(HAND.home, START)


class Bench:
    """A node under test and its peer."""

    def __init__(self, pair: Pair) -> None:
        self.node, self.peer = node, peer = pair
        self.t = 0.0
        assert node.autostart()
        self.poses: list[PoseWithCovarianceStamped] = []
        self.images: list[Image] = []
        peer.create_subscription(PoseWithCovarianceStamped, "object_pose", self.poses.append, RECENT)
        if isinstance(node, CameraNode):
            peer.create_subscription(Image, "camera/color/image_raw", self.images.append, COMMAND)
        self.to_image = peer.create_publisher(Image, "camera/color/image_raw", COMMAND)
        self.to_info = peer.create_publisher(CameraInfo, "camera/color/camera_info", COMMAND)
        self.to_truth = peer.create_publisher(PoseWithCovarianceStamped, "object_pose_truth", SENSOR)
        self.to_joints = peer.create_publisher(JointState, "joint_states", SENSOR)

    def trouble(self) -> str:
        level, text, _ = self.node.status()
        return text if level != b"\x00" else ""

    def tell(self, t: float, pose_WO: np.ndarray) -> None:
        """Publish the true pose and the joint angles."""
        self.to_truth.publish(pose_message(pose_WO, t))
        self.to_joints.publish(joint_state(t, position=HAND.home))

    def send(self, t: float, rgb: np.ndarray, info: bool = True, frame: str = OPTICAL_FRAME) -> Image:
        message = image_message(CameraInfo().header.stamp, rgb, frame)
        set_stamp(message.header.stamp, t)
        if info:
            self.to_info.publish(camera_message(message.header.stamp, CAMERA))
        self.to_image.publish(message)
        return message

    def show(self, rgb: np.ndarray, what: str, condition=None, *, t=0.15, step=0.03, frame=OPTICAL) -> None:
        """Send a picture repeatedly, with stamps from ``t`` on, until the condition holds: by default,
        until there is a pose."""
        stamps, found = itertools.count(t, step), condition or (lambda: self.poses)
        wait_until(lambda: self.send(next(stamps), rgb, frame=frame) and found(), 60, what)


@pytest.fixture
def bench(pair) -> Callable[..., Bench]:
    own = {PoseEstimatorNode: {"realtime_priority": 0}}  # the process is that of all tests
    return lambda kind, **parameters: Bench(pair(kind, **own.get(kind, {}), **parameters))


def pose_error(message: PoseWithCovarianceStamped) -> np.ndarray:
    return difference(Transform.of_pose(read_pose(message).pose), Transform.of_pose(START))


def test_a_picture_becomes_a_pose_with_its_stamp_frame_and_covariance(bench, picture):
    b = bench(PoseEstimatorNode, reliable=True, frozen_after=1e5)
    b.show(picture, "a pose", t=12.0, **OWN)
    sent = b.send(13.123456789, picture)
    wait_until(lambda: b.poses[-1].header.stamp == sent.header.stamp, 10, "the pose of this picture")
    message = b.poses[-1]
    assert message.header.frame_id == WORLD
    error = pose_error(message)
    P = np.array(message.pose.covariance).reshape(6, 6)
    assert np.allclose(P, P.T) and np.linalg.eigvalsh(P).min() > 0
    assert error @ np.linalg.solve(P, error) < 22.5, "99.9 % of a χ² with 6 degrees of freedom"
    assert np.linalg.norm(error[:3]) < 1e-3 and np.linalg.norm(error[3:]) < np.radians(1.0)
    assert b.trouble() == "" and b.node.status()[2]["pictures"] >= 2


def test_missing_inputs_are_reported_once_and_yield_no_pose(bench, picture, monkeypatch):
    b = bench(PoseEstimatorNode, reliable=True, image_timeout=2.0, coast=0.1, frozen_after=1e5)
    said: list[str] = []
    logger = SimpleNamespace(warning=said.append, info=said.append, fatal=b.node.get_logger().fatal)
    monkeypatch.setattr(b.node, "get_logger", lambda: logger)
    wait_until(
        lambda: b.trouble() == "no pictures on /camera/color/image_raw", 10, "the report of missing pictures"
    )

    def shown(text: str, show) -> None:
        wait_until(lambda: (show(), text in b.trouble())[1], 10, f"'{text}'")

    t = iter(np.arange(1.0, 1000.0, 0.01))
    shown("without camera_info", lambda: b.send(next(t), picture, info=False))
    zero = camera_message(Image().header.stamp, CAMERA)
    zero.k = np.zeros(9)
    shown("all zero", lambda: (b.to_info.publish(zero), b.send(next(t), picture, info=False)))
    shown("the camera_info is for 640 x 480", lambda: b.send(next(t), np.ascontiguousarray(picture[:240])))
    assert not b.poses, "no pose from unusable pictures"
    b.show(picture, "a pose", t=2000.0, **OWN)
    wait_until(lambda: b.trouble() == "", 5, "everything to be well")
    empty = np.full_like(picture, 90)
    lost = lambda: "no tag of the object 'cube' is in view" in b.trouble()  # noqa: E731
    b.show(empty, "lost tags", lost, t=2010.0, frame=OPTICAL_FRAME)
    count = len(b.poses)
    b.send(2080.0, empty)
    time.sleep(0.2)
    assert len(b.poses) == count
    broken = image_message(Image().header.stamp, picture)
    broken.data = array("B", bytes(10))
    wait_until(
        lambda: b.to_image.publish(broken) or b.node.dropped["camera/color/image_raw"], 5, "it to be counted"
    )
    for text in ("without camera_info", "all zero", "no tag of the object"):
        assert sum(text in line for line in said) == 1, f"'{text}' is logged once"


def live(b: Bench, count: int, pose: Callable[[float], np.ndarray] = lambda t: START) -> list[float]:
    """Give the camera a state every 5 ms until it has sent ``count`` more pictures; return their ages on
    arrival [s]."""
    ages: list[float] = []
    end = time.monotonic() + 30.0
    while len(ages) < count and time.monotonic() < end:
        known, b.t = len(b.images), b.t + 0.005
        b.tell(b.t, pose(b.t))
        time.sleep(0.005)
        ages += [b.t - seconds(m.header.stamp) for m in b.images[known:]]
    return ages


def test_a_picture_shows_the_time_of_its_stamp(bench):
    """A cube that moves at 0.1 m/s appears where it was at the middle of the exposure."""
    b = bench(CameraNode, frame_rate=10.0, pixel_noise=0.0)
    since_start = lambda t: (t + 0.1) % 0.2 - 0.1  # noqa: E731
    pose = lambda t: START + np.array([0.1 * since_start(t), 0, 0, 0, 0, 0, 0])  # noqa: E731
    live(b, 15, pose)
    stamps = np.array([seconds(m.header.stamp) for m in b.images])
    steps = np.diff(stamps) / 0.1
    assert len(steps) > 5 and np.abs(steps - np.round(steps)).max() < 1e-3 and steps.min() > 0.5
    params = SimulatedCameraParams(pixel_noise=0.0)
    camera = SimulatedCamera(HAND, CUBE, object_bundle("cube"), params, MOUNT, base=base_bundle())
    smooth = [k for k, t in enumerate(stamps) if abs(since_start(t)) < 0.08]  # not where the cube jumps back
    assert len(smooth) >= 5
    for k in smooth:
        seen = np.frombuffer(b.images[k].data, np.uint8).reshape(480, 640, 3).astype(int)
        times = stamps[k], stamps[k] - 0.015
        here, before = (np.abs(seen - camera.picture(HAND.home, pose(t))).mean() for t in times)
        assert here < 0.5 * before


def test_camera_faults_delay_shift_or_freeze_pictures(bench):
    b = bench(CameraNode, image_jitter=0.0, further_delay=0.3)
    assert min(live(b, 6)) > 0.33
    assert np.median(np.diff([seconds(m.header.stamp) for m in b.images])) < 0.2, "late, not rare"
    put(b.node, further_delay=0.0, clock_offset=1.0)
    assert max(live(b, 12)[-2:]) < -0.5
    put(b.node, frozen_picture=True)
    live(b, 4)
    first, *_, third, second, last = (bytes(m.data) for m in b.images)
    assert third == second == last != first


@pytest.mark.slow
def test_a_small_turn_is_reached_through_pixels(start):
    """Slower than real time, so that a busy machine renders enough pictures."""
    run = start("--perception", "camera", "--goal-yaw", "20", "--real-time-factor", "0.4", "--json", "-")
    assert run.wait(180) == 0, run.err
    results = json.loads(run.out)["results"]
    assert results["reached"] and results["restarts"] == {}
    assert results["true_orientation_error_rad"] < 0.15 and results["estimate_error_m"]["p50"] < 1e-3
    with np.load(run.folder / "recording.npz") as data:
        assert np.isfinite(data["truth_WO"]).any(axis=1).mean() > 0.9
        assert 1 / 31 < np.median(np.diff(data["t"])) < 1 / 15


def test_a_missing_library_is_one_sentence_with_the_command(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "pupil_apriltags" else find(name, *a)
    )
    with pytest.raises(ConfigError, match=r"need pupil-apriltags; pip install .*\[ros,camera\]"):
        MODES["sim"].describe({"perception": "camera"})
    MODES["sim"].describe({})
    assert main(["bench", "pose-estimator"]) == main(["calibrate", "sheet"]) == 2


# --- a foreign driver ----------------------------------------------------------------------------

X_LC = Transform.of_pose([0.015, 0.001, 0.002, 0.5, -0.5, 0.5, -0.5])
"""Pose of the optical frame in the camera's link."""


def frame(parent: str, name: str, X: Transform) -> Frame:
    return Frame(parent, name, X.p, X.pose[3:])


@pytest.fixture
def frames_on_tf(monkeypatch):
    """Stand-ins for TFMessage, which is not on PyPI: one frame a message."""
    note = FrameBuffer.note
    monkeypatch.setattr(pose_estimator, "tf_message", lambda: TransformStamped)
    monkeypatch.setattr(pose_estimator, "frames_message", lambda kind, t, frames: transforms(t, frames)[0])

    def note_one(self, one, **how):
        note(self, SimpleNamespace(transforms=[one]), **how)

    monkeypatch.setattr(FrameBuffer, "note", note_one)


def tell(b: Bench, *frames: Frame) -> None:
    latched = QoSProfile(depth=10, durability=LATCHED.durability)
    to_static = b.peer.create_publisher(TransformStamped, "/tf_static", latched)
    for message in transforms(0.0, frames):
        to_static.publish(message)


def test_extrinsics_come_from_tf_and_missing_frames_are_reported(bench, frames_on_tf, picture):
    b = bench(PoseEstimatorNode, calibration="tf", reliable=True, frozen_after=1e5)
    b.show(picture, "why", lambda: f"to the pictures' frame '{OPTICAL}' on /tf_static" in b.trouble())
    assert "it has no parent" in b.trouble() and not b.poses
    tell(b, frame("eye_link", OPTICAL, X_LC))
    b.show(picture, "the next sentence", lambda: "its frames end at 'eye_link'" in b.trouble())
    tell(b, frame("world", "eye_link", MOUNT.compose(X_LC.inverse)))
    b.show(picture, "a pose without a warning", lambda: b.poses and not b.trouble())
    assert np.abs(pose_error(b.poses[-1])).max() < 0.02
    moved = Transform(MOUNT.R, MOUNT.p + np.array([0.1, 0.0, 0.0]))
    tell(b, frame("world", "eye_link", moved.compose(X_LC.inverse)))
    b.show(picture, "the moved camera", lambda: abs(pose_error(b.poses[-1])[0] - 0.1) < 0.01)


def test_a_calibrated_camera_is_attached_to_the_world_by_its_topmost_frame(bench, frames_on_tf, picture):
    b, seen = bench(PoseEstimatorNode, reliable=True, frozen_after=1e5), []
    b.peer.create_subscription(TransformStamped, "/tf_static", seen.append, LATCHED)
    tell(b, frame("eye_link", OPTICAL, X_LC))
    b.show(picture, "the frame", lambda: b.poses and [m for m in seen if m.header.frame_id == "world"])
    frames = FrameBuffer()
    for message in seen:
        frames.note(message, fixed=True)
    root, X_WC = frames.root(OPTICAL)
    assert root == "world" and np.abs(difference(X_WC, MOUNT)).max() < 1e-5
    assert np.abs(pose_error(b.poses[-1])).max() < 0.02


def test_a_displaced_camera_is_corrected_by_the_plate_and_said_once(
    bench, frames_on_tf, picture, monkeypatch
):
    """The mount in use is 2 degrees off; the pose of the camera's frame on /tf_static follows."""
    wrong = Transform(exp(np.array([0.0, np.radians(2.0), 0.0])) @ MOUNT.R, MOUNT.p)
    mount = {"camera_position": wrong.pose[:3].tolist(), "camera_quaternion": wrong.pose[3:].tolist()}
    b, seen = bench(PoseEstimatorNode, reliable=True, frozen_after=1e5, mount_watch_interval=0.1, **mount), []
    b.peer.create_subscription(TransformStamped, "/tf_static", seen.append, LATCHED)
    said: list[str] = []
    logger = SimpleNamespace(warning=said.append, info=said.append, fatal=b.node.get_logger().fatal)
    monkeypatch.setattr(b.node, "get_logger", lambda: logger)
    tell(b, frame("eye_link", OPTICAL, X_LC))
    b.show(picture, "a correction", lambda: b.node.status()[2].get("mount") == "corrected")
    count = len(b.poses)
    b.show(picture, "a pose after it", lambda: len(b.poses) > count + 2, t=1000.0)
    assert np.linalg.norm(pose_error(b.poses[-1])[:3]) < 2e-3 and b.trouble() == ""
    assert sum("its mount is corrected" in line for line in said) == 1

    def placed() -> Transform:
        frames = FrameBuffer()
        for message in seen:
            frames.note(message, fixed=True)
        return frames.root(OPTICAL)[1]

    b.show(picture, "the frame", lambda: seen and np.abs(difference(placed(), MOUNT)).max() < 5e-3, t=2000.0)


@pytest.mark.skipif(tf_message() is not None, reason="tf2_msgs is installed")
def test_tf_without_tf2_msgs_is_one_sentence(domain):
    with spinning(domain, PoseEstimatorNode) as (node,):
        put(node, calibration="tf")
        with pytest.raises(ConfigError, match="'tf' needs tf2_msgs"):
            node.configure()
