"""Pose filter on R³ × SO(3): an error-state Kalman filter with velocities that are forgotten.

    ṗ = v,    v̇ = −v/τ + a,    Ṙ = [ω]× R,    ω̇ = −ω/τ + α,    a, α white

The error is (δp, δθ, δv, δω), everything along the axes of the world: R = exp(δθ) R̂. The
discretisation over dt is exact for the linear part. τ bounds what an object that is not seen may be
thought to do: its uncertainty grows, but it does not fly away. An observation that contradicts the
prediction by more than :data:`GATE` is not used; when the next few agree with each other instead,
the filter starts anew.
"""

from __future__ import annotations

import numpy as np

from dexstack.perception.se3 import Transform, difference, exp

GATE = 40.0
"""Largest squared Mahalanobis distance of an observation (6 degrees of freedom)."""
AGREE = 3
"""So many refused observations in a row that agree with each other are believed."""
FASTEST = (0.18, 3.0)
"""A body is not thought to go on faster than this [m/s, rad/s]: a finger that throws it to a new
place also stops it there."""
NEAR = (0.01, 0.2)
"""Observations agree within this [m, rad]."""


def agree(a: Transform, b: Transform) -> bool:
    """Whether two observations may be of one body, a few pictures apart."""
    way = difference(a, b)
    return bool(np.linalg.norm(way[:3]) <= NEAR[0] and np.linalg.norm(way[3:]) <= NEAR[1])


class PoseFilter:
    """Pose and velocity of one body.

    Args:
        acceleration_noise: root of the power density of a [m/s per sqrt(s)]; turn_noise: of α
            [rad/s per sqrt(s)].
        memory: τ [s].
    """

    def __init__(self, acceleration_noise: float, turn_noise: float, memory: float) -> None:
        self._noise = np.array([acceleration_noise] * 3 + [turn_noise] * 3) ** 2
        self._memory = memory
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.t = np.nan
        """Time of the state [s]; NaN: there is none."""
        self.X = Transform(np.eye(3), np.zeros(3))
        self.velocity = np.zeros(6)
        self.P = np.eye(12)
        """(12, 12) covariance of (δp, δθ, δv, δω)."""
        self._refused: list[Transform] = []

    @property
    def running(self) -> bool:
        return bool(np.isfinite(self.t))

    @property
    def covariance(self) -> np.ndarray:
        """(6, 6) of the pose."""
        return self.P[:6, :6]

    def predict(self, t: float) -> None:
        """Go on to time ``t`` [s], not before the last one."""
        dt = t - self.t
        if dt <= 0.0:
            return
        tau = self._memory
        a = np.exp(-dt / tau)
        b = tau * (1.0 - a)
        for part, fastest in zip((self.velocity[:3], self.velocity[3:]), FASTEST, strict=True):
            part *= min(1.0, fastest / max(float(np.linalg.norm(part)), 1e-9))
        self.X = Transform(exp(b * self.velocity[3:]) @ self.X.R, self.X.p + b * self.velocity[:3])
        turn = exp(b * self.velocity[3:])
        self.velocity = a * self.velocity
        F = np.eye(12)
        F[3:6, 3:6] = turn
        F[:6, 6:] = b * np.eye(6)
        F[6:, 6:] = a * np.eye(6)
        vv = tau / 2.0 * (1.0 - a * a)
        pv = tau**2 / 2.0 * (1.0 - a) ** 2
        pp = tau**2 * (dt - 2.0 * b + vv)
        Q = np.zeros((12, 12))
        Q[:6, :6], Q[6:, 6:] = np.diag(pp * self._noise), np.diag(vv * self._noise)
        Q[:6, 6:] = Q[6:, :6] = np.diag(pv * self._noise)
        self.P = F @ self.P @ F.T + Q
        self.t = t

    def update(self, t: float, X: Transform, covariance: np.ndarray, sure: bool = True) -> bool:
        """Take an observed pose with its covariance (6, 6); whether it was used.

        An observation that is not ``sure`` may be wrong in the same way again and again: no number
        of them outweighs the prediction.
        """
        if not self.running:
            self.start(t, X, covariance)
            return True
        self.predict(t)
        innovation = difference(X, self.X)
        S = self.P[:6, :6] + covariance
        if innovation @ np.linalg.solve(S, innovation) > GATE:
            return sure and self._refuse(t, X, covariance)
        self._refused.clear()
        K = np.linalg.solve(S, self.P[:6]).T
        step = K @ innovation
        self.X = Transform(exp(step[3:6]) @ self.X.R, self.X.p + step[:3])
        self.velocity = self.velocity + step[6:]
        A = np.eye(12)
        A[:, :6] -= K
        self.P = A @ self.P @ A.T + K @ covariance @ K.T  # Joseph's form: stays positive
        return True

    def start(self, t: float, X: Transform, covariance: np.ndarray) -> None:
        """Begin (anew) with one observation."""
        self.reset()
        self.t, self.X = t, X
        self.P = np.zeros((12, 12))
        self.P[:6, :6] = covariance
        self.P[6:, 6:] = np.diag(self._noise * self._memory / 2.0)  # the velocities' stationary variance

    def _refuse(self, t: float, X: Transform, covariance: np.ndarray) -> bool:
        """Keep an observation that contradicts the prediction, and start anew once enough of them
        agree."""
        if self._refused and not agree(X, self._refused[-1]):
            self._refused.clear()
        self._refused.append(X)
        if len(self._refused) < AGREE:
            return False
        self.start(t, X, covariance)
        return True
