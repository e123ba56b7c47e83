"""Search tables of oriented points: leaves of neighbouring points, and voxels with the planes that
a point in them meets.

A voxel lists every plane that a point in it can meet, and a lower bound of the distance; voxels
farther from the body than any near point are empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from dexengines.kernels import entry, inner
from dexengines.soft.cloud import Cloud
from dexengines.soft.scm import ABSENT_PLANE, ABSENT_POINT

LANES = 8
"""Dense clouds are padded to a multiple of this number of points, a CPU's vector length."""
LEAF = 16
"""Points of a cloud that are skipped together if the ball around them is away from the other body's
voxels."""
VOXELS = 250_000
"""Most voxels of a body; with fewer, their edges are half the spacing of its points."""
CUBE = 8
"""Voxels along an edge of a cube whose planes are searched first."""
REMOTE, FACES = 10, 25
"""Most enlargements of the voxels' margin, by a fifth, until nothing is near its outside; places
along an edge of the box at which that is tested."""
GRID = 16
"""Numbers of a body's voxels: origin (3), voxels per metre (3), counts (3), centre and radius of
the ball around the points (4), squared distance [m²] and distance [m] that they were built for,
radius of the ball about that centre outside which nothing is near."""


class Clouds(NamedTuple):
    """Search tables of G clouds."""

    rows: np.ndarray
    """(G, I, 8) point, normal, plane bias, point bias, in the order of the leaves."""
    balls: np.ndarray | None = None
    """(G, I / LEAF, 4) centre and radius of the ball around LEAF points, radius −1 for padding;
    None: all points are always near."""
    grid: np.ndarray | None = None
    """(G, GRID)"""
    start: np.ndarray | None = None
    """(G, V + 1) int32: begin of a voxel's planes in ``items``."""
    items: np.ndarray | None = None
    """(G, K) int32"""
    low: np.ndarray | None = None
    """(G, V) lower bound of the distance of points in the voxel [m]."""


def dense(clouds: Sequence[Cloud]) -> Clouds:
    """Return clouds of which all points are always near."""
    points = max(len(c.points) for c in clouds)
    rows = [np.hstack([c.points, c.normals, np.zeros((len(c.points), 2))]) for c in clouds]
    return Clouds(np.stack([np.concatenate([r, absent(points + -points % LANES - len(r))]) for r in rows]))


def rounded(count: float) -> int:
    """Return the next of 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, …, so that similar bodies have arrays
    of equal sizes."""
    step = 2 ** max(0, int(np.floor(np.log2(max(count, 1.0)))) - 2)
    return max(4, step * int(np.ceil(count / step)))


def build(clouds: Sequence[Cloud], squared: float, distance: float) -> Clouds:
    """Build the tables of clouds.

    Args:
        squared: excess of a plane's squared distance over the nearest one's beyond which it is
            neglected [m²].
        distance: distance beyond which a point is never near [m].
    """
    shapes = {c.points.tobytes() + c.normals.tobytes(): c for c in clouds}
    made = {key: _table(c, squared, distance) for key, c in shapes.items()}
    tables = [made[c.points.tobytes() + c.normals.tobytes()] for c in clouds]
    points, leaves, voxels, items = (max(len(t[k]) for t in tables) for k in (0, 1, 5, 4))
    return Clouds(
        np.stack([np.concatenate([t[0], absent(points - len(t[0]))]) for t in tables]),
        np.stack([np.pad(t[1], [(0, leaves - len(t[1])), (0, 0)], constant_values=-1.0) for t in tables]),
        np.stack([t[2] for t in tables]),
        np.stack([np.pad(t[3], (0, rounded(voxels) + 1 - len(t[3])), mode="edge") for t in tables]),
        np.stack([np.pad(t[4], (0, rounded(items) - len(t[4]))) for t in tables]),
        np.stack([np.pad(t[5], (0, rounded(voxels) - len(t[5]))) for t in tables]),
    )


def absent(count: int) -> np.ndarray:
    """Return (I, 8) rows of padding."""
    return np.tile(np.array([0, 0, 0, 0, 0, 1.0, ABSENT_PLANE, ABSENT_POINT]), (count, 1))


def _table(cloud: Cloud, squared: float, distance: float) -> tuple[np.ndarray, ...]:
    order = _leaves(cloud.points)
    rows = np.hstack([cloud.points, cloud.normals, np.zeros((len(order), 2))])[order]
    rows = np.concatenate([rows, absent(-len(rows) % LEAF)])
    balls = np.array([_ball(cloud.points[order[k : k + LEAF]]) for k in range(0, len(order), LEAF)])
    p, n = np.ascontiguousarray(rows[: len(order), :3]), np.ascontiguousarray(rows[: len(order), 3:6])
    spacing = float(np.median(cKDTree(p).query(p, k=2)[0][:, 1])) if len(p) > 1 else distance
    margin = distance
    for _ in range(REMOTE):
        low, high = p.min(axis=0) - margin, p.max(axis=0) + margin
        if _nearest_outside(p, n, low, high, squared, FACES) >= distance:
            break
        margin *= 1.2
    edge = max(0.5 * spacing, float((np.prod(high - low) / VOXELS) ** (1 / 3)))
    shape = np.maximum(np.ceil((high - low) / edge - 1e-9), 1).astype(np.int64)
    start, items, least = _voxels(p, n, low, (high - low) / shape, shape, squared, distance)
    around = _ball(p)
    inner = np.stack(np.unravel_index(np.flatnonzero(least <= distance), shape), axis=1) + 0.5
    edges = (high - low) / shape
    outermost = np.linalg.norm(low + inner * edges - around[:3], axis=1).max(
        initial=0.0
    ) + 0.5 * np.linalg.norm(edges)
    grid = np.concatenate([low, 1.0 / edges, shape, around, [squared, distance, outermost]])
    return rows, balls, grid, start, items, least


