"""The pose estimator and the simulated camera, each alone with a test that plays its counterparts,
and both in the loop."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import rclpy
from geometry_msgs.msg import PoseWithCovarianceStamped
from harness import wait_until
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.parameter import Parameter
from sensor_msgs.msg import CameraInfo, Image, JointState

pytest.importorskip("cv2")
pytest.importorskip("pupil_apriltags")

from dexstack.graph.modes import MODES
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.nodes.camera import CameraNode
from dexstack.nodes.images import camera_message, image_message, read_camera, read_image
from dexstack.nodes.pose_estimator import PoseEstimatorNode
from dexstack.nodes.wire import COMMAND, RECENT, SENSOR, WORLD, fill_pose, seconds, set_stamp
from dexstack.perception.bundle import base_bundle, object_bundle
from dexstack.perception.camera_params import MOUNT, SimulatedCameraParams
from dexstack.perception.se3 import Transform, difference
from dexstack.perception.simulated import SimulatedCamera

HAND, CUBE = load_hand(), load_object("cube")
START = CUBE.start("allegro").pose_WO


@pytest.fixture(scope="module")
def picture() -> np.ndarray:
    camera = SimulatedCamera(
        HAND, CUBE, object_bundle("cube"), SimulatedCameraParams(), MOUNT, base=base_bundle()
    )
    return camera.picture(HAND.home, START)


class Bench:
    """One node under test and a peer that talks to it."""

    def __init__(self, make, **parameters) -> None:
        self.node = make()
        for name, value in parameters.items():
            assert self.node.set_parameters([Parameter(name, value=value)])[0].successful, name
        self.peer = rclpy.create_node("peer")
        self.poses: list[PoseWithCovarianceStamped] = []
        self.images: list[Image] = []
        self.infos: list[CameraInfo] = []
        self.peer.create_subscription(PoseWithCovarianceStamped, "object_pose", self.poses.append, RECENT)
        for topic, kind, kept in (("image_raw", Image, self.images), ("camera_info", CameraInfo, self.infos)):
            if make is CameraNode:
                self.peer.create_subscription(kind, f"camera/color/{topic}", kept.append, COMMAND)
        self.to_image = self.peer.create_publisher(Image, "camera/color/image_raw", COMMAND)
        self.to_info = self.peer.create_publisher(CameraInfo, "camera/color/camera_info", COMMAND)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self._executor.add_node(self.peer)
        self._thread = threading.Thread(target=self._spin)
        self._thread.start()
        assert self.node.autostart()

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            self._executor.spin()

    def trouble(self) -> str:
        level, text, _ = self.node.status()
        return text if level != b"\x00" else ""

    def close(self) -> None:
        self.node.stop_worker()
        self._executor.shutdown()
        self._thread.join()
        self.node.destroy_node()
        self.peer.destroy_node()


@pytest.fixture
def bench(domain) -> Iterator:
    rclpy.init(domain_id=domain)
    made: list[Bench] = []

    def make(*args, **parameters) -> Bench:
        made.append(Bench(*args, **parameters))
        return made[-1]

    yield make
    for b in made:
        b.close()
    rclpy.try_shutdown()


CAMERA = SimulatedCameraParams().camera


def send(b: Bench, t: float, rgb: np.ndarray, info: bool = True) -> Image:
    message = image_message(CameraInfo().header.stamp, rgb)
    set_stamp(message.header.stamp, t)
    if info:
        b.to_info.publish(camera_message(message.header.stamp, CAMERA))
    b.to_image.publish(message)
    return message


def pose_at(b: Bench, t: float, rgb: np.ndarray, timeout: float = 20.0) -> PoseWithCovarianceStamped:
    """Show a picture, again and again until it is heard: a new subscription needs a moment."""
    for k in range(round(timeout / 0.2)):
        send(b, t + 1e-4 * k, rgb)
        for _ in range(10):
            if b.poses:
                return b.poses[-1]
            time.sleep(0.02)
    pytest.fail(f"no pose in {timeout:g} s: {b.trouble()}")


def test_a_picture_becomes_a_pose_with_its_stamp_frame_and_covariance(bench, picture):
    b = bench(PoseEstimatorNode, reliable=True, frozen_after=1e5)
    pose_at(b, 12.0, picture)
    sent = send(b, 13.123456789, picture)
    wait_until(lambda: b.poses[-1].header.stamp == sent.header.stamp, 10, "the pose of this very picture")
    message = b.poses[-1]
    assert message.header.frame_id == WORLD
    p, q = message.pose.pose.position, message.pose.pose.orientation
    X = Transform.of_pose([p.x, p.y, p.z, q.w, q.x, q.y, q.z])
    error = difference(X, Transform.of_pose(START))
    P = np.array(message.pose.covariance).reshape(6, 6)
    assert np.allclose(P, P.T) and np.linalg.eigvalsh(P).min() > 0
    assert error @ np.linalg.solve(P, error) < 22.5, "99.9 % of a χ² with 6 degrees of freedom"
    assert np.linalg.norm(error[:3]) < 1e-3 and np.linalg.norm(error[3:]) < np.radians(1.0)
    assert b.trouble() == "" and b.node.status()[2]["pictures"] >= 2


def test_what_is_missing_is_said_and_no_pose_is_invented(bench, picture):
    b = bench(PoseEstimatorNode, reliable=True, image_timeout=2.0, coast=0.1, frozen_after=1e5)
    said: list[str] = []
    logger = b.node.get_logger()
    b.node.get_logger = lambda: type(
        "L", (), {"warning": said.append, "info": said.append, "fatal": logger.fatal}
    )()
    wait_until(
        lambda: b.trouble() == "no pictures on /camera/color/image_raw", 10, "the report of missing pictures"
    )

    def shown(text: str, show) -> None:
        for _ in range(100):
            show()
            time.sleep(0.05)
            if text in b.trouble():
                return
        pytest.fail(f"'{text}' is not said but '{b.trouble()}'")

    t = iter(np.arange(1.0, 1000.0, 0.01))
    shown("no camera_info", lambda: send(b, next(t), picture, info=False))
    zero = camera_message(Image().header.stamp, CAMERA)
    zero.k = np.zeros(9)
    shown("all zero", lambda: (b.to_info.publish(zero), send(b, next(t), picture, info=False)))
    shown("the camera_info is for 640 x 480", lambda: send(b, next(t), np.ascontiguousarray(picture[:240])))
    assert not b.poses, "a pose from pictures that cannot be used"
    pose_at(b, 2000.0, picture)
    wait_until(lambda: b.trouble() == "", 5, "everything to be well")
    empty = np.full_like(picture, 90)
    for k in range(30):
        send(b, 2010.0 + 0.05 * k, empty)
        time.sleep(0.02)
    wait_until(lambda: "no tag of the object 'cube' is in view" in b.trouble(), 5, "the report of lost tags")
    count = len(b.poses)
    send(b, 2020.0, empty)
    time.sleep(0.2)
    assert len(b.poses) == count
    broken = image_message(Image().header.stamp, picture)
    broken.data = array("B", bytes(10))
    for _ in range(5):
        b.to_image.publish(broken)
        time.sleep(0.02)
    wait_until(lambda: b.node.dropped["camera/color/image_raw"], 5, "a broken picture to be counted")
    for text in ("no camera_info", "all zero", "no tag of the object"):
        assert sum(text in line for line in said) == 1, f"'{text}' is said once"


def test_the_same_picture_with_new_stamps_is_no_sight_of_anything(bench, picture):
    b = bench(PoseEstimatorNode, reliable=True)
    pose_at(b, 12.0, picture)
    wait_until(
        lambda: send(b, 13.0 + time.monotonic() % 1e3, picture) and "same picture again" in b.trouble(),
        10,
        "the report of it",
    )
    count = len(b.poses)
    for k in range(5):
        send(b, 2000.0 + 0.05 * k, picture)
        time.sleep(0.02)
    other = picture.copy()
    other[0, 0] ^= 255
    wait_until(
        lambda: send(b, 2001.0 + time.monotonic() % 1e3, other) and len(b.poses) > count,
        10,
        "a pose from another picture",
    )
    assert not [p for p in b.poses[count:] if 2000.2 < seconds(p.header.stamp) < 2001.0]


def test_messages_keep_what_they_carry(picture):
    message = image_message(Image().header.stamp, picture)
    assert (message.width, message.height, message.encoding, message.step) == (640, 480, "rgb8", 1920)
    assert bytes(message.data) == picture.tobytes()
    assert read_image(message).grey.shape == (480, 640)
    back = read_camera(camera_message(message.header.stamp, CAMERA))
    assert back.document() == CAMERA.document()


def test_the_camera_shows_the_moment_of_its_stamp(bench):
    """A cube that moves at 0.1 m/s is seen where it was at the middle of the exposure."""
    b = bench(CameraNode, frame_rate=10.0, pixel_noise=0.0)
    to_pose = b.peer.create_publisher(PoseWithCovarianceStamped, "object_pose_truth", SENSOR)
    to_joints = b.peer.create_publisher(JointState, "joint_states", SENSOR)
    joints = JointState(name=list(HAND.joint_names), position=HAND.home.tolist())
    truth = PoseWithCovarianceStamped()
    truth.header.frame_id = WORLD
    speed, zero = 0.1, time.monotonic()

    def pose(t: float) -> np.ndarray:
        return START + np.array([speed * ((t + 0.1) % 0.2 - 0.1), 0, 0, 0, 0, 0, 0])

    sent = []
    while len(b.images) < 30 and time.monotonic() - zero < 60.0:
        t = time.monotonic() - zero
        sent.append(t)
        for message in (truth, joints):
            set_stamp(message.header.stamp, t)
        fill_pose(truth.pose.pose, pose(t))
        to_pose.publish(truth)
        to_joints.publish(joints)
        time.sleep(0.003)
    assert len(b.images) >= 30 and b.infos
    images = list(b.images)  # more may come
    stamps = np.array([seconds(m.header.stamp) for m in images])
    steps = np.diff(stamps) / 0.1
    steps = steps[steps < 3.5]  # after a pause of the machine it starts anew
    assert len(steps) > 5 and np.abs(steps - np.round(steps)).max() < 1e-3 and steps.min() > 0.5, (
        "a frame every tenth of a second, or left out"
    )
    estimator = SimulatedCamera(
        HAND, CUBE, object_bundle("cube"), SimulatedCameraParams(pixel_noise=0.0), MOUNT, base=base_bundle()
    )
    checked = 0
    for message, t in zip(images, stamps, strict=True):
        if abs((t + 0.1) % 0.2 - 0.1) > 0.08:  # where the cube jumps back
            continue
        k = np.searchsorted(sent, t)
        if (
            k == len(sent) or sent[k] - sent[k - 1] > 0.01
        ):  # a pause of the machine: nobody said where the cube was
            continue
        seen = np.frombuffer(message.data, np.uint8).reshape(480, 640, 3).astype(int)
        here, there = (np.abs(seen - estimator.picture(HAND.home, pose(x))).mean() for x in (t, t - 0.015))
        assert here < 0.5 * there
        checked += 1
    assert checked >= 5


def test_a_faulty_camera_is_late_of_another_time_or_frozen(bench):
    b = bench(CameraNode, image_jitter=0.0, further_delay=0.3)
    to_pose = b.peer.create_publisher(PoseWithCovarianceStamped, "object_pose_truth", SENSOR)
    to_joints = b.peer.create_publisher(JointState, "joint_states", SENSOR)
    joints, truth = (
        JointState(name=list(HAND.joint_names), position=HAND.home.tolist()),
        PoseWithCovarianceStamped(),
    )
    fill_pose(truth.pose.pose, START)
    ages, t = [], 0.0

    def live(count: int) -> list[Image]:
        """The next pictures, and how old they are when they come."""
        nonlocal t
        first, end = len(b.images), time.monotonic() + 30.0
        while len(b.images) < first + count and time.monotonic() < end:
            known, t = len(b.images), t + 0.005
            for message, to in ((truth, to_pose), (joints, to_joints)):
                set_stamp(message.header.stamp, t)
                to.publish(message)
            time.sleep(0.005)
            ages.extend(t - seconds(m.header.stamp) for m in b.images[known:])
        return b.images[first:]

    def change(name: str, value: float | bool) -> None:
        assert b.node.set_parameters([Parameter(name, value=value)])[0].successful

    assert live(6) and min(ages) > 0.33
    assert np.median(np.diff([seconds(m.header.stamp) for m in b.images])) < 0.2, "late, not rare"
    change("further_delay", 0.0)
    change("clock_offset", 1.0)
    live(12)
    assert max(ages[-2:]) < -0.5
    change("frozen_picture", True)
    same = [bytes(m.data) for m in live(4)[-3:]]
    assert same[0] == same[1] == same[2] != bytes(b.images[0].data)


def test_the_graph_asks_for_eyes_only_when_the_pose_comes_from_pictures():
    for mode in ("sim", "mock"):
        names = [n.name for n in MODES[mode].describe({"perception": "camera"})]
        assert {"camera", "pose_estimator"} < set(names)
        nodes = {n.name: n for n in MODES[mode].describe({"perception": "camera", "seed": 3})}
        assert (
            nodes["simulator"].parameters["pose_topic"] == "object_pose_truth"
            and nodes["camera"].parameters["seed"] == 3
        )
        assert "camera" not in {n.name for n in MODES[mode].describe({})}
    from dexstack.errors import ConfigError

    with pytest.raises(ConfigError, match="'calibration' must name the file"):
        MODES["hardware"].describe({"perception": "camera"})
    eyes = next(
        n
        for n in MODES["hardware"].describe({"perception": "camera", "calibration": "m.yaml"})
        if n.name == "pose_estimator"
    )
    assert eyes.parameters["source"] == "realsense" and Path(eyes.parameters["calibration"]).is_absolute()


@pytest.mark.slow
def test_a_small_turn_is_reached_through_pixels(start):
    """Slower than real time, so that a busy machine draws the pictures that simulated time asks
    for."""
    run = start("--perception", "camera", "--goal-yaw", "20", "--real-time-factor", "0.4", "--json", "-")
    assert run.process.wait(180) == 0, run.err
    results = json.loads(run.out)["results"]
    assert results["reached"] and results["restarts"] == {}
    assert results["true_orientation_error_rad"] < 0.15 and results["estimate_error_m"]["p50"] < 1e-3
    with np.load(run.results / "recording.npz") as data:
        assert np.isfinite(data["truth_WO"]).any(axis=1).mean() > 0.9
        assert 1 / 31 < np.median(np.diff(data["t"])) < 1 / 15


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch):
    import importlib.util

    from dexstack.cli.main import main
    from dexstack.errors import ConfigError

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "pupil_apriltags" else find(name, *a)
    )
    with pytest.raises(ConfigError, match=r"need pupil-apriltags; pip install .*\[ros,camera\]"):
        MODES["sim"].describe({"perception": "camera"})
    MODES["sim"].describe({})
    assert main(["bench", "pose-estimator"]) == main(["calibrate", "sheet"]) == 2
