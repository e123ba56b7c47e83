"""Pinhole camera with lens distortion, as in camera_info."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dexstack.errors import ConfigError

MODELS = {"": 0, "plumb_bob": 5, "rational_polynomial": 8}
"""Number of coefficients of each distortion model, in OpenCV's order."""


@dataclass(frozen=True)
class CameraModel:
    """Intrinsics: pixel = K · distorted(x/z, y/z), with pixel centres at integer coordinates."""

    width: int
    """[px]"""
    height: int
    K: np.ndarray
    """(3, 3) [px]"""
    distortion: np.ndarray
    """(0,), (5,) or (8,): k1 k2 p1 p2 k3 (k4 k5 k6), OpenCV's order."""

    def __post_init__(self) -> None:
        K = np.asarray(self.K, float)
        if self.width < 16 or self.height < 16:
            raise ConfigError(f"a camera of {self.width} x {self.height} pixels is not supported")
        if not np.any(K):
            raise ConfigError("the camera's intrinsics are all zero: the camera is not calibrated")
        if K.shape != (3, 3) or not np.isfinite(K).all() or not np.isfinite(self.distortion).all():
            raise ConfigError("the camera's intrinsics must be finite, K a 3 x 3 matrix")
        if K[[0, 1, 2, 2], [1, 0, 0, 1]].any():
            raise ConfigError(
                "the camera's K must be [fx 0 cx; 0 fy cy; 0 0 1], row by row and without skew, got "
                f"{K.ravel().tolist()}"
            )
        if not (K[0, 0] > 0.0 and K[1, 1] > 0.0 and K[2, 2] == 1.0):
            raise ConfigError(
                f"the camera's focal lengths must be positive and K[2][2] one, got {K[0, 0]:g}, "
                f"{K[1, 1]:g}, {K[2, 2]:g}"
            )
        if not (-self.width < K[0, 2] < 2 * self.width and -self.height < K[1, 2] < 2 * self.height):
            raise ConfigError(f"the principal point ({K[0, 2]:g}, {K[1, 2]:g}) is far outside the picture")

    @classmethod
    def ideal(cls, width: int, height: int, focal: float) -> CameraModel:
        """Return a camera without distortion, the principal point in the centre; ``focal`` [px]."""
        K = np.array([[focal, 0.0, (width - 1) / 2], [0.0, focal, (height - 1) / 2], [0.0, 0.0, 1.0]])
        return cls(width, height, K, np.zeros(0))

    @classmethod
    def of_info(cls, width: int, height: int, model: str, d: ArrayLike, k: ArrayLike) -> CameraModel:
        """Return the camera of a sensor_msgs/CameraInfo, K row by row.

        As in OpenCV, four or five coefficients of a longer model are completed by zeros; further
        coefficients must be zero.

        Raises:
            ConfigError: the fields do not describe a camera.
        """
        d = np.asarray(d, float)
        if not np.any(d):
            d = np.zeros(0)
        elif model not in MODELS:
            raise ConfigError(
                f"the distortion model {model[:40]!r} is not known; known: plumb_bob, rational_polynomial"
            )
        else:
            n = MODELS[model]
            full = np.pad(d, (0, n - len(d))) if len(d) in (4, 5) and len(d) < n else d
            if len(full) < n or np.any(full[n:]):
                raise ConfigError(f"{len(d)} distortion coefficients for the model '{model}', {n} expected")
            d = full[:n]
        return cls(int(width), int(height), np.array(k, float).reshape(3, 3), d)

    def check_topic(self, topic: str) -> None:
        """Reject rectified pictures, which by convention come on a topic ``…/image_rect…``, for
        intrinsics with lens distortion, which would be corrected twice.

        Raises:
            ConfigError: the pictures are rectified and the distortion is not zero.
        """
        if np.any(self.distortion) and "rect" in topic.rpartition("/")[2]:
            raise ConfigError(
                f"the pictures on {topic} are rectified and the intrinsics have lens distortion, which would "
                "be corrected twice; use the raw pictures (image_raw), or a camera_info with D = 0"
            )

    @property
    def focal(self) -> float:
        """Mean focal length [px]."""
        return float((self.K[0, 0] + self.K[1, 1]) / 2)

    def normalised(self, uv: np.ndarray) -> np.ndarray:
        """Return the undistorted points (n, 2) in the plane z = 1 of pixels ``uv`` (n, 2)."""
        if len(self.distortion) == 0:
            return (uv - self.K[:2, 2]) / self.K[[0, 1], [0, 1]]
        import cv2  # here, because parameters hold a camera where OpenCV is not installed

        return cv2.undistortPoints(np.asarray(uv, float).reshape(-1, 1, 2), self.K, self.distortion).reshape(
            -1, 2
        )

    def project(self, p_C: np.ndarray) -> np.ndarray:
        """Return the pixels (n, 2) of points (n, 3) in front of the camera."""
        if len(self.distortion) == 0:
            return p_C[:, :2] / p_C[:, 2:] * self.K[[0, 1], [0, 1]] + self.K[:2, 2]
        zero = np.zeros(3)
        import cv2

        return cv2.projectPoints(np.asarray(p_C, float), zero, zero, self.K, self.distortion)[0].reshape(
            -1, 2
        )

    def document(self) -> dict[str, Any]:
        """Return the contents of a YAML file."""
        model = {0: "", 5: "plumb_bob", 8: "rational_polynomial"}[len(self.distortion)]
        return {
            "width": self.width,
            "height": self.height,
            "distortion_model": model,
            "distortion": [float(x) for x in self.distortion],
            "K": [float(x) for x in self.K.ravel()],
        }
