"""Conversion of images and camera intrinsics between messages and arrays."""

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
    """A grey picture with its stamp and frame."""

    t: float
    """[s]"""
    stamp: Any
    """Stamp of the message."""
    grey: np.ndarray
    """(height, width) uint8"""
    frame: str
    """Optical frame of the camera; empty: not given."""


def read_image(message: Image) -> GreyImage:
    """Decode any encoding of :func:`dexstack.perception.images.to_grey`."""
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
    """Return the intrinsics of the raw (unrectified) picture."""
    try:
        return CameraModel.of_info(
            message.width, message.height, message.distortion_model, message.d, message.k
        )
    except ConfigError as error:
        raise BadMessage(str(error)) from None


def image_message(stamp: Any, rgb: np.ndarray, frame: str = OPTICAL_FRAME) -> Image:
    """Return an rgb8 message of pixels (height, width, 3) uint8 in the frame ``frame``."""
    height, width, _ = rgb.shape
    message = Image(height=height, width=width, encoding="rgb8", step=3 * width)
    message.header.stamp, message.header.frame_id = stamp, frame
    message.data = array("B", np.ascontiguousarray(rgb).tobytes())
    return message


def camera_message(stamp: Any, camera: CameraModel, frame: str = OPTICAL_FRAME) -> CameraInfo:
    """Return intrinsics as a camera driver publishes them."""
    K = camera.K
    message = CameraInfo(height=camera.height, width=camera.width, distortion_model="plumb_bob")
    message.header.stamp, message.header.frame_id = stamp, frame
    message.d = [float(x) for x in camera.distortion] or [0.0] * 5
    message.k = K.ravel()
    message.r = np.eye(3).ravel()
    message.p = np.column_stack([K, np.zeros(3)]).ravel()
    return message
