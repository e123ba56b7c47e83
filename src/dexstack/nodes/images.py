"""Images and camera intrinsics: messages to what perception works on, and back."""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import numpy as np
from sensor_msgs.msg import CameraInfo, Image

from dexstack.errors import ConfigError
from dexstack.nodes.wire import BadMessage, seconds
from dexstack.perception.camera import CameraModel
from dexstack.perception.images import to_grey

OPTICAL_FRAME = "camera_color_optical_frame"


class GreyImage(NamedTuple):
    """A picture with the stamp it came with."""

    t: float
    """[s]"""
    stamp: Any
    """The same, untouched."""
    grey: np.ndarray
    """(height, width) uint8"""
    frame: str
    """Whose z axis the camera looks along; empty: not said."""


def read_image(message: Image) -> GreyImage:
    """Any encoding that :func:`dexstack.perception.images.to_grey` knows."""
    try:
        grey = to_grey(
            message.data,
            message.width,
            message.height,
            message.encoding,
            message.step,
            big_endian=bool(message.is_bigendian),
        )
    except ConfigError as error:
        raise BadMessage(str(error)) from None
    return GreyImage(
        seconds(message.header.stamp), message.header.stamp, grey, message.header.frame_id.lstrip("/")
    )


def read_camera(message: CameraInfo) -> CameraModel:
    """Intrinsics of the unrectified picture."""
    try:
        return CameraModel.of_info(
            message.width, message.height, message.distortion_model, message.d, message.k
        )
    except ConfigError as error:
        raise BadMessage(str(error)) from None


def image_message(stamp: Any, rgb: np.ndarray, frame: str = OPTICAL_FRAME) -> Image:
    """(height, width, 3) uint8 as rgb8, taken in ``frame``."""
    height, width, _ = rgb.shape
    message = Image(height=height, width=width, encoding="rgb8", step=3 * width)
    message.header.stamp, message.header.frame_id = stamp, frame
    message.data = array("B", np.ascontiguousarray(rgb).tobytes())
    return message


def camera_message(stamp: Any, camera: CameraModel, frame: str = OPTICAL_FRAME) -> CameraInfo:
    """Intrinsics as a camera driver publishes them."""
    K = camera.K
    message = CameraInfo(height=camera.height, width=camera.width, distortion_model="plumb_bob")
    message.header.stamp, message.header.frame_id = stamp, frame
    message.d = [float(x) for x in camera.distortion] or [0.0] * 5
    message.k = K.ravel()
    message.r = np.eye(3).ravel()
    message.p = np.column_stack([K, np.zeros(3)]).ravel()
    return message
