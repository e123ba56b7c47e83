"""Rotations from quaternions wxyz."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


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
