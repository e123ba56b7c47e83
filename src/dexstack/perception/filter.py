"""Pose filter on R³ × SO(3): an error-state Kalman filter with decaying velocities.

    ṗ = v,    v̇ = −v/τ + a,    Ṙ = [ω]× R,    ω̇ = −ω/τ + α,    a, α white

The error is (δp, δθ, δv, δω), all along the axes of the world: R = exp(δθ) R̂. The discretisation
over dt is exact for the linear part. τ bounds the predicted motion of an object that is not seen. An
observation that contradicts the prediction by more than :data:`GATE` is not used; when several
consecutive ones agree with each other instead, the filter restarts.
"""

from __future__ import annotations

import numpy as np

from dexstack.perception.se3 import Transform, difference, exp

GATE = 40.0
"""Largest squared Mahalanobis distance of an observation (6 degrees of freedom)."""
AGREE = 3
"""Consecutive rejected observations that must agree with each other for a restart."""
FASTEST = (0.18, 3.0)
"""Largest speeds of a prediction [m/s, rad/s]: a finger that throws the body also stops it."""
NEAR = (0.01, 0.2)
"""Distance within which observations agree [m, rad]."""


def agree(a: Transform, b: Transform) -> bool:
    """Return true if two observations, a few pictures apart, agree within :data:`NEAR`."""
    way = difference(a, b)
    return bool(np.linalg.norm(way[:3]) <= NEAR[0] and np.linalg.norm(way[3:]) <= NEAR[1])


class PoseFilter:
    """Pose and velocity of one body.

    Args:
        acceleration_noise: square root of the power density of a [m/s per sqrt(s)].
        turn_noise: square root of the power density of α [rad/s per sqrt(s)].
        memory: τ [s].
    """

    def __init__(self, acceleration_noise: float, turn_noise: float, memory: float) -> None:
        self._noise = np.array([acceleration_noise] * 3 + [turn_noise] * 3) ** 2
        self._memory = memory
        self.reset()

    def reset(self) -> None:
        """Discard the state."""
        self.t = np.nan
        """Time of the state [s]; NaN without one."""
        self.X = Transform(np.eye(3), np.zeros(3))
        self.velocity = np.zeros(6)
        self.P = np.eye(12)
        """(12, 12) covariance of (δp, δθ, δv, δω)."""
        self._rejected: list[Transform] = []

    @property
    def running(self) -> bool:
        return bool(np.isfinite(self.t))

    @property
    def covariance(self) -> np.ndarray:
        """(6, 6) covariance of the pose."""
        return self.P[:6, :6]

    def predict(self, t: float) -> None:
        """Predict the state at time ``t`` [s]; times before the state's are ignored."""
        dt = t - self.t
        if dt <= 0.0:
            return
        tau = self._memory
        a = np.exp(-dt / tau)
        b = tau * (1.0 - a)
        for part, fastest in zip((self.velocity[:3], self.velocity[3:]), FASTEST, strict=True):
            part *= min(1.0, fastest / max(float(np.linalg.norm(part)), 1e-9))
        turn = exp(b * self.velocity[3:])
        self.X = Transform(turn @ self.X.R, self.X.p + b * self.velocity[:3])
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
        """Update with an observed pose and its covariance (6, 6).

        An observation that is not ``sure`` may be wrong repeatedly in the same way, so that it never
        causes a restart.

        Returns:
            True if the observation was used.
        """
        if not self.running:
            self.start(t, X, covariance)
            return True
        self.predict(t)
        innovation = difference(X, self.X)
        S = self.P[:6, :6] + covariance
        if innovation @ np.linalg.solve(S, innovation) > GATE:
            return sure and self._reject(t, X, covariance)
        self._rejected.clear()
        K = np.linalg.solve(S, self.P[:6]).T
        step = K @ innovation
        self.X = Transform(exp(step[3:6]) @ self.X.R, self.X.p + step[:3])
        self.velocity = self.velocity + step[6:]
        A = np.eye(12)
        A[:, :6] -= K
        self.P = A @ self.P @ A.T + K @ covariance @ K.T  # Joseph's form stays positive definite
        return True

    def start(self, t: float, X: Transform, covariance: np.ndarray) -> None:
        """Restart from one observation."""
        self.reset()
        self.t, self.X = t, X
        self.P = np.zeros((12, 12))
        self.P[:6, :6] = covariance
        self.P[6:, 6:] = np.diag(self._noise * self._memory / 2.0)  # the velocities' stationary variance

    def move(self, T: Transform) -> None:
        """Move the state with the frame that observations are given in: X ← T X."""
        turn = np.kron(np.eye(4), T.R)
        self.X, self.velocity, self.P = (
            T.compose(self.X),
            turn[:6, :6] @ self.velocity,
            turn @ self.P @ turn.T,
        )
        self._rejected.clear()

    def _reject(self, t: float, X: Transform, covariance: np.ndarray) -> bool:
        """Record an observation that contradicts the prediction; restart once enough agree."""
        if self._rejected and not agree(X, self._rejected[-1]):
            self._rejected.clear()
        self._rejected.append(X)
        if len(self._rejected) < AGREE:
            return False
        self.start(t, X, covariance)
        return True
