"""Parameters of cameras, real and simulated, and of the pose estimate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dexstack.config import param
from dexstack.errors import ConfigError
from dexstack.perception.camera import CameraModel
from dexstack.perception.se3 import Transform

MOUNT = Transform.look_at((-0.10, 0.28, 0.32), (0.0, 0.0, 0.03))
"""Default pose of the camera in the world: opposite the thumb, with palm, object and base in view."""
MOUNT_LEFT = Transform.look_at((-0.10, -0.28, 0.32), (0.0, 0.0, 0.03))
"""Default pose of the camera for a left hand."""


def usual_mount(side: str) -> Transform:
    """Return the default pose of the camera for a hand of this side."""
    return MOUNT_LEFT if side == "left" else MOUNT


@dataclass(frozen=True)
class MountParams:
    """Pose of the camera, for the estimator and the simulated camera. The defaults are for a right
    hand."""

    camera_position: tuple[float, ...] = param(
        tuple(np.round(MOUNT.pose[:3], 6).tolist()), "optical frame in the world: origin [m]", -3.0, 3.0
    )
    camera_quaternion: tuple[float, ...] = param(
        tuple(np.round(MOUNT.pose[3:], 6).tolist()),
        "optical frame in the world: quaternion w x y z",
        -1.0,
        1.0,
    )

    def X_WC(self, side: str) -> Transform:
        """Return the optical frame in the world; for a left hand the defaults are mirrored.

        Raises:
            ConfigError: the quaternion is not of unit length.
        """
        if self == MountParams():
            return usual_mount(side)
        norm = np.linalg.norm(self.camera_quaternion)
        if not 0.9 < norm < 1.1:
            raise ConfigError(f"'camera_quaternion' must be of unit length, got one of {norm:.3g}")
        return Transform.of_pose([*self.camera_position, *self.camera_quaternion])


@dataclass(frozen=True)
class SimulatedCameraParams:
    """A simulated colour camera; the defaults are a D435i's at 640 x 480."""

    image_width: int = param(640, "columns of the simulated picture [px]", 64, 4096)
    image_height: int = param(480, "rows of the simulated picture [px]", 64, 4096)
    focal_length: float = param(615.0, "focal length of the simulated camera [px]", 50.0, 10000.0)
    frame_rate: float = param(30.0, "simulated pictures per second", 1.0, 120.0)
    pixel_noise: float = param(2.0, "standard deviation of every colour value of 0 to 255", 0.0, 50.0)
    lens_blur: float = param(0.5, "standard deviation of the simulated lens' blur [px]", 0.0, 10.0)
    exposure_time: float = param(
        0.005, "exposure time of the simulated sensor, which blurs motion [s]", 0.0, 0.1
    )
    image_delay: float = param(0.040, "least age of a simulated picture when it is published [s]", 0.0, 1.0)
    image_jitter: float = param(0.030, "largest random age in addition [s]", 0.0, 1.0)

    @property
    def camera(self) -> CameraModel:
        return CameraModel.ideal(self.image_width, self.image_height, self.focal_length)


@dataclass(frozen=True)
class CameraFaultParams:
    """Faults of the simulated camera, which may be changed at any time."""

    further_delay: float = param(0.0, "delay of pictures in addition to image_delay [s]", 0.0, 10.0)
    clock_offset: float = param(0.0, "offset of their stamps; positive: in the future [s]", -100.0, 100.0)
    frozen_picture: bool = param(False, "every picture repeats the last one's pixels with a new stamp")


@dataclass(frozen=True)
class EstimatorParams:
    """Pose estimation from pictures."""

    decimate: float = param(1.0, "factor by which pictures are reduced for the tag search", 1.0, 8.0)
    acceleration_noise: float = param(0.2, "random walk of the object's velocity [m/s per sqrt(s)]", 0.0, 1e3)
    turn_noise: float = param(8.0, "random walk of its angular velocity [rad/s per sqrt(s)]", 0.0, 1e4)
    velocity_memory: float = param(
        0.05, "time constant with which an unseen object's velocity decays [s]", 0.001, 10.0
    )
    coast: float = param(0.3, "longest time without a tag for which a pose is predicted [s]", 0.0, 10.0)
    frozen_after: float = param(
        0.1, "time after which identical pictures are not used, since sensors have noise [s]", 0.0, 1e5
    )
    mount_error_position: float = param(
        0.001,
        "standard deviation of the camera's calibrated position per axis, as a calibration reaches [m]",
        0.0,
        0.1,
    )
    mount_error_rotation: float = param(
        0.003,
        "standard deviation of its calibrated rotation per axis, as a calibration reaches [rad]",
        0.0,
        0.2,
    )
    focal_error: float = param(
        0.003, "relative standard deviation of the focal length, as factory intrinsics have", 0.0, 0.1
    )
    mount_watch: str = param(
        "correct",
        "use of the tags on the hand's base in running pictures: correct (the mount, when the camera has "
        "moved a little), report (a camera that has moved) or off",
        choices=("correct", "report", "off"),
    )
    mount_watch_interval: float = param(1.0, "time between two looks at these tags [s]", 0.1, 60.0)
    mount_watch_position: float = param(
        0.002,
        "least deviation of the tags' position that counts as a moved camera; about five times the "
        "standard deviation of their place [m]",
        1e-4,
        0.05,
    )
    mount_watch_rotation: float = param(
        0.0087,
        "least deviation of their rotation that counts as a moved camera; likewise, 0.5 degrees [rad]",
        1e-3,
        0.2,
    )


@dataclass(frozen=True)
class RealSenseParams:
    """Selection and settings of a RealSense."""

    serial: str = param("", "serial number of the RealSense; empty: the first one found")
    camera_width: int = param(640, "columns of its colour picture [px]", 64, 4096)
    camera_height: int = param(480, "rows of its colour picture [px]", 64, 4096)
    camera_fps: int = param(30, "its frames per second", 1, 300)
    exposure_us: int = param(0, "its exposure time [µs]; 0: automatic", 0, 1000000)
    least_delay: float = param(
        0.04, "least delay of a picture's arrival, where the camera's own clock stamps it [s]", 0.0, 0.5
    )
