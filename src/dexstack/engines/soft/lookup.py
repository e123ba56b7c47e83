"""Near points without a search: tables, built once per body, of which of its points are near to a place.

    scouts    a few points of a body, or one ball where the body is one: where two bodies are deepest in each other, roughly
    finder    for every voxel around a body, the one of its points that is nearest to the voxel's centre
    patches   for every point of a body, the C points around it
    lists     for every point of a body, the K planes around it, packed

Contact is looked for where the scouts say. A patch serves a pair twice: its points meet the planes of the other body, and its planes are
met by the other's points, by all of them, or, with lists, each point by the K planes nearest to it. The rest of a body has weights that
a float rounds away; what is left out is measured by ``python -m experiments.soft.truncation``. Sizes are fixed when the tables are built:
nothing is recompiled while bodies move, and a batch of other bodies of the same sizes fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.spatial import cKDTree

from dexstack.engines.soft.cloud import Cloud
from dexstack.engines.soft.scm import ABSENT_PLANE, Body, Planes, kept, turn
from dexstack.errors import ConfigError

ABSENT_POINT = 1e3
"""Added to the distance of a point that only fills up an array [m]."""
MAX_VOXELS = 1_000_000
SCOUTS = 32
APART = 4.0
"""Bodies are apart whose scouts are farther than so many ε2."""
LANES = 8
"""Clouds are filled up to a multiple of so many points, as many as a CPU takes at once."""
NOBODY = np.array([0, 0, 0, 0, 0, 0, -ABSENT_POINT])[:, None]
"""A scout that only fills up an array."""
PACKED = 8
"""Numbers of a plane in a list: its place (3) about the list's point, its normal (3), ‖place‖², place · normal."""


class Finder(NamedTuple):
    """Voxels around each of G clouds that know the nearest point; beyond, the outermost voxel answers."""

    table: np.ndarray
    """(G, V) int32"""
    origin: np.ndarray
    """(G, 3) corner of the voxels [m]."""
    per_metre: np.ndarray
    """(G, 3) voxels per metre."""
    shape: np.ndarray
    """(G, 3) int32 number of voxels along each axis."""


class Clouds(NamedTuple):
    """G clouds of one size each, with what says which of their points are near."""

    rows: np.ndarray
    """(G, I, 8) point, normal, plane bias, point bias."""
    scouts: np.ndarray
    """(G, 7, S) places where the nearest plane is looked up, centres and radii of the balls it is held against [m]."""
    box: np.ndarray
    """(G, 2, 3) lowest and highest coordinates of the points [m]."""
    finder: Finder
    patches: np.ndarray | None
    """(G, I, C) int32: the points nearest to every point, itself first; None: all are always near (the dense formulation)."""
    lists: np.ndarray | None
    """(G, I, 8 K) the K planes nearest to every point."""


