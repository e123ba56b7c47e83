"""Rotations; quaternions wxyz."""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import ArrayLike


def quaternion_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the Hamilton product a ⊗ b."""
    w, x, y, z = a
    p, q, r, s = b
    return np.array(
        [
            w * p - x * q - y * r - z * s,
            w * q + x * p + y * s - z * r,
            w * r - x * s + y * p + z * q,
            w * s + x * r - y * q + z * p,
        ]
    )


def rotation_matrix(quat: ArrayLike) -> np.ndarray:
    """Return the rotation matrix (3, 3) of a quaternion of any length but zero."""
    w, x, y, z = np.asarray(quat, float) / np.linalg.norm(quat)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def quaternion_of(R: np.ndarray) -> np.ndarray:
    """Return the quaternion (4,) of a rotation matrix (3, 3)."""
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(R, float).reshape(9))
    return quat


def yaw_quaternion(yaw: float) -> np.ndarray:
    """Return the rotation by ``yaw`` [rad] about the world's z axis."""
    return np.array([np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)])


def yaw_of(quat: np.ndarray) -> float:
    """Return the heading of the body's x axis about the world's z axis [rad], in (−π, π]; undefined
    where the x axis is vertical."""
    w, x, y, z = quat
    return float(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))


def geodesic_angle(a: np.ndarray, b: np.ndarray) -> float:
    """Return the angle between two orientations [rad], 2 acos |a·b|."""
    a, b = np.asarray(a, float) / np.linalg.norm(a), np.asarray(b, float) / np.linalg.norm(b)
    dot = abs(float(a @ b))
    return float(2 * np.arctan2(np.sqrt(max(1 - dot * dot, 0.0)), dot))


def wrap_angle(angle: float) -> float:
    """Wrap an angle into (−π, π] [rad]."""
    return float(-((-angle + np.pi) % (2 * np.pi) - np.pi))


def rotate(quat: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Rotate points (K, 3) by a unit quaternion."""
    t = 2 * np.cross(quat[1:], p)
    return p + quat[0] * t + np.cross(quat[1:], t)


def height_turned(corners_O: np.ndarray, pose_WO: np.ndarray, quat: np.ndarray) -> float:
    """Return the height z [m] at which a body with corners (K, 3), turned to ``quat`` (4,), touches
    the level that it touches at a pose (7,)."""
    return float(pose_WO[2] + reach_below(corners_O, quat) - reach_below(corners_O, pose_WO[3:]))


def reach_below(p_B: np.ndarray, quat: np.ndarray) -> float:
    """Return how far points (K, 3) of a body, turned by a unit quaternion, reach below its origin
    [m]."""
    return float(-rotate(quat, p_B)[:, 2].min())
