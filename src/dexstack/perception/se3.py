"""Rigid transforms and small rotations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dexstack.geometry.rotations import quaternion_of, rotation_matrix


def skew(v: np.ndarray) -> np.ndarray:
    """Return the matrix (3, 3) of the cross product with ``v`` (3,)."""
    x, y, z = v
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def exp(rotvec: np.ndarray) -> np.ndarray:
    """Return the rotation (3, 3) by the vector ``rotvec`` (3,) [rad]."""
    angle = float(np.sqrt(rotvec @ rotvec))
    K = skew(rotvec)
    if angle < 1e-6:
        return np.eye(3) + K + 0.5 * K @ K
    return np.eye(3) + np.sin(angle) / angle * K + (1.0 - np.cos(angle)) / angle**2 * K @ K


def log(R: np.ndarray) -> np.ndarray:
    """Return the rotation vector (3,) [rad] of ``R`` (3, 3), no longer than π."""
    quat = quaternion_of(R)
    quat = quat if quat[0] >= 0.0 else -quat
    length = float(np.sqrt(quat[1:] @ quat[1:]))
    return quat[1:] * (2.0 if length < 1e-9 else 2.0 * np.arctan2(length, quat[0]) / length)


class Transform(NamedTuple):
    """Rigid transform ``X_AB`` of points from frame B to frame A."""

    R: np.ndarray
    """(3, 3)"""
    p: np.ndarray
    """(3,) origin of B in A [m]."""

    @classmethod
    def of_pose(cls, pose: ArrayLike) -> Transform:
        """Return the transform of position and quaternion wxyz (7,)."""
        return cls(rotation_matrix(pose[3:]), np.asarray(pose[:3], float).copy())

    @classmethod
    def look_at(cls, eye: ArrayLike, target: ArrayLike, up: ArrayLike = (0.0, 0.0, 1.0)) -> Transform:
        """Return the pose of a camera at ``eye`` with ``target`` on its optical axis and ``up``
        upwards in its picture."""
        z = np.subtract(target, eye).astype(float)
        z /= np.linalg.norm(z)
        x = np.cross(z, up)
        x /= np.linalg.norm(x)
        return cls(np.column_stack([x, np.cross(z, x), z]), np.array(eye, float))

    @property
    def pose(self) -> np.ndarray:
        """Position and quaternion wxyz (7,)."""
        return np.concatenate([self.p, quaternion_of(self.R)])

    @property
    def inverse(self) -> Transform:
        return Transform(self.R.T, -self.R.T @ self.p)

    def compose(self, other: Transform) -> Transform:
        """Return X_AC = ``X_AB.compose(X_BC)``."""
        return Transform(self.R @ other.R, self.R @ other.p + self.p)

    def apply(self, points: np.ndarray) -> np.ndarray:
        """Transform points (n, 3) from B to A."""
        return points @ self.R.T + self.p


def difference(a: Transform, b: Transform) -> np.ndarray:
    """Return translation [m] and rotation vector [rad] (6,) from ``b`` to ``a``, both along the axes
    of the frame that they are given in."""
    return np.concatenate([a.p - b.p, log(a.R @ b.R.T)])


def between(a: Transform, b: Transform, share: float) -> Transform:
    """Interpolate at ``share`` (0 to 1) of the way from ``a`` to ``b``."""
    way = difference(b, a)
    return Transform(exp(share * way[3:]) @ a.R, a.p + share * way[:3])


def largest_deviations(P: np.ndarray) -> tuple[float, float]:
    """Return the largest standard deviations of translation [m] and rotation [rad] in any direction, of
    their covariance (6, 6)."""
    linear, angular = (np.sqrt(max(np.linalg.eigvalsh(block)[-1], 0.0)) for block in (P[:3, :3], P[3:, 3:]))
    return float(linear), float(angular)
