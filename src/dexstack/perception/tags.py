"""AprilTags of the family 36h11: their bitmaps, and where an image shows them."""

from __future__ import annotations

import ctypes
import functools
from typing import NamedTuple

import cv2
import numpy as np

from dexstack.errors import ConfigError

FAMILY = "tag36h11"
COUNT = 587
"""Tags of the family."""
MODULES = 8
"""Modules along the edge of the black square; the white border of one module around it belongs to
the tag."""


def bitmap(tag: int) -> np.ndarray:
    """(10, 10) uint8, 0 or 255: the tag with its white border, one entry per module, as it is
    printed.

    Raises:
        ConfigError: the family has no such tag.
    """
    if not 0 <= tag < COUNT:
        raise ConfigError(f"the family {FAMILY} has the tags 0 to {COUNT - 1}, not {tag}")
    dictionary = cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_APRILTAG_36h11)
    black = cv2.aruco.generateImageMarker(dictionary, tag, MODULES, borderBits=1)
    return np.pad(
        np.rot90(black, 2), 1, constant_values=255
    )  # OpenCV's bitmap is the official one turned by 180°


class Detection(NamedTuple):
    """One tag in an image."""

    tag: int
    corners: np.ndarray
    """(4, 2) px: upper left, upper right, lower right, lower left corner of the black square as it
    is printed."""
    margin: float
    """How clearly the bits were read (mean contrast)."""
    clear: np.ndarray
    """(4,) bool: which corners lie on edges that nothing covers in part; the others may be off by a
    pixel without it showing."""


_SAMPLES = 3
"""Per module, where edges are looked at."""
_WRONG = 0.35
"""A sample that is off by this share of the tag's contrast is not the tag's."""
_TOLERATED = 0.04
"""Share of wrong samples of an edge that noise may explain."""


def clear_corners(grey: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """(4,) bool, see :class:`Detection`: whether black and white are as they must be along both
    sides of both edges of each corner.

    A finger that covers part of an edge draws the line fitted to it, and the picture of a square
    remains a square's.
    """
    n = (MODULES + 2) * _SAMPLES
    inner = np.array([_SAMPLES - 0.5, n - _SAMPLES - 0.5])
    square = np.array(
        [[inner[0], inner[0]], [inner[1], inner[0]], [inner[1], inner[1]], [inner[0], inner[1]]], np.float32
    )
    H = cv2.getPerspectiveTransform(square, corners.astype(np.float32))
    flat = cv2.warpPerspective(
        grey, H, (n, n), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, borderMode=cv2.BORDER_REPLICATE
    )
    white_at, black_at = _SAMPLES // 2, _SAMPLES + _SAMPLES // 2
    sides = [
        flat,
        np.rot90(flat),
        np.rot90(flat, 2),
        np.rot90(flat, 3),
    ]  # upper, right, lower, left edge on top
    white = np.stack([side[white_at, 1:-1] for side in sides]).astype(float)
    black = np.stack([side[black_at, _SAMPLES:-_SAMPLES] for side in sides]).astype(float)
    low, high = float(np.median(black)), float(np.median(white))
    wrong = _WRONG * max(high - low, 1.0)
    good = (high - white > wrong).mean(axis=1) + (black - low > wrong).mean(axis=1) <= _TOLERATED
    return good & np.roll(good, 1)  # corner k lies between the edges k − 1 and k


class _Quads(ctypes.Structure):
    """What the library's detector holds behind the fields that pupil-apriltags names: its
    apriltag_quad_thresh_params."""

    _fields_ = [
        ("min_cluster_pixels", ctypes.c_int),
        ("max_nmaxima", ctypes.c_int),
        ("critical_rad", ctypes.c_float),
        ("cos_critical_rad", ctypes.c_float),
        ("max_line_fit_mse", ctypes.c_float),
        ("min_white_black_diff", ctypes.c_int),
        ("deglitch", ctypes.c_int),
    ]


@functools.cache
def _detector_class() -> type:
    try:
        from pupil_apriltags import Detector
    except ImportError as error:
        raise ConfigError(
            f"tags need pupil-apriltags ({error}); pip install -c constraints.txt -e '.[camera]'"
        ) from None

    class SafeDetector(Detector):
        """The library frees the families before the detector that still uses them, which may crash
        the process at its end."""

        def __del__(self) -> None:
            if getattr(self, "tag_detector_ptr", None) is not None:
                self.libc.apriltag_detector_clear_families(self.tag_detector_ptr)
                super().__del__()

        def ignore_below(self, contrast: int) -> bool:
            """Take neighbourhoods whose grey values differ by less than ``contrast`` for flat;
            False where the library is another one.

            The library's own 5 lies within a sensor's noise: it then follows outlines of noise all
            over the picture, for 90 % of its time.
            """
            fields = type(self.tag_detector_ptr.contents)
            quads = _Quads.from_address(
                ctypes.addressof(self.tag_detector_ptr.contents) + fields.debug.offset + fields.debug.size
            )
            known = (
                quads.min_cluster_pixels,
                quads.max_nmaxima,
                quads.max_line_fit_mse,
                quads.min_white_black_diff,
                quads.deglitch,
            )
            if known != (5, 10, 10.0, 5, 0):
                return False
            quads.min_white_black_diff = contrast
            return True

    return SafeDetector


class TagDetector:
    """Finds tags in grey pictures.

    Args:
        decimate: quads are searched in a picture smaller by this factor; their edges are then
            refined in the full one.
        least_margin: tags read less clearly than this are not believed.
    """

    def __init__(self, *, decimate: float = 1.0, least_margin: float = 20.0) -> None:
        # One thread: a second one would only take the core from the controller.
        self._detector = _detector_class()(
            families=FAMILY, nthreads=1, quad_decimate=decimate, refine_edges=1, decode_sharpening=0.25
        )
        self._least_margin = least_margin
        self._detector.ignore_below(
            round(least_margin)
        )  # half of what such a tag has between black and white

    def detect(self, grey: np.ndarray, window: tuple[int, int, int, int] | None = None) -> list[Detection]:
        """Tags in ``grey`` (height, width) uint8, or in its part ``window`` (left, top, right,
        bottom) [px] only.

        A tag seen twice cannot both be the one of the bundle: neither is returned.
        """
        left, top, right, bottom = (0, 0, grey.shape[1], grey.shape[0]) if window is None else window
        part = np.ascontiguousarray(grey[top:bottom, left:right])
        if min(part.shape) < 16:
            return []
        found: dict[int, Detection | None] = {}
        for d in self._detector.detect(part):
            if d.hamming > 1 or d.decision_margin < self._least_margin:
                continue
            corners = (
                d.corners[::-1] - 0.5 + [left, top]
            )  # the library counts pixel centres at +0.5, and corners from the lower left
            found[d.tag_id] = (
                None
                if d.tag_id in found
                else Detection(int(d.tag_id), corners, float(d.decision_margin), clear_corners(grey, corners))
            )
        return [d for d in found.values() if d is not None]
