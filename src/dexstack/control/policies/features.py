"""Features that policies observe, by name: the same in environments and in the planner that deploys a
policy.

Frames: W world, O object, G goal (the object's pose at the goal).
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dexstack.errors import check_names
from dexstack.geometry.rotations import quaternion_product, rotation_matrix


class Sight(NamedTuple):
    """What a policy sees at one moment."""

    t: float
    """Time [s]."""
    q: np.ndarray
    """(N,) joint positions [rad, m]."""
    pose_WO: np.ndarray
    """(7,) object pose."""
    goal_WO: np.ndarray
    """(7,) goal pose."""
    target: np.ndarray
    """(N,) joint target in force [rad, m]."""
    action: np.ndarray
    """(N,) the policy's last action; zeros before the first."""


class Moments(NamedTuple):
    """What a feature is computed from."""

    now: Sight
    before: Sight
    """The moment before; at the first, ``now``."""
    first: Sight
    """The first moment of the rollout."""
    lower: np.ndarray
    """(N,) lower joint limits [rad, m]."""
    upper: np.ndarray
    """(N,) upper joint limits [rad, m]."""
    phase_period: float
    """Period of the feature ``phase`` [s]."""

    @property
    def dt(self) -> float:
        """Time since the moment before [s]."""
        return max(self.now.t - self.before.t, 1e-6)

    @property
    def phase(self) -> float:
        """[rad]"""
        return 2.0 * np.pi * (self.now.t - self.first.t) / self.phase_period


def _relative(sight: Sight) -> np.ndarray:
    """Return the quaternion (4,) of R_OG = R_WOᵀ R_WG with a positive real part."""
    quat_OW = sight.pose_WO[3:] * np.array([1.0, -1.0, -1.0, -1.0])
    return _positive(quaternion_product(quat_OW, sight.goal_WO[3:]))


def _difference_W(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the quaternion (4,) of R_WA R_WBᵀ of two poses (7,), with a positive real part."""
    return _positive(quaternion_product(a[3:], b[3:] * np.array([1.0, -1.0, -1.0, -1.0])))


def _rotation_vector(quat: np.ndarray) -> np.ndarray:
    sine = np.linalg.norm(quat[1:])
    return 2.0 * np.arctan2(sine, quat[0]) / max(sine, 1e-12) * quat[1:]


def _positive(quat: np.ndarray) -> np.ndarray:
    return quat if quat[0] >= 0.0 else -quat


FEATURES: Mapping[str, Callable[[Moments], np.ndarray]] = {
    "time": lambda m: np.array([m.now.t - m.first.t]),
    "phase": lambda m: np.array([np.sin(m.phase), np.cos(m.phase)]),
    "last_action": lambda m: m.now.action,
    "q": lambda m: m.now.q,
    "q_normalised": lambda m: (2.0 * m.now.q - m.upper - m.lower) / (m.upper - m.lower),
    "qd": lambda m: (m.now.q - m.before.q) / m.dt,
    "target": lambda m: m.now.target,
    "following_error": lambda m: m.now.target - m.now.q,
    "position": lambda m: m.now.pose_WO[:3],
    "displacement": lambda m: m.now.pose_WO[:3] - m.first.pose_WO[:3],
    "quaternion": lambda m: _positive(m.now.pose_WO[3:]),
    "linear_velocity": lambda m: (m.now.pose_WO[:3] - m.before.pose_WO[:3]) / m.dt,
    "angular_velocity": lambda m: _rotation_vector(_difference_W(m.now.pose_WO, m.before.pose_WO)) / m.dt,
    "goal_position": lambda m: m.now.goal_WO[:3],
    "goal_quaternion": lambda m: _positive(m.now.goal_WO[3:]),
    "goal_offset": lambda m: m.now.goal_WO[:3] - m.now.pose_WO[:3],
    "relative_quaternion": lambda m: _relative(m.now),
    "relative_quaternion_W": lambda m: _difference_W(m.now.pose_WO, m.now.goal_WO),
    "relative_rotation_vector": lambda m: _rotation_vector(_relative(m.now)),
    "relative_rotation_6d": lambda m: rotation_matrix(_relative(m.now))[:, :2].T.ravel(),
}
"""Time since the first moment (``time`` [s]), also as sine and cosine of a period (``phase``); the
policy's last action; joint positions (``q`` [rad, m]; ``q_normalised``: limits at ±1), their velocities by
differences of the policy's moments (``qd``), the target in force and its distance from the joints; poses of
object and goal in the world (quaternions wxyz, real part positive), the displacement of the object since the
first moment, and its velocities by differences [m/s, rad/s]; R_OG, the rotation from object to goal in the
object's frame, as quaternion, rotation vector [rad], or first two columns; and R_WO R_WGᵀ, that from goal to
object in the world's frame (``relative_quaternion_W``)."""
DEFAULT = ("q", "qd", "target", "displacement", "relative_rotation_6d", "goal_offset")
"""Features where none are chosen."""


class FeatureStack:
    """Observations of a policy: named features of the last moments, the oldest first.

    Before enough moments have passed, the first one stands for those that lack.
    """

    def __init__(
        self,
        names: Sequence[str],
        lower: np.ndarray,
        upper: np.ndarray,
        history: int = 1,
        phase_period: float = 1.0,
    ) -> None:
        """
        Args:
            names: of :data:`FEATURES`, in order.
            lower: lower joint limits (N,) [rad, m].
            upper: upper ones.
            history: number of moments in one observation.
            phase_period: of the feature ``phase`` [s].

        Raises:
            ConfigError: an unknown feature.
        """
        check_names("feature", names, FEATURES)
        self._functions = [FEATURES[name] for name in names]
        self._constants, self._history = (lower, upper, phase_period), history
        self.reset()

    def reset(self) -> None:
        """Discard the moments."""
        self._first: Sight | None = None
        self._before: Sight | None = None
        self._rows: collections.deque[np.ndarray] = collections.deque(maxlen=self._history)

    def add(self, now: Sight) -> np.ndarray:
        """Add a moment; return the observation (history · D,)."""
        self._first, before = self._first or now, self._before or now
        moments = Moments(now, before, self._first, *self._constants)
        row = np.concatenate([feature(moments) for feature in self._functions])
        self._rows.extend([row] * (1 if self._rows else self._history))
        self._before = now
        return np.concatenate(self._rows)
