"""The RealSense camera, with a software device in place of the hardware."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import pytest

from dexstack.errors import ConfigError
from dexstack.perception.camera_params import EstimatorParams, RealSenseParams
from dexstack.perception.estimator import PoseEstimator, Sight
from dexstack.perception.images import to_grey
from dexstack.perception.realsense import RealSenseCamera, camera_of, import_realsense
from dexstack.perception.se3 import Transform, difference
from dexstack.perception.sources import take_realsense
from tests.dexstack.perception.studio import TILTED, Studio

pytest.importorskip("libusb_package")


class FakeRealSense:
    """A colour camera that sends the same picture 30 times per second while it is plugged in."""

    def __init__(self, rgb: np.ndarray, intrinsics: Any) -> None:
        self.rs = rs = import_realsense()
        self._rgb = rgb
        height, width, _ = rgb.shape
        stream = rs.video_stream()
        stream.type, stream.index, stream.uid, stream.fmt = rs.stream.color, 0, 1, rs.format.rgb8
        stream.width, stream.height, stream.fps, stream.bpp = width, height, 30, 3
        stream.intrinsics = intrinsics
        self.device = rs.software_device()
        self.sensor = self.device.add_sensor("Colour")
        self._profile = self.sensor.add_video_stream(stream)
        self.plugged = True
        self.sending = True
        self.times: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def find(self) -> Any:
        return self.device if self.plugged else None

    def _send(self) -> None:
        rs, n = self.rs, 0
        while not self._stop.wait(1 / 30):
            if not (self.plugged and self.sending):
                continue
            frame = rs.software_video_frame()
            frame.pixels = self._rgb
            frame.stride, frame.bpp = 3 * self._rgb.shape[1], 3
            frame.timestamp, frame.domain = 1e3 * time.time(), rs.timestamp_domain.system_time
            frame.frame_number, frame.profile = n, self._profile.as_video_stream_profile()
            n += 1
            try:
                self.sensor.on_video_frame(frame)
                self.times.append(1e-3 * frame.timestamp)
            except RuntimeError:
                continue  # it is not open

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


def intrinsics(studio: Studio, **change: Any) -> Any:
    rs = import_realsense()
    i, c = rs.intrinsics(), studio.camera
    i.width, i.height = c.width, c.height
    i.fx, i.fy, i.ppx, i.ppy = c.K[0, 0], c.K[1, 1], c.K[0, 2], c.K[1, 2]
    i.model, i.coeffs = rs.distortion.inverse_brown_conrady, [0.0] * 5
    for name, value in change.items():
        setattr(i, name, value)
    return i


@pytest.fixture
def fake(studio: Studio) -> Iterator[FakeRealSense]:
    device = FakeRealSense(cv2.cvtColor(studio.grey(TILTED), cv2.COLOR_GRAY2RGB), intrinsics(studio))
    yield device
    device.close()


def test_frames_give_poses_with_the_cameras_stamps(fake, studio):
    camera = RealSenseCamera(RealSenseParams(), fake.find)
    camera.start()
    try:
        frames = [f for _ in range(5) if (f := camera.take(5.0)) is not None]
    finally:
        camera.stop()
    assert len(frames) == 5 and camera.trouble == ""
    assert np.all(np.diff([f.t for f in frames]) > 0)
    assert all(min(abs(f.t - t) for t in fake.times) < 1e-3 for f in frames), (
        "the time of the frame, not of its arrival"
    )
    frame = frames[-1]
    assert np.allclose(frame.camera.K, studio.camera.K) and frame.encoding == "rgb8"
    estimator = PoseEstimator(
        studio.bundle, frame.camera, Transform(np.eye(3), np.zeros(3)), EstimatorParams()
    )
    outcome = estimator.process(frame.t, to_grey(frame.data, frame.width, frame.height, frame.encoding))
    assert outcome.sight is Sight.SEEN
    assert np.linalg.norm(difference(outcome.estimate.X_WO, TILTED)[:3]) < 1e-3


def test_a_camera_is_opened_again_after_it_was_unplugged(fake, monkeypatch):
    monkeypatch.setattr("dexstack.perception.realsense.RETRY", 0.05)
    monkeypatch.setattr("dexstack.perception.realsense.SILENCE", 0.3)
    fake.plugged = False
    camera = RealSenseCamera(RealSenseParams(), fake.find)
    camera.start()
    try:
        assert camera.take(0.3) is None and camera.trouble == "no RealSense camera is connected"
        fake.plugged = True
        assert camera.take(5.0) is not None and camera.openings == 1
        fake.sending = False
        end = time.monotonic() + 60.0
        while not camera.trouble and time.monotonic() < end:
            camera.take(0.1)
        assert "sent no frame" in camera.trouble
        fake.sending = True
        camera.take(0.0)
        assert camera.take(5.0) is not None and camera.openings >= 2 and camera.trouble == ""
    finally:
        camera.stop()


def test_the_exposure_is_set_or_rejected(fake):
    rs = fake.rs
    for option, (low, high, default) in {
        rs.option.exposure: (1, 10000, 156),
        rs.option.enable_auto_exposure: (0, 1, 1),
    }.items():
        allowed = rs.option_range()
        allowed.min, allowed.max, allowed.default, allowed.step = low, high, default, 1
        fake.sensor.add_option(option, allowed, True)

    def said(exposure_us: int) -> str:
        camera = RealSenseCamera(RealSenseParams(exposure_us=exposure_us), fake.find)
        camera.start()
        try:
            for _ in range(50):
                if camera.take(0.1) is not None:
                    return ""
                if camera.trouble:
                    break
            return camera.trouble
        finally:
            camera.stop()

    def options() -> tuple[float, float]:
        return fake.sensor.get_option(rs.option.exposure), fake.sensor.get_option(
            rs.option.enable_auto_exposure
        )

    assert said(8000) == "" and options() == (80.0, 0.0)
    assert said(0) == "" and options()[1] == 1.0, "automatic"
    assert said(50) == "'exposure_us' must lie in [100, 1000000] for this camera, or be 0, got 50"


def test_a_missing_stream_is_the_trouble(fake):
    params = RealSenseParams(camera_width=800, camera_height=600)
    with pytest.raises(ConfigError, match="no colour stream of 800 x 600 at 30"):
        take_realsense(params, 1, 0.0, RealSenseCamera(params, fake.find), patience=2.0)


@pytest.mark.parametrize("name", ["brown_conrady", "modified_brown_conrady", "inverse_brown_conrady"])
def test_brown_conrady_models_are_read_as_plumb_bob(studio, name):
    rs = import_realsense()
    model = getattr(rs.distortion, name)
    bent = camera_of(rs, intrinsics(studio, model=model, coeffs=[0.1, 0.0, 0.0, 0.0, 0.0]))
    assert bent.distortion == pytest.approx([0.1, 0.0, 0.0, 0.0, 0.0])


def test_an_unknown_distortion_model_is_rejected(studio):
    rs = import_realsense()
    with pytest.raises(ConfigError, match="distortion model"):
        camera_of(rs, intrinsics(studio, model=rs.distortion.ftheta, coeffs=[0.1, 0.0, 0.0, 0.0, 0.0]))


def test_calibration_takes_its_pictures_from_the_camera(fake):
    recording = take_realsense(RealSenseParams(), 3, 0.0, RealSenseCamera(RealSenseParams(), fake.find))
    assert len(recording.pictures) == 3 and recording.pictures[0].shape == (480, 640)
