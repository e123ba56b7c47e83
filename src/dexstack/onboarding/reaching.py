"""Joint angles of one finger next to a free space: vectorised kinematics and least squares for the
place of its tip."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dexstack.geometry.rotations import rotation_matrix
from dexstack.model.hand import HandModel
from dexstack.model.urdf import Shape

TALL, HEIGHT, GAP = 0.06, 0.04, 0.004
"""Heights of the free space and of the fingertips over the palm, and the fingers' clearance from
both [m]."""
SAMPLES = 4096
"""Configurations in which the fingertips' reach is sampled."""
_STARTS, _STEPS, _PROBE = 8, 40, 1e-6
_LIGHT, _BESIDE, _UP, _WITHIN = 0.002, 0.2, 0.5, 2.0
"""Weights of the angles [m/rad], of offsets to the side and up, and of depths in the free space
[-]."""


class Place(NamedTuple):
    """Target of a fingertip, and the free cylinder next to it."""

    at: np.ndarray
    """(2,) in the world's xy [m]"""
    outward: np.ndarray
    """(2,) unit vector away from the cylinder."""
    c: np.ndarray
    """(2,) axis of the cylinder [m]."""
    width: float
    """Radius of the cylinder [m]."""
    top: float
    """Height of the palm [m]."""


class Solution(NamedTuple):
    """Joint angles of one finger."""

    cost: float
    q: np.ndarray
    """(n,) [rad]"""
    miss: float
    """Distance of the fingertip from its place; sideways beyond half the width [m]."""