def build(clouds: Sequence[Cloud], size: int | None, reach: float, voxel: float, planes: int | None = None) -> Clouds:
    """Tables of ``clouds``.

    Args:
        size: points in a patch (C); None: all points, always (the dense formulation).
        reach: how far from the points a key may lie [m]; beyond, the outermost voxel answers.
        voxel: edge of a voxel [m]; enlarged where there would be more than MAX_VOXELS.
        planes: K of the lists; None: none.

    Raises:
        ConfigError: a size or an edge that is not positive.
    """
    if (size is not None and size < 1) or (planes is not None and planes < 1) or voxel <= 0.0 or reach < 0.0:
        raise ConfigError(
            f"a patch needs at least 1 point, a list at least 1 plane and voxels a positive size, got {size}, {planes} and {voxel:g} m"
        )
    count = LANES * -(-max(len(c.points) for c in clouds) // LANES)
    rows = absent(len(clouds), count)
    for row, cloud in zip(rows, clouds, strict=True):
        row[: len(cloud.points)] = np.hstack([cloud.points, cloud.normals, np.zeros((len(cloud.points), 2))])
    trees = [cKDTree(c.points) for c in clouds]
    balls = [_scouts(c) for c in clouds]
    scouts = np.tile(NOBODY, (len(clouds), 1, max(b.shape[1] for b in balls)))
    for row, ball in zip(scouts, balls, strict=True):
        row[:, : ball.shape[1]] = ball
    whole = size is None or size >= count
    return Clouds(
        rows,
        scouts,
        np.array([[t.mins, t.maxes] for t in trees]),
        _finder(trees, reach, np.inf if size is None else voxel),
        None if whole else np.stack([_patches(t, size, count) for t in trees]),
        None if planes is None else np.stack([_lists(c, t, planes, count) for c, t in zip(clouds, trees, strict=True)]),
    )


def absent(clouds: int, count: int) -> np.ndarray:
    """(G, I, 8) rows of points that are not there."""
    return np.tile(np.array([0, 0, 0, 0, 0, 1.0, ABSENT_PLANE, ABSENT_POINT]), (clouds, count, 1))


def _finder(trees: Sequence[cKDTree], reach: float, voxel: float) -> Finder:
    tables, origins, per_metre, shapes = [], [], [], []
    for tree in trees:
        low, high = tree.mins - reach, tree.maxes + reach
        edge = max(voxel, float((np.prod(high - low) / MAX_VOXELS) ** (1 / 3)))
        shape = np.maximum(np.ceil((high - low) / edge - 1e-9), 1).astype(int)
        axes = [lo + (hi - lo) * (np.arange(k) + 0.5) / k for lo, hi, k in zip(low, high, shape, strict=True)]
        centres = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        tables.append(tree.query(centres)[1])
        origins.append(low)
        per_metre.append(shape / np.maximum(high - low, 1e-9))
        shapes.append(shape)
    table = np.zeros((len(trees), max(map(len, tables))), np.int32)
    for g, near in enumerate(tables):
        table[g, : len(near)] = near
    return Finder(table, np.array(origins), np.array(per_metre), np.array(shapes, np.int32))


def _patches(tree: cKDTree, size: int, count: int) -> np.ndarray:
    """(count, C) of a cloud; where it has less than C points, absent ones follow."""
    result = np.tile(np.arange(size, dtype=np.int32), (count, 1))
    k = min(size, tree.n)
    result[: tree.n, :k] = tree.query(tree.data, k=k)[1].reshape(tree.n, k)
    return result


def _scouts(cloud: Cloud) -> np.ndarray:
    """(7, S) of a ball, the ball itself, which looks into all directions; of anything else points far from each other, corners first."""
    centre = cloud.points.mean(axis=0)
    out = cloud.points - centre
    r = np.linalg.norm(out, axis=1)
    if len(r) > 3 and np.ptp(r) < 1e-3 * r.max() and np.einsum("ij,ij->i", out, cloud.normals).min() > 0.99 * r.max():
        ways = np.vstack([np.zeros(3), np.eye(3), -np.eye(3)])
        return np.vstack([(centre + r.mean() / 2.0 * ways).T, np.tile(np.array([[*centre, r.mean()]]).T, len(ways))])
    chosen, far = [int(r.argmax())], np.full(len(r), np.inf)
    while len(chosen) < min(SCOUTS, len(r)):
        far = np.minimum(far, np.linalg.norm(cloud.points - cloud.points[chosen[-1]], axis=1))
        chosen.append(int(far.argmax()))
    places = cloud.points[chosen].T
    return np.vstack([places, places, np.zeros(len(chosen))])


def _lists(cloud: Cloud, tree: cKDTree, planes: int, count: int) -> np.ndarray:
    """(count, 8 K)"""
    n = len(cloud.points)
    result = np.zeros((count, PACKED, planes))
    result[:, 5], result[:, 6] = 1.0, ABSENT_PLANE
    k = min(planes, n)
    near = tree.query(cloud.points, k=k)[1].reshape(n, k)
    place, normal = cloud.points[near] - cloud.points[:, None], cloud.normals[near]
    packed = np.concatenate([place, normal, np.stack([(place * place).sum(-1), (place * normal).sum(-1)], axis=-1)], axis=-1)
    result[:n, :, :k] = np.moveaxis(packed, 2, 1)
    return result.reshape(count, PACKED * planes)


def _nearest(clouds: Clouds, g: Array | int | int, p: Array) -> Array:
    """(…) the point of cloud ``g`` that is about the nearest to p (3, …)."""
    finder, wide = clouds.finder, (3,) + (1,) * (p.ndim - 1)
    origin, per_metre, shape = (jnp.asarray(x)[g].reshape(wide) for x in (finder.origin, finder.per_metre, finder.shape))
    i, j, k = jnp.clip(jnp.floor((p - origin) * per_metre).astype(jnp.int32), 0, shape - 1)
    return jnp.asarray(finder.table)[g, (i * shape[1] + j) * shape[2] + k]


def patch(clouds: Clouds, g: Array | int | int, keys: Array | None, core: int | None = None) -> Body:
    """The patches of cloud ``g`` around ``keys`` (3, N), cloud's frame, of each of which a ``core`` feels forces.

    Which points they hold has no derivative; where they are not needed that is exact, as their weights are.
    """
    rows = jnp.asarray(clouds.rows)
    whole = clouds.patches is None
    if whole:
        rows, inner = rows[g], None
    else:
        which = jnp.asarray(clouds.patches)[g, _nearest(clouds, g, keys)]  # (N, C)
        inner = None if core is None or core >= which.shape[1] else core
        which = jnp.concatenate([which[:, :inner].ravel(), which[:, inner:].ravel()]) if inner is not None else which.ravel()
        rows = kept(rows[g, which])
        if keys.shape[1] > 1:  # a point in two patches counts once, in a core rather than not
            earlier = np.tri(len(which), k=-1, dtype=bool)
            twice = jnp.any((which[:, None] == which[None, :]) & earlier, axis=1)
            rows = rows.at[:, 7].add(ABSENT_POINT * twice)
        inner = None if inner is None else inner * keys.shape[1]
    rows = rows.T
    near = None if clouds.lists is None else lambda p: _listed(clouds, g, p)
    return Body(rows[:3], rows[3:6], rows[6], rows[7], near, inner)


def _listed(clouds: Clouds, g: Array | int, p: Array) -> Planes:
    """The planes of cloud ``g`` around each of the points p (3, Q)."""
    at = _nearest(clouds, g, p)
    packed = kept(jnp.asarray(clouds.lists)[g, at])
    k = packed.shape[1] // PACKED
    parts = [packed[:, i * k : (i + 1) * k] for i in range(PACKED)]
    return Planes(jnp.asarray(clouds.rows)[g, at, :3].T, jnp.stack(parts[:3]), jnp.stack(parts[3:6]), parts[6], parts[7])


def meeting_points(
    a: Clouds, i: Array | int, b: Clouds, j: Array | int, R_AB: Array, p_AB: Array, spread: Array, places: int = 1
) -> Array | None:
    """(3, places) in A: about where two bodies are deepest in each other, or nearest to each other; None where nobody asks.

    The mean of the scouts under the separation distribution, each as far from the other body as from its nearest plane: of all for one
    place; for several, of those within half a patch's reach of the deepest one, then the same without what lies so near to that mean, and
    so on. Of bodies that are apart, the first is the point of B nearest to the point of A nearest to B's middle: planes that face away
    from a point would seem to hold it. They have no derivative.
    """
    if a.patches is None and b.patches is None:
        return None
    R_AB, p_AB, spread = jax.lax.stop_gradient((R_AB, p_AB, spread))
    of_b, gap_b = _scouted(b, j, a, i, R_AB, p_AB)
    of_a, gap_a = _scouted(a, i, b, j, R_AB.T, -turn(R_AB.T, p_AB))
    gap, deepest = jnp.concatenate([gap_b, gap_a]), jnp.concatenate([of_b, turn(R_AB, of_a, p_AB)], axis=1)
    least = jnp.min(gap)
    found = []
    for _ in range(places):
        taken = gap
        if places > 1:
            first = deepest[:, jnp.argmin(gap)]
            reach = _reach(a, i, first) if a.patches is not None else _reach(b, j, turn(R_AB.T, first - p_AB))
            taken = jnp.where(_squared(deepest, first) < reach, gap, jnp.inf)
        found.append(jnp.sum(deepest * jax.nn.softmax(-taken / spread)[None], axis=1))
        if places > 1:
            gap = gap + ABSENT_POINT * (_squared(deepest, found[-1]) < reach)
    middle = turn(R_AB, jnp.mean(jnp.asarray(b.box)[j], axis=0).astype(p_AB.dtype), p_AB)
    facing = jnp.asarray(a.rows)[i, _nearest(a, i, middle), :3]
    apart = turn(R_AB, jnp.asarray(b.rows)[j, _nearest(b, j, turn(R_AB.T, facing - p_AB)), :3], p_AB)
    found[0] = jnp.where(least > APART * spread, apart, found[0])
    return jnp.stack(found, axis=1)


def _reach(clouds: Clouds, g: Array | int, p: Array) -> Array:
    """() half as far, squared, as the patch of cloud ``g`` around p (3,) reaches [m²]: a patch in the middle holds what is within."""
    rows, last = jnp.asarray(clouds.rows)[g], jnp.asarray(clouds.patches)[g, _nearest(clouds, g, p), -1]
    return 0.25 * jnp.sum((rows[last, :3] - p) ** 2)


def _squared(x: Array, p: Array) -> Array:
    """(N,) squared distances of places x (3, N) from p (3,)."""
    return jnp.sum((x - p[:, None]) ** 2, axis=0)


def _scouted(scouting: Clouds, s: Array | int, other: Clouds, g: Array | int | int, R: Array, p: Array) -> tuple[Array, Array]:
    """The scouts' deepest points (3, S), and how far (S,) from the other body, in its frame, in which the scouts' has the pose (R, p)."""
    scouts = jnp.asarray(scouting.scouts)[s]
    look, centre, radius = turn(R, scouts[:3], p), turn(R, scouts[3:6], p), scouts[6]
    rows = jnp.asarray(other.rows)[g, _nearest(other, g, look), :6].T
    point, normal = rows[:3], rows[3:]
    low, high = jnp.asarray(other.box)[g][:, :, None]
    outside = jnp.linalg.norm(jnp.maximum(jnp.maximum(low - centre, centre - high), 0.0), axis=0)
    return centre - radius[None] * normal, jnp.maximum(jnp.sum(normal * (centre - point), axis=0), outside) - radius
