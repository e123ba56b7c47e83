"""Near points without a search: for every voxel around a body, the C of its points that are nearest to the voxel's centre.

A patch serves a pair twice: its points are the planes that the other body meets, and the points that the other body's planes meet; the
rest of the body has weights that a float rounds away. What a patch leaves out is measured by ``dexstack bench soft --truncation``.
Sizes are fixed when the table is built: nothing is recompiled while bodies move, and a batch of other bodies of the same sizes fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.spatial import cKDTree

from dexstack.engines.soft.cloud import Cloud
from dexstack.engines.soft.scm import Body
from dexstack.errors import ConfigError

ABSENT_PLANE = -1e9
"""Added to the logit of a plane that only fills up an array."""
ABSENT_POINT = 1e3
"""Added to the distance of such a point [m]."""
MAX_VOXELS = 60_000
LANES = 8
"""Clouds are filled up to a multiple of so many points, as many as a CPU takes at once."""


class Clouds(NamedTuple):
    """G clouds of one size each, with the voxels that say which of their points are near."""

    rows: np.ndarray
    """(G, 8, I) point, normal, plane bias, point bias."""
    table: np.ndarray
    """(G, V, C) int32: the points nearest to the centre of each voxel, nearest first."""
    origin: np.ndarray
    """(G, 3) corner of the voxels [m]."""
    per_metre: np.ndarray
    """(G, 3) voxels per metre."""
    shape: np.ndarray
    """(G, 3) int32 number of voxels along each axis."""


def build(clouds: Sequence[Cloud], size: int | None, reach: float, voxel: float) -> Clouds:
    """Tables of ``clouds``.

    Args:
        size: points in a patch (C); None: all points, always (the dense formulation).
        reach: how far from the points a key may lie [m]; beyond, the outermost voxel answers.
        voxel: edge of a voxel [m]; enlarged where there would be more than MAX_VOXELS.

    Raises:
        ConfigError: a size or an edge that is not positive.
    """
    if (size is not None and size < 1) or voxel <= 0.0 or reach < 0.0:
        raise ConfigError(f"a patch needs at least 1 point and voxels of positive size, got {size} and {voxel:g} m")
    count = LANES * -(-max(len(c.points) for c in clouds) // LANES)
    size = count if size is None or size >= count else size
    rows = absent(len(clouds), count)
    tables, origins, per_metre, shapes = [], [], [], []
    for row, cloud in zip(rows, clouds, strict=True):
        n = len(cloud.points)
        row[:, :n] = np.vstack([cloud.points.T, cloud.normals.T, np.zeros((2, n))])
        low, high = cloud.points.min(0) - reach, cloud.points.max(0) + reach
        if size >= count:
            shape = np.ones(3, int)
            near = np.arange(count)[None]
        else:
            edge = max(voxel, float((np.prod(high - low) / MAX_VOXELS) ** (1 / 3)))
            shape = np.maximum(np.ceil((high - low) / edge - 1e-9), 1).astype(int)
            axes = [lo + (hi - lo) * (np.arange(k) + 0.5) / k for lo, hi, k in zip(low, high, shape, strict=True)]
            centres = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
            near = cKDTree(cloud.points).query(centres, k=min(size, n))[1].reshape(len(centres), -1)
            if n < size:
                near = np.hstack([near, np.tile(np.arange(n, size), (len(near), 1))])
        tables.append(near)
        origins.append(low)
        per_metre.append(shape / (high - low))
        shapes.append(shape)
    table = np.zeros((len(clouds), max(map(len, tables)), size), np.int32)
    for g, near in enumerate(tables):
        table[g, : len(near)] = near
    return Clouds(rows, table, np.array(origins), np.array(per_metre), np.array(shapes, np.int32))


def absent(clouds: int, count: int) -> np.ndarray:
    """(G, 8, I) rows of points that are not there."""
    return np.tile(np.array([0, 0, 0, 0, 0, 1.0, ABSENT_PLANE, ABSENT_POINT])[:, None], (clouds, 1, count))


def _voxel(clouds: Clouds, g: Array, key: Array) -> Array:
    shape = jnp.asarray(clouds.shape)[g]
    cell = jnp.floor((key - jnp.asarray(clouds.origin)[g]) * jnp.asarray(clouds.per_metre)[g]).astype(jnp.int32)
    i, j, k = jnp.clip(cell, 0, shape - 1)
    return (i * shape[1] + j) * shape[2] + k


def patch(clouds: Clouds, g: Array, key: Array) -> Body:
    """The patch of cloud ``g`` around ``key`` (3,), cloud's frame. Which points it holds has no derivative; where they are not needed
    that is exact, as their weights are."""
    rows, table = jnp.asarray(clouds.rows), jnp.asarray(clouds.table)
    rows = rows[g] if table.shape[1] == 1 else rows[g, :, table[g, _voxel(clouds, g, key)]].T
    return Body(rows[:3], rows[3:6], rows[6], rows[7])


def nearest(clouds: Clouds, g: Array, key: Array) -> Array:
    """(3,) the point of cloud ``g`` nearest to the centre of the key's voxel; without voxels, the key itself."""
    if clouds.table.shape[1] == 1:
        return key
    return jnp.asarray(clouds.rows)[g, :3, jnp.asarray(clouds.table)[g, _voxel(clouds, g, key), 0]]
