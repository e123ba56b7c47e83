"""Watch over the camera's mount: the plate of tags on the hand's base in running pictures.

At every look the plate's pose X_CP gives, through the mount in use, the palm's pose in the world, whose
deviation from the palm's place is

    z = difference(X_WC X_CP, X_WP),    C = P_plate + σ_f² h hᵀ + P_floor,    P_floor = diag(floor²) / k².

The mount deviates if zᵀ C⁻¹ z > k² = :data:`GATE`: a deviation of exactly the floor (2 mm, 0.5°) would
count if the plate were seen without errors. P_floor is also the uncertainty of the plate's own place.
When :data:`ROW` looks in a row deviate and agree with each other, the mount is corrected so that the
plate lies where it belongs, or is said to have moved.

While the plate is watched, the uncertainty of the mount is that of the plate, plus the square of the
mean deviation that remains.
"""

from __future__ import annotations

import enum

import numpy as np

from dexstack.perception.bundle import TagBundle
from dexstack.perception.camera import CameraModel
from dexstack.perception.camera_params import EstimatorParams
from dexstack.perception.estimator import PoseEstimator, Sight
from dexstack.perception.mount_doubt import MountDoubt, turned
from dexstack.perception.pose import BundlePose, solve_bundle
from dexstack.perception.se3 import Transform, difference, exp, largest_deviations
from dexstack.perception.tags import Detection, TagDetector

GATE = 22.46
"""99.9 % quantile of χ² with 6 degrees of freedom."""
ROW = 3
"""Looks in a row that must deviate and agree, since a hand that passes by disturbs single ones."""
LARGEST = (0.05, 0.1)
"""Largest correction [m] at the palm, [rad]; a camera that moved further is to be calibrated."""
PATIENCE = 5.5
"""Intervals without a view of the plate after which the mount counts as not watched."""
WIDE = 5
"""Looks without the plate where it is expected, of which one searches the whole picture."""
MARGIN = 30
"""Margin of the search window around the expected plate [px]."""


class MountState(enum.Enum):
    """State of the watch."""

    OFF = "off"
    UNWATCHED = "not watched"
    """The plate is not in view, or not clearly."""
    KEPT = "watched"
    """The plate lies where the mount says."""
    CORRECTED = "corrected"
    """As KEPT, with a mount that was corrected."""
    MOVED = "moved"
    """The camera has moved, and the mount is not corrected; stays when the plate is out of view."""


