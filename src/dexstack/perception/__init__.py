"""Pose of the object from images: tag detections, one pose per tag bundle, a filtered pose with its
covariance; and simulated images.

Independent of ROS. Frames: W world, P palm, C camera (x right, y down, z forward, as ROS optical
frames), O object or any other body that carries tags, T one tag (x right, y up, z out of the
print). ``X_AB`` takes points from B to A. SI units; the centre of the first pixel is (0, 0), as in
OpenCV and camera_info.
"""

from __future__ import annotations

import importlib.util

from dexstack.errors import ConfigError

NEEDED = {"cv2": "opencv-python-headless", "pupil_apriltags": "pupil-apriltags"}
"""Packages of the extra [camera], by module."""


def require_camera() -> None:
    """Check that the extra [camera] is installed, before modules that need OpenCV are imported.

    Raises:
        ConfigError: the extra [camera] is not installed.
    """
    missing = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise ConfigError(
            f"pictures need {' and '.join(missing)}; pip install -c constraints.txt -e '.[ros,camera]'"
        )
