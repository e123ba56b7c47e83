"""Trackers: the object pose that a controller assumes, from consecutive measured poses.

:class:`ContactTracker` is an extended Kalman filter over the error of the pose, δ = (δp, δθ) along the
axes of the world, and the error b of the measured pose. Between two pictures the object moves with
what holds it: one step of the planner's model takes the last estimate along the measured motion Δq of
the joints. Its error grows with time and with that motion, and errors of measured poses are
correlated over the time τ:

    δ ← δ + w,    w ~ (0, a² dt + s² ‖Δq‖²),        b ← c b + v,    v ~ (0, (1 − c²) R),    c = exp(−dt/τ)

A picture z measures x + b. Joint positions say where the links are, and the object cannot be inside
them: each negative signed distance φ_i of the contact set measures φ_i(x) = 0 with the deviation σ, so
that the covariance decides how an overlap is resolved, and how much of it is error of the picture.

A picture that contradicts the prediction by more than :data:`GATE` is not used. The filter restarts
when such pictures agree with each other for :data:`PERSISTENT`, as after a fall; shorter ones are
flips. Poses more certain than ``filter_from`` are taken as they are, and the filter restarts after
them.
"""

from __future__ import annotations

import abc
from typing import NamedTuple

import numpy as np

from dexstack.contact.contact import Contacts
from dexstack.contact.detector import ContactDetector
from dexstack.control.base import Observation
from dexstack.control.params import BLIND_AFTER, BlindParams, TrackerParams
from dexstack.control.predictor import MeasuredState, StatePredictor
from dexstack.perception.se3 import Transform, difference, exp, largest_deviations

GATE = 40.0
"""Largest squared Mahalanobis distance of a picture (6 degrees of freedom)."""
PERSISTENT = 0.2
"""Time for which rejected pictures agree before the filter restarts [s]."""
LEAST = 1e-6
"""Least standard deviations assumed of a picture that is not exact [m], [rad]."""


class Tracked(NamedTuple):
    """The pose that a controller assumes."""

    pose_WO: np.ndarray
    """(7,) at the time of the measurement."""
    deviation: tuple[float, float]
    """Largest standard deviations of position [m] and rotation [rad]."""
    contacts: Contacts | None = None
    """Contacts at the pose, where they are known."""


class Tracker(abc.ABC):
    """Assumes an object pose from consecutive measurements."""

    blind = BlindParams()
    """Behaviour with uncertain poses; may change between two measurements."""

    @abc.abstractmethod
    def reset(self) -> None:
        """Discard the past."""

    @abc.abstractmethod
    def track(self, t: float, pose_WO: np.ndarray, q: np.ndarray, deviation: tuple[float, float]) -> Tracked:
        """Take in a measured pose.

        Args:
            t: time, increasing [s].
            pose_WO: (7,) measured object pose.
            q: (N,) joint positions at the time of the pose [rad, m].
            deviation: standard deviations of the measured position [m] and rotation [rad] along
                every axis; zeros: exact.
        """


