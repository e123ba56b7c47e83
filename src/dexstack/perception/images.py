"""Conversion of cameras' pixels to grey pictures for tag detection."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import cv2
import numpy as np

from dexstack.errors import ConfigError


class _Encoding(NamedTuple):
    channels: int
    bytes: int
    """Per channel."""
    to_grey: int | None
    """OpenCV's conversion; None for grey pictures."""


ENCODINGS = {
    "mono8": _Encoding(1, 1, None),
    "8UC1": _Encoding(1, 1, None),
    "mono16": _Encoding(1, 2, None),
    "16UC1": _Encoding(1, 2, None),
    "rgb8": _Encoding(3, 1, cv2.COLOR_RGB2GRAY),
    "8UC3": _Encoding(3, 1, cv2.COLOR_BGR2GRAY),
    "bgr8": _Encoding(3, 1, cv2.COLOR_BGR2GRAY),
    "rgba8": _Encoding(4, 1, cv2.COLOR_RGBA2GRAY),
    "bgra8": _Encoding(4, 1, cv2.COLOR_BGRA2GRAY),
    "rgb16": _Encoding(3, 2, cv2.COLOR_RGB2GRAY),
    "bgr16": _Encoding(3, 2, cv2.COLOR_BGR2GRAY),
    "yuv422_yuy2": _Encoding(2, 1, cv2.COLOR_YUV2GRAY_YUYV),
    "yuyv": _Encoding(2, 1, cv2.COLOR_YUV2GRAY_YUYV),
    "yuv422": _Encoding(2, 1, cv2.COLOR_YUV2GRAY_UYVY),
    "uyvy": _Encoding(2, 1, cv2.COLOR_YUV2GRAY_UYVY),
}
"""Encodings of sensor_msgs/image_encodings and of camera drivers."""


def to_grey(
    data: bytes | bytearray | memoryview | array | np.ndarray,
    width: int,
    height: int,
    encoding: str,
    step: int = 0,
    *,
    big_endian: bool = False,
) -> np.ndarray:
    """Convert an image message's contents to (height, width) uint8.

    Sixteen-bit pictures are scaled so that their brightest percent is white, because cameras use 10,
    12 or 16 of the bits.

    Args:
        step: bytes from one row to the next; 0: no padding.
        big_endian: byte order of 16-bit channels.

    Raises:
        ConfigError: an unknown encoding, or a size that does not fit the data.
    """
    if encoding not in ENCODINGS:
        raise ConfigError(f"the image encoding '{encoding[:40]}' is not known; known: {', '.join(ENCODINGS)}")
    kind = ENCODINGS[encoding]
    if width < 16 or height < 16:
        raise ConfigError(f"an image of {width} x {height} pixels is too small")
    row = width * kind.channels * kind.bytes
    step = step or row
    pixels = np.frombuffer(data, np.uint8)
    if step < row or len(pixels) != step * height:
        raise ConfigError(
            f"{len(pixels)} bytes do not fit {width} x {height} pixels of '{encoding}' in rows of {step} "
            "bytes"
        )
    rows = pixels.reshape(height, step)[:, :row]
    if kind.bytes == 2:
        rows = np.ascontiguousarray(rows).view(">u2" if big_endian else "<u2").astype(np.uint16)
    picture = rows.reshape(height, width, kind.channels)
    if kind.to_grey is not None:
        picture = cv2.cvtColor(np.ascontiguousarray(picture), kind.to_grey)
    grey = picture.reshape(height, width)
    if kind.bytes == 2:
        white = max(float(np.percentile(grey[::4, ::4], 99)), 1.0)
        grey = np.clip(grey * (255.0 / white), 0, 255).astype(np.uint8)
    return np.ascontiguousarray(grey)
