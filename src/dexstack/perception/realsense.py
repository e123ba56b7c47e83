"""Colour frames of a RealSense camera through pyrealsense2, in a separate thread.

The thread opens the camera, and again whenever it was disconnected. It uses the colour *sensor*
instead of a pipeline, because a ``software_device`` has sensors too, so that tests run the same
code.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dexstack.errors import ConfigError
from dexstack.perception.camera import CameraModel
from dexstack.perception.camera_params import RealSenseParams
from dexstack.perception.clock import DeviceClock

RETRY = 1.0
"""Time between attempts to open the camera [s]."""
SILENCE = 2.0
"""Time without frames after which the camera is opened again [s]."""
_BROWN = ("brown_conrady", "modified_brown_conrady", "inverse_brown_conrady")
"""Distortion models that are read as plumb_bob, as realsense-ros publishes them."""


class Frame(NamedTuple):
    """One colour frame."""

    t: float
    """Time of exposure on the system's clock [s]."""
    data: np.ndarray
    """Bytes, row by row."""
    width: int
    height: int
    encoding: str
    """One of :data:`dexstack.perception.images.ENCODINGS`."""
    camera: CameraModel


def import_realsense() -> Any:
    """Import pyrealsense2.

    Raises:
        ConfigError: it cannot be imported.
    """
    try:
        import pyrealsense2
    except ImportError as error:
        if "libusb" not in str(error):
            raise ConfigError(
                f"RealSense cameras need pyrealsense2 ({error}); pip install -c constraints.txt -e "
                "'.[camera]'"
            ) from None
        _load_libusb(error)
        import pyrealsense2
    return pyrealsense2


def _load_libusb(reason: ImportError) -> None:
    """Load the libusb of the package libusb-package, in place of the system's."""
    import ctypes

    try:
        import libusb_package

        ctypes.CDLL(str(libusb_package.get_library_path()), mode=ctypes.RTLD_GLOBAL)
    except (ImportError, OSError):
        raise ConfigError(
            f"pyrealsense2 cannot be loaded ({reason}); sudo apt install libusb-1.0-0"
        ) from None


def camera_of(rs: Any, intrinsics: Any) -> CameraModel:
    """Return the camera's intrinsics.

    Raises:
        ConfigError: a distortion model that OpenCV cannot represent.
    """
    d = [float(x) for x in intrinsics.coeffs]
    if any(d) and intrinsics.model not in {getattr(rs.distortion, name) for name in _BROWN}:
        raise ConfigError(
            f"the camera's distortion model {intrinsics.model} with coefficients {d} is not known; "
            "calibrate it as plumb_bob"
        )
    K = [intrinsics.fx, 0.0, intrinsics.ppx, 0.0, intrinsics.fy, intrinsics.ppy, 0.0, 0.0, 1.0]
    return CameraModel.of_info(intrinsics.width, intrinsics.height, "plumb_bob", d, K)


class RealSenseCamera:
    """Source of the newest frame of one camera.

    Args:
        find: returns the device, or None while there is none; default: the one with the serial
            number, or the first one connected.
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
        """Reason why there are no frames; empty while there are."""
        self.openings = 0
        """Number of times that a camera was opened."""
        self._formats = {
            self._rs.format.rgb8: "rgb8",
            self._rs.format.bgr8: "bgr8",
            self._rs.format.yuyv: "yuyv",
            self._rs.format.y8: "mono8",
        }

    def start(self) -> None:
        """Start the thread that opens the camera."""
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
        """Return the newest frame since the last call, after at most ``timeout`` [s]; None without
        one."""
        with self._ready:
            if self._newest is None:
                self._ready.wait(timeout)
            frame, self._newest = self._newest, None
            return frame

    # --- the thread ---

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                device = self._find()
                if device is None:
                    self.trouble = f"no RealSense {self._params.serial or 'camera'} is connected"
                else:
                    self._serve(device)
            except ConfigError as error:
                self.trouble = str(error)
            except RuntimeError as error:  # raised by pyrealsense2 when a device is disconnected
                self.trouble = f"the camera failed: {' '.join(str(error).split())}"
            self._stop.wait(RETRY)

    def _find_connected(self) -> Any:
        for device in self._rs.context().query_devices():
            if self._params.serial in ("", device.get_info(self._rs.camera_info.serial_number)):
                return device
        return None

    def _serve(self, device: Any) -> None:
        """Read frames of one camera until it is disconnected."""
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
                    kind = profile.stream_type(), profile.format(), profile.fps()
                    if kind != (rs.stream.color, wanted, p.camera_fps):
                        continue
                    video = profile.as_video_stream_profile()
                    if (video.width(), video.height()) == (p.camera_width, p.camera_height):
                        return sensor, profile
        raise ConfigError(
            f"the camera has no colour stream of {p.camera_width} x {p.camera_height} at {p.camera_fps} "
            "frames per second"
        )

    def _set_exposure(self, sensor: Any) -> None:
        option, p = self._rs.option, self._params
        if sensor.supports(option.enable_auto_exposure):
            sensor.set_option(option.enable_auto_exposure, 0.0 if p.exposure_us else 1.0)
        if p.exposure_us and sensor.supports(option.exposure):
            # colour sensors count in 100 µs; that of a D405, which also measures depth, in µs
            unit = 1.0 if sensor.is_depth_sensor() else 100.0
            units = p.exposure_us / unit
            allowed = sensor.get_option_range(option.exposure)
            if not allowed.min <= units <= allowed.max:
                low, high = unit * allowed.min, unit * allowed.max
                raise ConfigError(
                    f"'exposure_us' must lie in [{low:.0f}, {high:.0f}] for this camera, or be 0, got "
                    f"{p.exposure_us}"
                )
            sensor.set_option(option.exposure, units)
