"""Where the object is: images to detections to one pose per tag bundle to a filtered pose with its
covariance; and simulated images.

Nothing here knows ROS. Frames: W world, P palm, C camera (x right, y down, z forward, as ROS
optical frames), O object or any other body that carries tags, T one tag (x right, y up, z out of
the print). ``X_AB`` takes points from B to A. SI units; pixels count from the centre of the first
pixel, which is (0, 0), as in OpenCV and camera_info.
"""

from __future__ import annotations

import importlib.util

from dexstack.errors import ConfigError

NEEDED = {"cv2": "opencv-python-headless", "pupil_apriltags": "pupil-apriltags"}
"""Modules of the extra [camera] and the packages that bring them."""


def require_camera() -> None:
    """Refuse before anything that needs OpenCV is imported.

    Raises:
        ConfigError: the extra [camera] is not installed.
    """
    missing = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise ConfigError(
            f"pictures need {' and '.join(missing)}; pip install -c constraints.txt -e '.[ros,camera]'"
        )