class Finger:
    """Finger ``f`` of a mounted hand."""

    def __init__(self, hand: HandModel, f: int) -> None:
        first = sum(hand.chains[:f])
        self.joints = slice(first, first + hand.chains[f])
        self._bodies = [
            body for body in hand.bodies[1:] if body.joint in range(first, first + hand.chains[f])
        ]
        self._coupling = [(body.joint - first, body.ratio, body.offset) for body in self._bodies]
        self._R_WP, self._p_WP = rotation_matrix(hand.quat_WP), hand.p_WP
        self.knuckle = self._p_WP + self._R_WP @ self._bodies[0].p_PB
        """(3,) first joint in the world [m]."""
        self._turns = []
        for body in self._bodies:  # Rodrigues' formula: three constant matrices per body
            aa = np.outer(body.axis, body.axis)
            parts = (aa, np.eye(3) - aa, np.cross(np.eye(3), body.axis))
            self._turns.append([body.R_PB_at_zero @ m for m in parts])
        self._p_BT = hand.fingertips[f].p_BT
        self._spheres = [_spheres(body.shapes) for body in self._bodies]
        self.radii = np.concatenate([radii for _, radii in self._spheres])
        margin = 0.05 * (hand.upper - hand.lower)[self.joints]
        self.low, self.high = hand.lower[self.joints] + margin, hand.upper[self.joints] - margin

    def at(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the tips (K, 3) and the centres of the spheres that approximate the links (K, m, 3)
        in the world at angles q (K, n)."""
        R_WB = np.broadcast_to(self._R_WP, (len(q), 3, 3))
        p_WB = np.broadcast_to(self._p_WP, (len(q), 3))
        points = []
        for k, (body, (centres, _)) in enumerate(zip(self._bodies, self._spheres, strict=True)):
            (still, cosine, sine), (joint, ratio, offset) = self._turns[k], self._coupling[k]
            angle = (ratio * q[:, joint] + offset)[:, None, None]
            p_WB = p_WB + R_WB @ body.p_PB
            R_WB = R_WB @ (still + np.cos(angle) * cosine + np.sin(angle) * sine)
            points.append(p_WB[:, None] + centres @ np.swapaxes(R_WB, 1, 2))
        return p_WB + R_WB @ self._p_BT, np.concatenate(points, axis=1)


def tip_clouds(hand: HandModel) -> np.ndarray:
    """Return the places (F, K, 3) of each fingertip in :data:`SAMPLES` configurations within the
    joint limits [m]."""
    from scipy.stats import qmc  # slow to import

    unit = qmc.Sobol(len(hand.home), rng=0).random(SAMPLES)
    q = hand.lower + unit * (hand.upper - hand.lower)
    fingers = [Finger(hand, f) for f in range(len(hand.fingertips))]
    return np.array([finger.at(q[:, finger.joints])[0] for finger in fingers])


def half_extents(shape: Shape) -> np.ndarray:
    """Return the half extents (3,) of a shape's bounding box along the shape's axes [m]."""
    if shape.kind == "box":
        return shape.size
    radius = shape.size[0]
    length = {"sphere": radius, "capsule": radius + shape.size[-1], "cylinder": shape.size[-1]}[shape.kind]
    return np.array([radius, radius, length])


def _spheres(shapes: tuple[Shape, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the spheres that approximate shapes: centres in the body's frame (m, 3), radii (m,); a
    box's are its corners, of radius zero."""
    centres, radii = [np.zeros((0, 3))], [np.zeros(0)]
    for shape in shapes:
        half, radius = half_extents(shape), 0.0
        if shape.kind == "box":
            grid = half * np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
        else:
            radius = float(shape.size[0])
            grid = np.linspace(-1.0, 1.0, 3)[:, None] * (0.0, 0.0, max(half[2] - radius, 0.0))
        centres.append(grid @ shape.R.T + shape.p)
        radii.append(np.full(len(grid), radius))
    return np.concatenate(centres), np.concatenate(radii)


def reach(finger: Finger, place: Place) -> list[Solution]:
    """Solve the least squares for a finger's place from several starts; the best solution first."""
    straight = np.clip(np.zeros(len(finger.low)), finger.low, finger.high)
    sideways = np.array([-place.outward[1], place.outward[0]])

    def off(q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the offsets of the tip outward and up (K, 2) and to the side (K,), and the depths
        of the links in the free space (K, m) [m]."""
        tip, points = finger.at(q)
        away, up = tip[:, :2] - place.at, tip[:, 2] - place.top - HEIGHT
        inward = place.width - (np.linalg.norm(points[:, :, :2] - place.c, axis=2) - finger.radii)
        above = points[:, :, 2] + finger.radii - place.top - GAP
        below = place.top + TALL - (points[:, :, 2] - finger.radii)
        inside = np.maximum(np.minimum(inward, np.minimum(above, below)), 0.0)
        return np.column_stack([away @ place.outward, _UP * up]), away @ sideways, inside

    def residuals(q: np.ndarray) -> np.ndarray:
        near, aside, inside = off(q)
        return np.concatenate(
            [near, _BESIDE * aside[:, None], _WITHIN * inside, _LIGHT * (q - straight)], axis=1
        )

    fractions = np.random.default_rng(0).random((_STARTS, len(straight)))
    fractions[0] = (straight - finger.low) / (finger.high - finger.low)
    starts = finger.low + fractions * (finger.high - finger.low)
    q, cost = least_squares(residuals, starts, finger.low, finger.high)
    near, aside, _ = off(q)
    misses = np.maximum(np.abs(near).max(axis=1), np.abs(aside) - place.width / 2.0)
    return [Solution(float(cost[k]), np.round(q[k], 4), float(misses[k])) for k in np.argsort(cost)]


def least_squares(
    residuals: Callable[[np.ndarray], np.ndarray], x: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Levenberg–Marquardt within bounds, from S starts at once, with finite differences.

    Args:
        residuals: maps variables (K, n) to residuals (K, m).
        x: starts (S, n).
        low, high: bounds (n,).

    Returns:
        Solutions (S, n), and half the sums of squares there (S,).
    """
    (count, n), r = x.shape, residuals(x)
    cost, damping = 0.5 * (r * r).sum(axis=1), np.full(count, 1e-2)
    for _ in range(_STEPS):
        probed = residuals((x[:, None] + _PROBE * np.eye(n)).reshape(-1, n)).reshape(count, n, -1)
        J = (probed - r[:, None]) / _PROBE
        gradient = np.einsum("snm,sm->sn", J, r)
        held = ((x <= low) & (gradient > 0.0)) | ((x >= high) & (gradient < 0.0))
        J = np.where(held[:, :, None], 0.0, J)
        A = J @ np.swapaxes(J, 1, 2)
        scale = damping[:, None] * (A.diagonal(axis1=1, axis2=2) + 1e-9)
        slope = np.where(held, 0.0, gradient)[:, :, None]
        step = -np.linalg.solve(A + scale[:, :, None] * np.eye(n), slope)[:, :, 0]
        tried = np.clip(x + step, low, high)
        r_tried = residuals(tried)
        cost_tried = 0.5 * (r_tried * r_tried).sum(axis=1)
        better = cost_tried < cost
        if ((cost - cost_tried < 1e-9 * cost) & (better | (damping > 1.0))).all():
            break
        x, r = np.where(better[:, None], tried, x), np.where(better[:, None], r_tried, r)
        cost, damping = np.where(better, cost_tried, cost), np.where(better, 0.3 * damping, 5.0 * damping)
    return x, cost
