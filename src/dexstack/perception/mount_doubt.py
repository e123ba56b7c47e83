"""Errors of the calibration in the covariance of an object's pose.

An error of the camera's mount displaces every pose that the camera sees as one rigid body does: with
e = (δp, δθ) at the pivot p_WQ, along the world's axes,

    δp_WO = δp + δθ × (p_WO − p_WQ),    δθ_WO = δθ.

A relative error ε of the focal length changes the seen pose by s_O ε, mostly along the optical axis by
the distance (:attr:`dexstack.perception.pose.BundlePose.focal`). A mount that was measured with the
same focal length is wrong by h ε. Both act together:

    P_WO = P_pixels + A P Aᵀ + σ_f² v vᵀ,    v = A h + s_O,    A = [1, −[p_WO − p_WQ]×; 0, 1].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dexstack.perception.camera_params import EstimatorParams
from dexstack.perception.se3 import Transform, skew


class MountDoubt(NamedTuple):
    """Uncertainty of the camera's mount."""

    pivot: np.ndarray
    """(3,) point p_WQ, fixed to the camera, whose displacement is δp [m]."""
    covariance: np.ndarray
    """(6, 6) of (δp, δθ) along the world's axes [m, rad], without the focal length's part."""
    focal: np.ndarray
    """(6,) h: change of (δp, δθ) with a relative error of the focal length [m, rad]."""

    @classmethod
    def calibrated(cls, X_WC: Transform, params: EstimatorParams) -> MountDoubt:
        """Return the uncertainty that the parameters state, of the camera about its own origin."""
        sigma = np.repeat([params.mount_error_position, params.mount_error_rotation], 3)
        return cls(X_WC.p, np.diag(sigma**2), np.zeros(6))

    def of_object(self, p_WO: np.ndarray, focal: np.ndarray, focal_error: float) -> np.ndarray:
        """Return the covariance (6, 6) that the calibration adds to an object's pose.

        Args:
            p_WO: (3,) the object's position [m].
            focal: (6,) s_O along the world's axes [m, rad].
            focal_error: σ_f, relative standard deviation of the focal length.

        Returns:
            Of translation [m] and rotation vector [rad] along the world's axes.
        """
        A = np.eye(6)
        A[:3, 3:] = -skew(p_WO - self.pivot)
        v = focal_error * (A @ self.focal + focal)
        return A @ self.covariance @ A.T + np.outer(v, v)


def turned(R: np.ndarray) -> np.ndarray:
    """Return the matrix (6, 6) that turns translation and rotation vector by ``R`` (3, 3)."""
    return np.kron(np.eye(2), R)