class MountWatch:
    """Watches one camera's mount.

    Attributes:
        X_WC: mount in use, corrected where that is allowed.
        doubt: its uncertainty.
        deviation: (6,) mean deviation z of the last looks [m, rad] along the world's axes.
        corrections: number of corrections.
        correction: (6,) the last one [m, rad], likewise.

    Args:
        base: tags of the plate in the palm frame.
        X_WP: pose of the palm.
        X_WC: the calibrated mount.
        learn: take the plate's place from the first looks through the mount, instead of from ``base``:
            for a mount that was measured without the plate and is more exact than its seat.
        correct: whether the parameters may allow corrections.
    """

    def __init__(
        self,
        base: TagBundle,
        X_WP: Transform,
        X_WC: Transform,
        params: EstimatorParams,
        learn: bool = False,
        correct: bool = True,
    ) -> None:
        self._base, self._params = base, params
        self._place = X_WP
        """Pose of the palm's frame as the plate shows it."""
        self._learn, self._learned = learn, False
        self._correct = correct and params.mount_watch == "correct"
        self._detector = TagDetector()
        self.X_WC = X_WC
        self.doubt = self._calibrated = MountDoubt.calibrated(X_WC, params)
        self.deviation = np.zeros(6)
        self.correction = np.zeros(6)
        self.corrections = 0
        self._moved = False
        self._row: list[np.ndarray] = []
        """Deviations in a row that agree with each other."""
        self._out: bool | None = None
        """Whether that row is one of deviations beyond the threshold."""
        self._misses = 0
        self._looked = self._seen = -np.inf

    @property
    def state(self) -> MountState:
        """State after the last look."""
        if self._params.mount_watch == "off":
            return MountState.OFF
        if self._moved:
            return MountState.MOVED
        if self._seen == -np.inf or self._looked - self._seen > PATIENCE * self._params.mount_watch_interval:
            return MountState.UNWATCHED
        return MountState.CORRECTED if self.corrections else MountState.KEPT

    @property
    def trouble(self) -> str:
        """How far the camera has moved, where the mount is not corrected; otherwise empty."""
        if self.state is not MountState.MOVED:
            return ""
        return (
            f"the camera has moved: by its mount the tags on the hand's base are off by "
            f"{_sizes(self.deviation)}; calibrate it again"
        )

    def values(self) -> dict[str, str | float]:
        """Return the state for diagnostics, and the deviation [m], [rad] where it is watched."""
        found: dict[str, str | float] = {"mount": self.state.value}
        if self.state in (MountState.KEPT, MountState.CORRECTED, MountState.MOVED):
            found["mount_off_m"], found["mount_off_rad"] = _norms(self.deviation)
        return found

    @property
    def floor(self) -> np.ndarray:
        """(6, 6) covariance of the plate's place [m, rad]."""
        p = self._params
        return np.diag(np.repeat([p.mount_watch_position, p.mount_watch_rotation], 3) ** 2) / GATE

    def due(self, t: float) -> bool:
        """Return whether to look at the picture of time ``t`` [s]; after a clock that was set back, too."""
        if self._params.mount_watch == "off":
            return False
        return not 0.0 <= t - self._looked < self._params.mount_watch_interval

    def follow(self, t: float, grey: np.ndarray, estimator: PoseEstimator, sight: Sight) -> str:
        """Look at a picture that the estimator has processed, where a look is due, and give the
        estimator the mount and its uncertainty where they change.

        Args:
            t: time of the picture [s].
            grey: (height, width) uint8.
            sight: the estimator's judgement; repeated and late pictures are not looked at.

        Returns:
            A sentence to be logged: that the camera has moved, or is back; empty without news.
        """
        if sight in (Sight.FROZEN, Sight.STALE) or not self.due(t):
            return ""
        moved, corrections = self._moved, self.corrections
        if self.look(t, grey, estimator.camera):
            estimator.mount(self.X_WC, self.doubt)
        if self.corrections > corrections:
            return f"the camera has moved: its mount is corrected by {_sizes(self.correction)} at the palm"
        if moved and not self._moved:
            return "the camera is where its mount says again"
        return self.trouble if self._moved and not moved else ""

    def look(self, t: float, grey: np.ndarray, camera: CameraModel) -> bool:
        """Look for the plate in a picture (height, width) uint8 of time ``t`` [s].

        Returns:
            True if the mount or its uncertainty changed.
        """
        return self.judge(t, self._search(grey, camera), camera)

    def judge(self, t: float, detections: list[Detection], camera: CameraModel) -> bool:
        """Judge the tags of a picture of time ``t`` [s]; see :meth:`look`."""
        if t < self._looked:
            self._seen = -np.inf
        self._looked = t
        seen = solve_bundle(detections, self._base, camera, self._expected)
        if seen is None or not self._clear(seen, detections):
            return False
        self._seen, self._misses = t, 0
        turn = turned(self.X_WC.R)
        z = difference(self.X_WC.compose(seen.X_CO), self._place)
        h = -turn @ seen.focal
        P = turn @ seen.covariance @ turn.T + self.floor
        C = P + self._params.focal_error**2 * np.outer(h, h)
        self._note(z, bool(z @ np.linalg.solve(C, z) > GATE), P)
        if len(self._row) < ROW:
            return False
        self._decide(P, h)
        return True

    @property
    def _expected(self) -> Transform:
        return self.X_WC.inverse.compose(self._place)

    def _clear(self, seen: BundlePose, detections: list[Detection]) -> bool:
        """Return true if at least two whole tags give the pose, and more exactly than the floor."""
        p = self._params
        used = [d for d in detections if d.tag in seen.tags]
        linear, angular = largest_deviations(seen.covariance)
        return (
            not seen.outliers
            and len(used) >= 2
            and all(d.clear.all() for d in used)
            and linear < p.mount_watch_position
            and angular < p.mount_watch_rotation
        )

    def _note(self, z: np.ndarray, out: bool, P: np.ndarray) -> None:
        """Add a deviation to the row, or begin another where it does not belong to the last."""
        if self._row:
            way = z - self._row[-1]
            if out is not self._out or way @ np.linalg.solve(2.0 * P, way) > GATE:
                self._row = []
        self._out = out
        self._row = [*self._row, z][-ROW:]

    def _decide(self, P: np.ndarray, h: np.ndarray) -> None:
        """Correct the mount, or state its uncertainty, from a whole row."""
        z = np.mean(self._row, axis=0)
        shown = Transform(exp(z[3:]) @ self._place.R, self._place.p + z[:3])
        if self._learn and not self._learned:
            self._place, self._learned, self._row = shown, True, []
            return
        small = all(size <= largest for size, largest in zip(_norms(z), LARGEST, strict=True))
        if self._out and self._correct and small:
            self.X_WC = self._place.compose(shown.inverse).compose(self.X_WC)
            self.correction, z = -z, np.zeros(6)
            self.corrections += 1
            self._row, self._out, self._moved = [], None, False
        else:
            self._moved = bool(self._out)
        self.deviation = z
        self.doubt = MountDoubt(self._place.p, P + np.outer(z, z), h)
        if self._learn:
            # the plate's place is as uncertain as the mount that showed it, and has the same error by
            # the focal length as the plate has now
            before = self._calibrated.of_object(self._place.p, np.zeros(6), 0.0)
            self.doubt = MountDoubt(self._place.p, before + P + np.outer(z, z), np.zeros(6))

    def _search(self, grey: np.ndarray, camera: CameraModel) -> list[Detection]:
        """Detect tags where the plate is expected; now and then in the whole picture, if it is not
        there."""
        window = self._window(grey, camera)
        found = [] if window is None else self._detector.detect(grey, window)
        found = [d for d in found if d.tag in self._base.tags]
        if len(found) >= 2:
            return found
        self._misses += 1
        return self._detector.detect(grey) if self._misses % WIDE == 1 else found

    def _window(self, grey: np.ndarray, camera: CameraModel) -> tuple[int, int, int, int] | None:
        p_C = self._expected.apply(self._base.points)
        if p_C[:, 2].min() < 0.02:
            return None
        uv = camera.project(p_C)
        left, top = map(int, np.maximum(uv.min(axis=0) - MARGIN, 0))
        right, bottom = map(int, np.minimum(uv.max(axis=0) + MARGIN, grey.shape[::-1]))
        return (left, top, right, bottom) if right - left >= 16 and bottom - top >= 16 else None


def _norms(z: np.ndarray) -> tuple[float, float]:
    """Return the lengths of translation [m] and rotation vector [rad] of ``z`` (6,)."""
    return float(np.linalg.norm(z[:3])), float(np.linalg.norm(z[3:]))


def _sizes(z: np.ndarray) -> str:
    shift, turn = _norms(z)
    return f"{1e3 * shift:.1f} mm and {np.degrees(turn):.2f} deg"