class MeanTracker(Tracker):
    """Mean over pictures: from the last assumed pose a share of the way to the measured one, which it
    lags by no more than a picture's motion at full speed."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._last: np.ndarray | None = None
        self._t = -np.inf

    def track(self, t: float, pose_WO: np.ndarray, q: np.ndarray, deviation: tuple[float, float]) -> Tracked:
        share, last = self.blind.speed(deviation), self._last
        if share < 1.0 and last is not None and t - self._t <= BLIND_AFTER and np.isfinite(pose_WO).all():
            ahead = np.array(pose_WO)
            ahead[3:] *= 1.0 if last[3:] @ ahead[3:] >= 0.0 else -1.0
            pose_WO = last + share * (ahead - last)
            pose_WO[3:] /= np.linalg.norm(pose_WO[3:])
        self._last, self._t = pose_WO, t
        return Tracked(pose_WO, deviation)


class ContactTracker(Tracker):
    """Filter that moves the object with the joints and keeps it out of the links; see the module."""

    def __init__(
        self, detector: ContactDetector, predictor: StatePredictor | MeasuredState, params: TrackerParams
    ) -> None:
        self._detector, self._predictor, self.params = detector, predictor, params
        self.reset()

    def reset(self) -> None:
        self._t = -np.inf
        self._q = np.zeros(0)
        self._X, self._b = Transform(np.eye(3), np.zeros(3)), np.zeros(6)
        self._P = np.zeros((12, 12))
        self._contacts: Contacts | None = None
        self._rejected: list[tuple[float, Transform]] = []

    @property
    def covariance(self) -> np.ndarray:
        """(6, 6) covariance of the estimate: translation [m], rotation vector [rad], world axes."""
        return self._P[:6, :6]

    def track(self, t: float, pose_WO: np.ndarray, q: np.ndarray, deviation: tuple[float, float]) -> Tracked:
        certain = not np.any(deviation) or self.blind.doubt(deviation) < self.params.filter_from
        if certain or not np.isfinite([*pose_WO, *deviation]).all():
            self.reset()
            return Tracked(pose_WO, deviation)
        Z, R = Transform.of_pose(pose_WO), np.diag(np.repeat(np.square(np.maximum(deviation, LEAST)), 3))
        gap = t - self._t
        if not 0.0 <= gap <= self.params.tracker_memory:
            self._start(Z, R)
        else:
            self._move(gap, q, R)
            way = difference(Z, self._X) - self._b
            H = np.hstack([np.eye(6), np.eye(6)])
            S = H @ self._P @ H.T + LEAST**2 * np.eye(6)
            if way @ np.linalg.solve(S, way) <= GATE:
                self._rejected.clear()
                self._correct(np.linalg.solve(S, H @ self._P).T, H, way, LEAST**2)
            elif self._persists(t, Z, S):
                self._start(Z, R)
        self._push_out(q)
        self._t, self._q = t, q
        return Tracked(self._X.pose, largest_deviations(self._P), self._contacts)

    def _start(self, Z: Transform, R: np.ndarray) -> None:
        self.reset()
        self._X, self._P = Z, np.block([[R, -R], [-R, R]])

    def _move(self, gap: float, q: np.ndarray, R: np.ndarray) -> None:
        """Move the last estimate with the joints, by the contacts that it had."""
        p, turned = self.params, float(np.linalg.norm(q - self._q))
        seen = Observation(self._t, self._X.pose, self._q, self._contacts)
        self._X = Transform.of_pose(self._predictor.follow(seen, q).pose_WO)
        spread = gap * np.square((p.drift_position, p.drift_rotation))
        spread = spread + turned**2 * np.square((p.slip_position, p.slip_rotation))
        kept = np.exp(-gap / max(p.pose_error_time, 1e-9))
        self._b = kept * self._b
        self._P[6:] *= kept
        self._P[:, 6:] *= kept
        self._P[:6, :6] += np.diag(np.repeat(spread, 3))
        self._P[6:, 6:] += (1.0 - kept**2) * R

    def _correct(self, K: np.ndarray, H: np.ndarray, way: np.ndarray, noise: float) -> None:
        """Apply a gain (12, n) for residuals ``way`` (n,) of rows H (n, 12) with this variance."""
        step = K @ way
        self._X = Transform(exp(step[3:6]) @ self._X.R, self._X.p + step[:3])
        self._b = self._b + step[6:]
        A = np.eye(12) - K @ H
        self._P = A @ self._P @ A.T + noise * K @ K.T

    def _push_out(self, q: np.ndarray) -> None:
        """Displace the estimate out of the links, by the distances that are negative."""
        contacts, noise = self._detector.detect(self._X.pose, q), self.params.contact_error**2
        inside = contacts.active & (contacts.phi < 0.0)
        if inside.any():
            nhat_W, arm = contacts.nhat_W[inside].astype(float), contacts.p_W[inside] - self._X.p
            H = np.hstack([-nhat_W, -np.cross(arm, nhat_W), np.zeros((len(arm), 6))])
            K = np.linalg.solve(H @ self._P @ H.T + noise * np.eye(len(H)), H @ self._P).T
            self._correct(K, H, -contacts.phi[inside], noise)
            contacts = self._detector.detect(self._X.pose, q)
        self._contacts = contacts

    def _persists(self, t: float, Z: Transform, S: np.ndarray) -> bool:
        """Record a rejected picture; return true if such pictures have agreed for long enough."""
        if self._rejected:
            way = difference(Z, self._rejected[-1][1])
            if way @ np.linalg.solve(S, way) > GATE:
                self._rejected.clear()
        self._rejected.append((t, Z))
        return t - self._rejected[0][0] >= PERSISTENT


def make_tracker(
    params: TrackerParams, detector: ContactDetector, predictor: StatePredictor | MeasuredState
) -> Tracker:
    """Return the chosen tracker."""
    return MeanTracker() if params.tracker == "mean" else ContactTracker(detector, predictor, params)
