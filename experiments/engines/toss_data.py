"""Recorded tosses of a cube: reading, calibration of lengths, states at the start.

The tosses are motion capture of an acrylic cube thrown onto a table (Pfrommer, Halm and Posa,
*ContactNets*, CoRL 2020), not part of this project. A file holds ``length`` (n,), ``index`` (n,), and,
one toss after another, ``p_WB`` (M, 3) [m] and ``quat_WB`` (M, 4) wxyz, samples at :data:`RATE`, the
table at z = 0.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from dexstack.errors import ConfigError

RATE = 148.0
"""Samples of a recording per second [Hz]."""
WIDTH, MASS, INERTIA = 0.1048, 0.37, 8.1e-4
"""Edge [m], mass [kg] and moment of inertia [kg m²] of the cube, published with the tosses."""
GRAVITY = 9.81
CLEAR = 0.004
"""Height of the lowest corner above the table that counts as flight [m]."""
LEAST = 3
"""Samples of flight from which a velocity is fitted; fewer are taken as flight."""
CORNERS = np.array(np.meshgrid(*[[-0.5, 0.5]] * 3)).reshape(3, -1).T
"""(8, 3) corners of the cube in widths."""


class Toss(NamedTuple):
    """One toss, K samples at :data:`RATE`; the table is z = 0."""

    index: int
    """Number in the publication."""
    q: np.ndarray
    """(K, 7) position [m] and quaternion wxyz; the first is fitted to the flight."""
    v: np.ndarray
    """(6,) velocity at the first sample: linear [m/s] in world, angular [rad/s] in body axes."""


def read_tosses(path: Path) -> tuple[list[Toss], float]:
    """Read a file of tosses.

    Lengths are divided by :func:`length_scale`, and the state at the start is :func:`flight_start`.

    Returns:
        The tosses, and the scale of lengths in the file.

    Raises:
        ConfigError: the file is missing or lacks an array.
    """
    try:
        with np.load(path) as file:
            names = ("length", "index", "p_WB", "quat_WB")
            length, index, p, quat = (np.asarray(file[name]) for name in names)
    except (OSError, KeyError, ValueError) as error:
        raise ConfigError(f"no tosses in {path}: {error}") from None
    q = np.hstack([p, quat]).astype(float)
    rows = [q[end - n : end] for n, end in zip(length, np.cumsum(length), strict=True)]
    scale = length_scale(rows)
    for row in rows:
        row[:, :3] /= scale
    return [_toss(int(k), row) for k, row in zip(index, rows, strict=True)], scale


def length_scale(rows: list[np.ndarray]) -> float:
    """Return the recorded over the true length: the acceleration of free flight over gravity's.

    A parabola is fitted to each flight's heights; its acceleration is weighted by the inverse of its
    variance, which goes with the fifth power of the time.
    """
    acceleration, weight = [], []
    for q in rows:
        n = flight_samples(q)
        t = np.arange(n) / RATE
        acceleration.append(-2.0 * np.polyfit(t, q[:n, 2], 2)[0])
        weight.append(float(n) ** 5)
    return float(np.average(acceleration, weights=weight)) / GRAVITY


def flight_samples(q: np.ndarray) -> int:
    """Return how many of the poses (K, 7) precede the first contact."""
    low = lowest(q) < CLEAR
    return max(int(np.argmax(low)) if low.any() else len(q), LEAST)


def lowest(q: np.ndarray, width: float = WIDTH) -> np.ndarray:
    """Return the heights (K,) [m] of the lowest corners at poses (K, 7)."""
    R_WB = Rotation.from_quat(q[:, 3:], scalar_first=True).as_matrix()
    return q[:, 2] + (R_WB[:, 2] @ (width * CORNERS).T).min(axis=1)


def flight_start(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fit free flight to the samples before the first contact.

    A sample's noise of 0.05 mm and 0.4 mrad makes differences of neighbours err by 12 mm/s and
    0.1 rad/s. A cube's inertia is that of a sphere: in flight its angular velocity is constant in
    world axes.

    Returns:
        Pose (7,) and velocity (6,) at the first sample, as in :class:`Toss`.
    """
    n = flight_samples(q)
    t = np.arange(n) / RATE
    p = q[:n, :3] + np.outer(0.5 * GRAVITY * t**2, [0.0, 0.0, 1.0])
    v_W, p_WB = np.polyfit(t, p, 1)
    R = Rotation.from_quat(q[:n, 3:], scalar_first=True)
    R_WB, omega_W = R[0], (R[1] * R[0].inv()).as_rotvec() * RATE
    for _ in range(4):  # Gauss-Newton: the residuals are small
        error = (R * (Rotation.from_rotvec(np.outer(t, omega_W)) * R_WB).inv()).as_rotvec()
        d_omega, d_R = np.polyfit(t, error, 1)
        omega_W, R_WB = omega_W + d_omega, Rotation.from_rotvec(d_R) * R_WB
    pose = np.concatenate([p_WB, R_WB.as_quat(scalar_first=True)])
    return pose, np.concatenate([v_W, R_WB.inv().apply(omega_W)])


def _toss(index: int, q: np.ndarray) -> Toss:
    pose, v = flight_start(q)
    return Toss(index, np.vstack([pose, q[1:]]), v)
