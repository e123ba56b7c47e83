"""Colour frames of a RealSense camera through pyrealsense2, in a thread of their own.

The thread opens the camera, and opens it again whenever it goes away: unplugging it ends nothing.
It speaks to the colour *sensor* rather than to a pipeline, because that is what a
``software_device`` has too: what runs in a test is what runs with a camera.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dexstack.errors import ConfigError
from dexstack.perception.camera import CameraModel
from dexstack.perception.clock import DeviceClock
from dexstack.perception.camera_params import RealSenseParams

RETRY = 1.0
"""Wait before the camera is looked for again [s]."""
SILENCE = 2.0
"""A camera that sends nothing for so long is opened again [s]."""
_BROWN = ("brown_conrady", "modified_brown_conrady", "inverse_brown_conrady")


class Frame(NamedTuple):
    """One colour frame."""

    t: float
    """When it was taken, on the system's clock [s]."""
    data: np.ndarray
    """Bytes, row by row."""
    width: int
    height: int
    encoding: str
    """As :data:`dexstack.perception.images.ENCODINGS` has it."""
    camera: CameraModel


def import_realsense() -> Any:
    """The module pyrealsense2.

    Raises:
        ConfigError: it cannot be imported.
    """
    try:
        import pyrealsense2
    except ImportError as error:
        if "libusb" not in str(error):
            raise ConfigError(
                f"RealSense cameras need pyrealsense2 ({error}); pip install -c constraints.txt -e '.[realsense]'"
            ) from None
        _load_libusb(error)
        import pyrealsense2
    return pyrealsense2


def _load_libusb(reason: ImportError) -> None:
    """The wheel wants the system's libusb; the one of the package libusb-package does as well."""
    import ctypes

    try:
        import libusb_package

        ctypes.CDLL(str(libusb_package.get_library_path()), mode=ctypes.RTLD_GLOBAL)
    except (ImportError, OSError):
        raise ConfigError(
            f"pyrealsense2 cannot be loaded ({reason}); sudo apt install libusb-1.0-0"
        ) from None


def camera_of(rs: Any, intrinsics: Any) -> CameraModel:
    """Intrinsics as the camera has them.

    Raises:
        ConfigError: a distortion that OpenCV's model cannot stand for.
    """
    d = [float(x) for x in intrinsics.coeffs]
    known = {getattr(rs.distortion, name) for name in _BROWN[:2]}
    if any(d) and intrinsics.model not in known:
        raise ConfigError(
            f"the camera's distortion model {intrinsics.model} with coefficients {d} is not known; calibrate it as plumb_bob"
        )
    K = [intrinsics.fx, 0.0, intrinsics.ppx, 0.0, intrinsics.fy, intrinsics.ppy, 0.0, 0.0, 1.0]
    return CameraModel.of_info(intrinsics.width, intrinsics.height, "plumb_bob", d, K)


