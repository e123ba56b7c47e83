"""The object's pose from consecutive pictures: tag search, pose of the bundle, filter."""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np

from dexstack.perception.bundle import TagBundle
from dexstack.perception.camera import CameraModel
from dexstack.perception.camera_params import EstimatorParams
from dexstack.perception.filter import PoseFilter, agree
from dexstack.perception.mount_doubt import MountDoubt, turned
from dexstack.perception.pose import BundlePose, solve_bundle
from dexstack.perception.se3 import Transform
from dexstack.perception.tags import Detection, TagDetector

MARGIN = 12
"""Margin of the search window around the expected object [px]."""
CONFIRM = 0.15
"""Longest time between two pictures that confirm each other [s]."""


class Sight(enum.Enum):
    """Classification of a picture."""

    SEEN = "seen"
    PREDICTED = "predicted"
    """No usable tag, for less than the coasting time: the pose is predicted."""
    LOST = "lost"
    """No tag."""
    AMBIGUOUS = "ambiguous"
    """One face only, with two poses that fit, or with one that no earlier picture confirms."""
    COVERED = "covered"
    """Every tag is partly covered."""
    FROZEN = "frozen"
    """The camera repeats the same pixels."""
    STALE = "stale"
    """Not newer than the picture before."""


class Estimate(NamedTuple):
    """The object's pose at the time of a picture."""

    t: float
    """Time of the picture [s]."""
    X_WO: Transform
    covariance: np.ndarray
    """(6, 6) of translation [m] and rotation vector [rad], both along the axes of the world: of the
    filter, and of the calibration, whose errors do not average out."""


class PictureResult(NamedTuple):
    """Result of one picture."""

    sight: Sight
    estimate: Estimate | None
    """None while the pose is unknown."""
    detections: list[Detection]
    seen: BundlePose | None


class PoseEstimator:
    """Tracks one object.

    Args:
        bundle: the object's tags.
        camera: intrinsics.
        X_WC: pose of the camera.

    Attributes:
        doubt: uncertainty of that pose.
    """

    def __init__(
        self, bundle: TagBundle, camera: CameraModel, X_WC: Transform, params: EstimatorParams
    ) -> None:
        self.bundle, self.camera, self.X_WC, self.params = bundle, camera, X_WC, params
        self._X_CW = X_WC.inverse
        self.doubt = MountDoubt.calibrated(X_WC, params)
        self._wide = TagDetector(decimate=params.decimate)
        self._near = TagDetector(decimate=1.0)
        self._filter = PoseFilter(params.acceleration_noise, params.turn_noise, params.velocity_memory)
        self.reset()

    def reset(self) -> None:
        """Forget the object."""
        self._filter.reset()
        self._observed_at = self._t = -np.inf
        self._missed = 0
        self._candidate: tuple[float, Transform] | None = None
        """Time and pose from a single face, to be confirmed by another picture."""
        self._pixels: np.ndarray | None = None
        self._changed_at = -np.inf
        """Time of the first picture with these pixels [s]."""
        self._focal = np.zeros(6)
        """Change of the last observed pose with the focal length, along the world's axes [m, rad]."""

    def mount(self, X_WC: Transform, doubt: MountDoubt) -> None:
        """Set the pose of the camera and its uncertainty; the object stays where the camera sees it."""
        self.doubt = doubt
        if X_WC is not self.X_WC:
            self._filter.move(X_WC.compose(self._X_CW))
            self._candidate = None
            self.X_WC, self._X_CW = X_WC, X_WC.inverse

    def process(self, t: float, grey: np.ndarray) -> PictureResult:
        """Process the next picture (height, width) uint8, taken at ``t`` [s].

        Late pictures and repeated pixels, whatever their stamps, are not used; a time that goes back
        by more than a second resets the estimator. The picture must not be changed before the next
        one is processed.
        """
        if t <= self._t and self._t - t < 1.0:
            return PictureResult(Sight.STALE, None, [], None)
        if t < self._t:
            self.reset()
        elif t - self._observed_at > self.params.coast:
            self._filter.reset()
        self._t = t
        expected = None
        if self._filter.running:
            self._filter.predict(t)
            expected = self._X_CW.compose(self._filter.X)
        frozen = self._frozen(t, grey)
        detections = [] if frozen else self._search(grey, expected)
        seen = solve_bundle(detections, self.bundle, self.camera, expected)
        sight = self._judge(t, seen)
        sight = Sight.FROZEN if frozen and sight is Sight.LOST else sight
        if not self._filter.running:
            return PictureResult(sight, None, detections, seen)
        X_WO = self._filter.X
        calibration = self.doubt.of_object(X_WO.p, self._focal, self.params.focal_error)
        estimate = Estimate(t, X_WO, self._filter.covariance + calibration)
        return PictureResult(sight, estimate, detections, seen)

    def _frozen(self, t: float, grey: np.ndarray) -> bool:
        if self._pixels is None or not np.array_equal(grey, self._pixels):
            self._pixels, self._changed_at = grey, t
        return t - self._changed_at > self.params.frozen_after

    def _judge(self, t: float, seen: BundlePose | None) -> Sight:
        running = self._filter.running
        if seen is None or seen.covered:
            self._missed += 1
            if running:
                return Sight.PREDICTED
            return Sight.LOST if seen is None else Sight.COVERED
        X_WO = self.X_WC.compose(seen.X_CO)
        if not running and not seen.sure and (seen.other is not None or not self._confirmed(t, X_WO)):
            return Sight.AMBIGUOUS
        turn = turned(self.X_WC.R)
        covariance = turn @ seen.covariance @ turn.T
        if not self._filter.update(t, X_WO, covariance, seen.sure):
            if not seen.sure or seen.outliers:
                self._missed += 1
                return Sight.PREDICTED
            self._filter.start(t, X_WO, covariance)  # all faces agree: the object was displaced
        self._observed_at, self._missed, self._candidate = t, 0, None
        self._focal = turn @ seen.focal
        return Sight.SEEN

    def _confirmed(self, t: float, X_WO: Transform) -> bool:
        """Return true if the last candidate is recent and agrees."""
        before, self._candidate = self._candidate, (t, X_WO)
        return before is not None and t - before[0] <= CONFIRM and agree(X_WO, before[1])

    def _search(self, grey: np.ndarray, expected: Transform | None) -> list[Detection]:
        """Detect tags near the expected pose at full resolution, or in the whole picture, decimated,
        after a miss."""
        if expected is not None and not self._missed:
            window = self._window(grey, expected)
            if window is not None:
                return self._near.detect(grey, window)
        return self._wide.detect(grey)

    def _window(self, grey: np.ndarray, X_CO: Transform) -> tuple[int, int, int, int] | None:
        p_C = X_CO.apply(self.bundle.points)
        if p_C[:, 2].min() < 0.02:
            return None
        uv = self.camera.project(p_C)
        spread = np.sqrt(np.diag(self._filter.covariance))
        reach = np.abs(self.bundle.points).max()
        slack = MARGIN + 3.0 * self.camera.focal / X_CO.p[2] * (spread[:3].max() + reach * spread[3:].max())
        low, high = np.maximum(uv.min(axis=0) - slack, 0).astype(int), (uv.max(axis=0) + slack).astype(int)
        left, top, right, bottom = map(int, (*low, *np.minimum(high, [grey.shape[1], grey.shape[0]])))
        return (left, top, right, bottom) if right - left >= 16 and bottom - top >= 16 else None