def _leaves(p: np.ndarray) -> np.ndarray:
    """Return an order of points (I, 3) in which every LEAF of them are neighbours."""
    order, parts = [], [np.arange(len(p))]
    while parts:
        part = parts.pop()
        if len(part) <= LEAF:
            order.append(part)
            continue
        part = part[np.argsort(p[part, np.ptp(p[part], axis=0).argmax()], kind="stable")]
        half = LEAF * max(1, round(len(part) / (2 * LEAF)))
        parts += [part[half:], part[:half]]
    return np.concatenate(order)


def _ball(p: np.ndarray) -> np.ndarray:
    """Return centre and radius (4,) of a ball that holds points (N, 3)."""
    centre = (p.min(axis=0) + p.max(axis=0)) / 2.0
    return np.array([*centre, np.linalg.norm(p - centre, axis=1).max()])


@inner
def _within(x, y, z, half, p, of, count, squared, d2, found):
    """Write to ``found`` which of the first ``count`` planes of ``of`` a place in the box around
    (x, y, z) with half edges ``half`` can meet; return their number.

    The difference of two planes' squared distances is linear in the place, so that the box's
    corners bound it: the plane nearest to the centre excludes others.
    """
    nearest, least = 0, np.inf
    for k in range(count):
        m = of[k]
        d2[k] = (x - p[m, 0]) ** 2 + (y - p[m, 1]) ** 2 + (z - p[m, 2]) ** 2
        if d2[k] < least:
            nearest, least = m, d2[k]
    kept = 0
    for k in range(count):
        m = of[k]
        across = 0.0
        for axis in range(3):
            across += abs(p[m, axis] - p[nearest, axis]) * half[axis]
        if d2[k] - 2.0 * across <= least + squared:
            found[kept] = m
            kept += 1
    return kept


@entry
def _voxels(p, n, low, edge, shape, squared, distance):
    """Return for every voxel the planes (p, n) that a point in it can meet, none if it is too far,
    and the lower bound of its distance."""
    half, count = 0.5 * edge, shape[0] * shape[1] * shape[2]
    start, least, items = np.zeros(count + 1, np.int32), np.full(count, np.inf), np.empty(1024, np.int32)
    d2, block, found, everyone = (
        np.empty(len(p)),
        np.empty(len(p), np.int32),
        np.empty(len(p), np.int32),
        np.arange(len(p), dtype=np.int32),
    )
    at = 0
    lists = np.full(count, -1, np.int64)
    blocks = (shape + CUBE - 1) // CUBE
    for b in range(blocks[0] * blocks[1] * blocks[2]):
        i0, j0, k0 = (
            b // (blocks[1] * blocks[2]) * CUBE,
            b // blocks[2] % blocks[1] * CUBE,
            b % blocks[2] * CUBE,
        )
        x, y, z = (
            low[0] + (i0 + CUBE / 2) * edge[0],
            low[1] + (j0 + CUBE / 2) * edge[1],
            low[2] + (k0 + CUBE / 2) * edge[2],
        )
        near = _within(x, y, z, CUBE * half, p, everyone, len(p), squared, d2, block)
        for i in range(i0, min(i0 + CUBE, shape[0])):
            for j in range(j0, min(j0 + CUBE, shape[1])):
                for k in range(k0, min(k0 + CUBE, shape[2])):
                    v = (i * shape[1] + j) * shape[2] + k
                    x, y, z = (
                        low[0] + (i + 0.5) * edge[0],
                        low[1] + (j + 0.5) * edge[1],
                        low[2] + (k + 0.5) * edge[2],
                    )
                    met = _within(x, y, z, half, p, block, near, squared, d2, found)
                    for m in found[:met]:
                        phi = n[m, 0] * (x - p[m, 0]) + n[m, 1] * (y - p[m, 1]) + n[m, 2] * (z - p[m, 2])
                        within = abs(n[m, 0]) * edge[0] + abs(n[m, 1]) * edge[1] + abs(n[m, 2]) * edge[2]
                        least[v] = min(least[v], phi - 0.5 * within)
                    if least[v] > distance:
                        continue
                    if at + met > len(items):
                        items = np.concatenate((items, np.empty(len(items) + met, np.int32)))
                    items[at : at + met] = found[:met]
                    lists[v] = at
                    start[v + 1] = met
                    at += met
    ordered, to = np.empty(at, np.int32), 0
    for v in range(count):
        met = start[v + 1]
        if met > 0:
            ordered[to : to + met] = items[lists[v] : lists[v] + met]
        to += met
        start[v + 1] = to
    return start, ordered, least


@entry
def _nearest_outside(p, n, low, high, squared, count):
    """Return the least distance from planes (p, n) on the faces of a box, at count × count places
    on each."""
    least, d2 = np.inf, np.empty(len(p))
    x = np.empty(3)
    for face in range(6):
        axis = face % 3
        for k in range(count * count):
            x[axis] = low[axis] if face < 3 else high[axis]
            for turn, share in ((1, k // count), (2, k % count)):
                other = (axis + turn) % 3
                x[other] = low[other] + (high[other] - low[other]) * share / (count - 1)
            nearest = np.inf
            for m in range(len(p)):
                d2[m] = (x[0] - p[m, 0]) ** 2 + (x[1] - p[m, 1]) ** 2 + (x[2] - p[m, 2]) ** 2
                nearest = min(nearest, d2[m])
            for m in range(len(p)):
                if d2[m] <= nearest + squared:
                    least = min(
                        least,
                        n[m, 0] * (x[0] - p[m, 0]) + n[m, 1] * (x[1] - p[m, 1]) + n[m, 2] * (x[2] - p[m, 2]),
                    )
    return least