class RealSenseCamera:
    """The newest frame of one camera.

    Args:
        find: returns the device, or None while there is none; default: the first one connected, or
            the one with the serial number.
    """

    def __init__(self, params: RealSenseParams, find: Callable[[], Any] | None = None) -> None:
        self._rs = import_realsense()
        self._params = params
        self._find = find or self._find_connected
        self._newest: Frame | None = None
        self._ready = threading.Condition()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.trouble = "not started"
        """Why there are no frames, one clause; empty while there are."""
        self.openings = 0
        """How often a camera was opened."""
        self._formats = {
            self._rs.format.rgb8: "rgb8",
            self._rs.format.bgr8: "bgr8",
            self._rs.format.yuyv: "yuyv",
            self._rs.format.y8: "mono8",
        }

    def start(self) -> None:
        """Begin to look for the camera."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="realsense")
        self._thread.start()

    def stop(self) -> None:
        """Close the camera and join the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def take(self, timeout: float) -> Frame | None:
        """The newest frame since the last call, waited for at most ``timeout`` [s]."""
        with self._ready:
            if self._newest is None:
                self._ready.wait(timeout)
            frame, self._newest = self._newest, None
            return frame

    # --- the thread -------------------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                device = self._find()
                if device is None:
                    self.trouble = (
                        "no RealSense camera is connected"
                        if not self._params.serial
                        else f"no RealSense {self._params.serial} is connected"
                    )
                else:
                    self._serve(device)
            except ConfigError as error:
                self.trouble = str(error)
            except RuntimeError as error:  # what pyrealsense2 raises when a device goes away
                self.trouble = f"the camera failed: {' '.join(str(error).split())}"
            self._stop.wait(RETRY)

    def _find_connected(self) -> Any:
        for device in self._rs.context().query_devices():
            if self._params.serial in ("", device.get_info(self._rs.camera_info.serial_number)):
                return device
        return None

    def _serve(self, device: Any) -> None:
        """Frames of one opened camera until it goes away."""
        sensor, profile = self._profile(device)
        camera = camera_of(self._rs, profile.as_video_stream_profile().get_intrinsics())
        encoding = self._formats[profile.format()]
        self._set_exposure(sensor)
        frames = self._rs.frame_queue(2)
        sensor.open(profile)
        try:
            sensor.start(frames)
            try:
                self.openings += 1
                self._pump(frames, camera, encoding)
            finally:
                sensor.stop()
        finally:
            sensor.close()

    def _pump(self, frames: Any, camera: CameraModel, encoding: str) -> None:
        heard = time.monotonic()
        clock = DeviceClock(least_delay=self._params.least_delay)
        while not self._stop.is_set():
            got, frame = frames.try_wait_for_frame(100)
            if not got:
                if time.monotonic() - heard > SILENCE:
                    self.trouble = f"the camera sent no frame for {SILENCE:g} s"
                    return
                continue
            heard = time.monotonic()
            t = 1e-3 * frame.get_timestamp()
            if frame.get_frame_timestamp_domain() == self._rs.timestamp_domain.hardware_clock:
                t = clock.system_time(t)
            picture = frame.as_video_frame()
            data = np.array(np.asanyarray(picture.get_data())).view(np.uint8).ravel()
            newest = Frame(t, data, picture.get_width(), picture.get_height(), encoding, camera)
            self.trouble = ""
            with self._ready:
                self._newest = newest
                self._ready.notify()

    def _profile(self, device: Any) -> tuple[Any, Any]:
        p, rs = self._params, self._rs
        for wanted in self._formats:
            for sensor in device.query_sensors():
                for profile in sensor.get_stream_profiles():
                    if (
                        profile.stream_type() != rs.stream.color
                        or profile.format() != wanted
                        or profile.fps() != p.camera_fps
                    ):
                        continue
                    video = profile.as_video_stream_profile()
                    if (video.width(), video.height()) == (p.camera_width, p.camera_height):
                        return sensor, profile
        raise ConfigError(
            f"the camera has no colour stream of {p.camera_width} x {p.camera_height} at {p.camera_fps} frames per second"
        )

    def _set_exposure(self, sensor: Any) -> None:
        option, p = self._rs.option, self._params
        if sensor.supports(option.enable_auto_exposure):
            sensor.set_option(option.enable_auto_exposure, 0.0 if p.exposure_us else 1.0)
        if p.exposure_us and sensor.supports(option.exposure):
            unit = (
                1.0 if sensor.is_depth_sensor() else 100.0
            )  # colour sensors count in 100 µs, a D405's, which also sees depth, in µs
            units = p.exposure_us / unit
            allowed = sensor.get_option_range(option.exposure)
            if not allowed.min <= units <= allowed.max:
                low, high = unit * allowed.min, unit * allowed.max
                raise ConfigError(
                    f"'exposure_us' must lie in [{low:.0f}, {high:.0f}] for this camera, or be 0, got {p.exposure_us}"
                )
            sensor.set_option(option.exposure, units)
