"""Array sizes of the near set, measured on random states in which two bodies touch."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from dexengines.soft.near import MARGIN, Near, Room, results_of, search_all
from dexengines.soft.scm import Cuts
from dexengines.soft.tables import Clouds, rounded

TOUCHES = 40
"""States measured for every pair."""
TOUCHING, NEARBY = 8, 16
"""Initial number of pairs whose points fit, and least initial number of near pairs where there are
as many; more bodies have three each."""
DEEP = 10.0
"""Greatest overlap of the bodies in them, in ε3."""
TRIES = 200
"""Random states tried; in most, bodies overlap deeply elsewhere."""


def room_for(a: Clouds, b: Clouds, pairs: np.ndarray, eps: np.ndarray, cut: Cuts) -> Room:
    """Return array sizes for the near set of two bodies that touch, point on point with opposite
    normals and turned at random, so that faces lie on faces.
    """
    rng, small = np.random.default_rng(0), Room(1, 0, 0)
    needs = []
    trees = [[cKDTree(_present(rows)[:, :3]) for rows in c.rows] for c in (a, b)]
    for m, (i, j, *_) in enumerate(pairs):
        of_a, of_b, touches = _present(a.rows[i]), _present(b.rows[j]), 0
        for _ in range(TRIES):
            (x, u), (y, v) = (np.split(rows[rng.integers(len(rows)), :6], 2) for rows in (of_a, of_b))
            R = _onto(v, -u, rng)
            p = x - R @ y - rng.uniform(0.0, DEEP) * eps[m, 2] * u
            if _depth(of_a, trees[0][i], of_b[:, :3] @ R.T + p) > DEEP * eps[m, 2] + eps[m, 1]:
                continue
            poses = np.stack([np.eye(3), R]), np.stack([np.zeros(3), p])
            needs.append(search_once(a, b, np.array([[i, j, 0, 1]]), *poses, eps[m : m + 1], cut, small).need)
            touches += 1
            if touches == TOUCHES:
                break
    _, blocks, planes = MARGIN * np.max(needs, axis=0)
    return Room(min(len(pairs), NEARBY), rounded(min(len(pairs), TOUCHING) * blocks), rounded(planes))


def _present(rows: np.ndarray) -> np.ndarray:
    return rows[rows[:, 7] == 0.0]


def _depth(rows: np.ndarray, tree: cKDTree, p: np.ndarray) -> float:
    """Return the depth of the deepest of points (N, 3) below the plane nearest to it."""
    nearest = rows[tree.query(p)[1]]
    return float(np.max(np.sum((nearest[:, :3] - p) * nearest[:, 3:6], axis=1)))


def search_once(
    a: Clouds,
    b: Clouds,
    pairs: np.ndarray,
    R: np.ndarray,
    p: np.ndarray,
    eps: np.ndarray,
    cut: Cuts,
    room: Room,
) -> Near:
    """Return the near set of all pairs; see :func:`~dexengines.soft.near.search`."""
    result = [np.empty(*kind) for kind in results_of(room, np.dtype(float))]
    far = np.array([cut.onset.end, cut.points.end, cut.planes.end])
    search_all((tuple(a), tuple(b)), pairs.astype(np.int32), (R, p), eps, far, tuple(result))
    return Near(*result)


def _onto(v: np.ndarray, u: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a rotation (3, 3) that turns the unit vector v into u, by a random angle about it."""

    def axes(w: np.ndarray, x: np.ndarray) -> np.ndarray:
        across = np.cross(w, x)
        across /= np.linalg.norm(across)
        return np.stack([w, across, np.cross(w, across)], axis=1)

    return axes(u, rng.normal(size=3)) @ axes(v, rng.normal(size=3)).T
