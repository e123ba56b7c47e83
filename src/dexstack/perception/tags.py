"""AprilTags of the family 36h11: bitmaps and detection."""

from __future__ import annotations

import ctypes
import functools
from typing import NamedTuple

import cv2
import numpy as np

from dexstack.errors import ConfigError

FAMILY = "tag36h11"
COUNT = 587
"""Number of tags of the family."""
MODULES = 8
"""Modules along the edge of the black square, without the white border of one module."""


def bitmap(tag: int) -> np.ndarray:
    """Return the printed tag with its white border as (10, 10) uint8, 0 or 255, one entry per
    module.

    Raises:
        ConfigError: the family has no such tag.
    """
    if not 0 <= tag < COUNT:
        raise ConfigError(f"the family {FAMILY} has the tags 0 to {COUNT - 1}, not {tag}")
    dictionary = cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_APRILTAG_36h11)
    black = cv2.aruco.generateImageMarker(dictionary, tag, MODULES, borderBits=1)
    # OpenCV's bitmap is the official one turned by 180°
    return np.pad(np.rot90(black, 2), 1, constant_values=255)


class Detection(NamedTuple):
    """One tag in an image."""

    tag: int
    corners: np.ndarray
    """(4, 2) px: upper left, upper right, lower right, lower left corner of the printed black
    square."""
    margin: float
    """Decision margin of the bits (mean contrast)."""
    clear: np.ndarray
    """(4,) bool: corners on uncovered edges; the others may be off by a pixel unnoticed."""


_SAMPLES = 3
"""Samples per module along an edge."""
_WRONG = 0.35
"""Deviation of a wrong sample, as a share of the tag's contrast."""
_TOLERATED = 0.04
"""Share of wrong samples of an edge that is attributed to noise."""


def clear_corners(grey: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Return (4,) true for corners whose two edges are black on the inner and white on the outer
    side, see :class:`Detection`.

    A finger over part of an edge shifts the line fitted to it, while the shape remains a
    square's.
    """
    n = (MODULES + 2) * _SAMPLES
    inner = np.array([_SAMPLES - 0.5, n - _SAMPLES - 0.5])
    square = inner[[[0, 0], [1, 0], [1, 1], [0, 1]]].astype(np.float32)
    H = cv2.getPerspectiveTransform(square, corners.astype(np.float32))
    flat = cv2.warpPerspective(
        grey, H, (n, n), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, borderMode=cv2.BORDER_REPLICATE
    )
    white_at, black_at = _SAMPLES // 2, _SAMPLES + _SAMPLES // 2
    sides = [np.rot90(flat, k) for k in range(4)]  # upper, right, lower, left edge on top
    white = np.stack([side[white_at, 1:-1] for side in sides]).astype(float)
    black = np.stack([side[black_at, _SAMPLES:-_SAMPLES] for side in sides]).astype(float)
    low, high = float(np.median(black)), float(np.median(white))
    wrong = _WRONG * max(high - low, 1.0)
    good = (high - white > wrong).mean(axis=1) + (black - low > wrong).mean(axis=1) <= _TOLERATED
    return good & np.roll(good, 1)  # corner k lies between the edges k − 1 and k


class _Quads(ctypes.Structure):
    """The library's apriltag_quad_thresh_params, which pupil-apriltags does not declare."""

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
        """A detector that clears its families first: the library frees them before the detector,
        which may crash the process at its end."""

        def __del__(self) -> None:
            if getattr(self, "tag_detector_ptr", None) is not None:
                self.libc.apriltag_detector_clear_families(self.tag_detector_ptr)
                super().__del__()

        def ignore_below(self, contrast: int) -> bool:
            """Treat neighbourhoods whose grey values differ by less than ``contrast`` as flat; return
            False if the library's layout is unknown.

            The library's default of 5 lies within a sensor's noise, whose outlines then take 90 % of
            the detection time.
            """
            fields = type(self.tag_detector_ptr.contents)
            quads = _Quads.from_address(
                ctypes.addressof(self.tag_detector_ptr.contents) + fields.debug.offset + fields.debug.size
            )
            names = (
                "min_cluster_pixels",
                "max_nmaxima",
                "max_line_fit_mse",
                "min_white_black_diff",
                "deglitch",
            )
            if [getattr(quads, name) for name in names] != [5, 10, 10.0, 5, 0]:
                return False
            quads.min_white_black_diff = contrast
            return True

    return SafeDetector


class TagDetector:
    """Detector of tags in grey pictures.

    Args:
        decimate: factor by which the picture is reduced for the search of quads; their edges are
            refined at full resolution.
        least_margin: smallest decision margin of a tag.
    """

    def __init__(self, *, decimate: float = 1.0, least_margin: float = 20.0) -> None:
        # one thread: a second one would take a core from the controller
        self._detector = _detector_class()(
            families=FAMILY, nthreads=1, quad_decimate=decimate, refine_edges=1, decode_sharpening=0.25
        )
        self._least_margin = least_margin
        self._detector.ignore_below(round(least_margin))  # half the contrast of such a tag

    def detect(self, grey: np.ndarray, window: tuple[int, int, int, int] | None = None) -> list[Detection]:
        """Detect tags in ``grey`` (height, width) uint8, or in its part ``window`` (left, top, right,
        bottom) [px].

        A tag that is detected twice is not returned.
        """
        left, top, right, bottom = (0, 0, grey.shape[1], grey.shape[0]) if window is None else window
        part = np.ascontiguousarray(grey[top:bottom, left:right])
        if min(part.shape) < 16:
            return []
        found: dict[int, Detection | None] = {}
        for d in self._detector.detect(part):
            if d.hamming > 1 or d.decision_margin < self._least_margin:
                continue
            # the library's pixel centres are at +0.5, and its corners start at the lower left
            corners = d.corners[::-1] - 0.5 + [left, top]
            made = Detection(int(d.tag_id), corners, float(d.decision_margin), clear_corners(grey, corners))
            found[d.tag_id] = None if d.tag_id in found else made
        return [d for d in found.values() if d is not None]
