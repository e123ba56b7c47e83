"""Conversion of cameras' pictures to grey, and rejections in one line."""

import cv2
import numpy as np
import pytest

from dexstack.errors import ConfigError
from dexstack.perception.images import ENCODINGS, to_grey

H, W = 24, 32
GREY = np.tile(np.linspace(16, 235, W).astype(np.uint8), (H, 1))


def encoded(encoding: str) -> np.ndarray:
    """Return GREY in an encoding, as rows of bytes."""
    kind = ENCODINGS[encoding]
    if kind.channels == 2:
        chroma = np.full_like(GREY, 128)
        pair = (GREY, chroma) if encoding in ("yuyv", "yuv422_yuy2") else (chroma, GREY)
        return np.stack(pair, axis=2).reshape(H, -1)
    picture = np.repeat(GREY[..., None], kind.channels, axis=2)
    if kind.bytes == 2:
        picture = (picture.astype(np.uint16) * 4).astype("<u2")  # ten bits
    return picture.reshape(H, -1).view(np.uint8)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_gives_the_same_picture(encoding):
    grey = to_grey(encoded(encoding).tobytes(), W, H, encoding)
    assert grey.shape == (H, W) and grey.dtype == np.uint8 and grey.flags.c_contiguous
    if ENCODINGS[encoding].bytes == 2:  # scaled so that the brightest percent is white
        assert np.corrcoef(grey.ravel(), GREY.ravel())[0, 1] > 0.99 and grey.max() == 255
    else:
        assert np.abs(grey.astype(int) - GREY).max() <= 1


def test_red_and_blue_are_not_confused():
    red = np.zeros((H, W, 3), np.uint8)
    red[..., 0] = 255
    assert to_grey(red.tobytes(), W, H, "rgb8")[0, 0] == cv2.cvtColor(red, cv2.COLOR_RGB2GRAY)[0, 0]
    assert to_grey(red.tobytes(), W, H, "bgr8")[0, 0] == cv2.cvtColor(red, cv2.COLOR_BGR2GRAY)[0, 0]


def test_rows_may_be_padded_and_big_endian():
    padded = np.pad(GREY, ((0, 0), (0, 7)))
    assert np.array_equal(to_grey(padded.tobytes(), W, H, "mono8", W + 7), GREY)
    big = (GREY.astype(np.uint16) * 256).astype(">u2")
    little = (GREY.astype(np.uint16) * 256).astype("<u2")
    assert np.array_equal(
        to_grey(big.tobytes(), W, H, "mono16", big_endian=True), to_grey(little.tobytes(), W, H, "mono16")
    )


@pytest.mark.parametrize(
    ("data", "width", "height", "encoding", "step", "message"),
    [
        (b"", W, H, "mono8", 0, "0 bytes do not fit 32 x 24 pixels of 'mono8'"),
        (GREY.tobytes()[:-1], W, H, "mono8", 0, "767 bytes"),
        (GREY.tobytes(), W, H, "rgb8", 0, "768 bytes do not fit 32 x 24 pixels of 'rgb8' in rows of 96"),
        (GREY.tobytes(), W, H, "mono8", W - 1, "rows of 31 bytes"),
        (GREY.tobytes(), W, H, "jpeg", 0, "encoding 'jpeg' is not known"),
        (b"", 0, 0, "mono8", 0, "an image of 0 x 0 pixels"),
    ],
)
def test_data_that_do_not_fit_are_rejected_in_one_line(data, width, height, encoding, step, message):
    with pytest.raises(ConfigError, match=message) as caught:
        to_grey(data, width, height, encoding, step)
    assert "\n" not in str(caught.value)
