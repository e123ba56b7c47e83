"""Search for the rotational symmetry of a surface."""

from __future__ import annotations

import numpy as np
import trimesh
from scipy.spatial import cKDTree

from dexstack.errors import ConfigError
from dexstack.geometry.rotations import rotate
from dexstack.geometry.symmetry import (
    ANY,
    HIGHEST_ORDER,
    MOST_TURNS,
    NONE,
    SAME_TURN,
    Axis,
    Symmetry,
    about,
)

TOLERANCE = 0.01
"""Largest distance of a turned surface from itself, as a share of the body's size, so that a
polygon can stand for a circle."""
SAME_AXIS = 0.02
"""Directions nearer to each other than this are the same [rad]: a turn by less moves a surface by
little more than the tolerance."""
_SAMPLES, _DENSE = 1000, 30_000
_ANGLES = np.array([0.13, 0.7, 1.31, 1.9, 2.4, 2.75, 3.05])
"""Turns that no order up to the highest contains [rad]."""


def find_symmetry(mesh: trimesh.Trimesh, inertia: np.ndarray) -> Symmetry:
    """Return the symmetry of a surface about the origin of its frame, its centre of mass.

    An axis of symmetry is a principal axis of the inertia (3, 3). Where these are not distinct,
    axes through corners, edges and faces of the convex hull are tried, and their projections across
    the principal axes.
    """
    turned = _Turned(mesh)
    tried = [(*turned.order(ahat), ahat) for ahat in _directions(mesh, inertia)]
    group = NONE
    for _, order, ahat in sorted((t for t in tried if t[1] != 1), key=lambda t: (t[1] != ANY, -t[1], t[0])):
        generator = about(ahat, _ANGLES[0] if order == ANY else 2 * np.pi / order)
        if group.angle(np.array([1.0, 0.0, 0.0, 0.0]), generator) < SAME_TURN:
            continue
        try:
            group = Symmetry((*group.axes, Axis(ahat, order)))
        except ConfigError:
            continue  # an axis close to one that is in the group already
        if group.is_ball:
            break
    return group


class _Turned:
    """Comparison of a surface with itself after a turn about the origin."""

    def __init__(self, mesh: trimesh.Trimesh) -> None:
        points = _spread(mesh, _DENSE, 0)
        self._tree = cKDTree(points)
        self._points = np.concatenate(
            [_spread(mesh, _SAMPLES, 1), np.asarray(mesh.convex_hull.vertices)[:_SAMPLES]]
        )
        spacing = np.quantile(self._tree.query(self._points)[0], 0.999)
        self._allowed = TOLERANCE * float(np.ptp(mesh.vertices, axis=0).max()) + float(spacing)

    def order(self, ahat: np.ndarray) -> tuple[float, int]:
        """Return the largest distance of the turned surface from itself [m], and the largest order
        of the axis at which it looks alike, 1 without symmetry."""
        off = self._off(ahat, _ANGLES)
        if off <= self._allowed:
            return off, ANY
        for n in range(HIGHEST_ORDER, 1, -1):
            off = self._off(ahat, 2 * np.pi / n * np.arange(1, n // 2 + 1))
            if off <= self._allowed:
                return off, n
        return np.inf, 1

    def _off(self, ahat: np.ndarray, angles: np.ndarray) -> float:
        worst, bound = 0.0, 2.0 * self._allowed
        for points in (self._points[::10], self._points):  # a few points exclude most axes
            for angle in angles:
                turned = rotate(about(ahat, angle), points)
                worst = max(worst, float(self._tree.query(turned, distance_upper_bound=bound)[0].max()))
                if worst > self._allowed:
                    return worst
        return worst


def _spread(mesh: trimesh.Trimesh, count: int, seed: int) -> np.ndarray:
    return np.asarray(trimesh.sample.sample_surface(mesh, count, seed=seed)[0])


def _directions(mesh: trimesh.Trimesh, inertia: np.ndarray) -> list[np.ndarray]:
    """Return distinct unit vectors that may be axes, those of the frame and the principal ones
    first."""
    hull = mesh.convex_hull
    _, principal = np.linalg.eigh(inertia)
    corners = [
        np.asarray(hull.vertices),
        np.asarray(hull.facets_normal).reshape(-1, 3),
        hull.vertices[hull.edges_unique].mean(axis=1),
    ]
    corners = np.concatenate([some if len(some) <= MOST_TURNS else some[:0] for some in corners])
    across = [corners - np.outer(corners @ a, a) for a in principal.T]
    candidates = np.concatenate([np.eye(3), principal.T, corners, *across])
    length = np.linalg.norm(candidates, axis=1)
    candidates = candidates[length > 1e-3 * length.max()] / length[length > 1e-3 * length.max(), None]
    off = np.linalg.norm(
        candidates @ inertia
        - np.einsum("ni,ij,nj->n", candidates, inertia, candidates)[:, None] * candidates,
        axis=1,
    )
    kept: list[np.ndarray] = []
    for a in candidates[off < TOLERANCE * np.trace(inertia)]:
        if all(abs(a @ b) < np.cos(SAME_AXIS) for b in kept):
            kept.append(a if a[np.argmax(np.abs(a))] > 0.0 else -a)
    return kept
