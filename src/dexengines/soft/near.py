"""The near set of two bodies: every point that can carry force to a tolerance, and the planes that
each of them meets.

Body on body, a point's share is e^(−Φ/ε2), a plane's share of a point e^(−d²/ε1), and a force falls
with e^(−φ/ε3). Of N points, those whose Φ is more than ε2 log(N/tolerance) above the least carry
together less than the tolerance; of the planes the same in ε1. The search finds all others: a point
is skipped only if its voxel is too far away. Points and planes found beyond a window have zero
weight (:func:`~dexengines.soft.scm.shares`), so that forces and their derivatives are continuous
although the near set is not.

Forces and their derivatives by motion and friction take the near set directly
(:mod:`~dexengines.soft.forces`). All other derivatives come from XLA, which needs arrays of fixed
sizes (:class:`Room`). Where the near set does not fit, the search returns the size that is needed
and the result is NaN, never an incomplete sum.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dexengines.kernels import entry, inner
from dexengines.soft.foreign import (
    FRAME_ARGUMENTS,
    FRAME_RESULTS,
    array1,
    array2,
    array3,
    array4,
    array5,
    asked_for_version,
    buffers,
    leading,
    register,
    size,
)
from dexengines.soft.scm import ABSENT_PLANE, ABSENT_POINT, Cuts, Window
from dexengines.soft.tables import LEAF, Clouds, rounded

FEW = 8192
"""Number of pairs of point and plane up to which derivatives use all of them, which is faster."""
BLOCK = 16
"""Points of a block, of one body of one pair."""
CHUNK = 8
"""Blocks whose forces are computed together, at most, so that they fit a CPU cache; empty chunks
are skipped."""
MARGIN = 1.1
"""Factor of the measured sizes."""
FADING = 2.0
"""Width of the windows; the error of second derivatives is their curvature times the neglected
share (:func:`~dexengines.soft.scm.left`)."""
SCRATCH = 1024
"""Initial scratch for planes met by the candidates of one side."""
UNFIT = 2**30
"""Need of a search whose tables were built for less smoothing."""


class Room(NamedTuple):
    """Array sizes of the near set."""

    pairs: int
    blocks: int
    """Blocks of BLOCK points of one body of one pair."""
    planes: int
    """Planes that one point meets."""

    def for_all(self, need: np.ndarray) -> Room:
        """Return room for this and for a ``need`` (3,); the same room for a need of ``UNFIT``."""
        if need[0] >= UNFIT:
            return self
        return Room(
            *(old if n <= old else rounded(MARGIN * n) for old, n in zip(self, need.tolist(), strict=True))
        )


class Near(NamedTuple):
    """The near set: S pairs, and the points of their bodies, with K planes of the other body that
    each of them meets. Points come in blocks of N = BLOCK of one body of one pair, blocks in C
    chunks of B."""

    pair: Array
    """(S,) int32, −1 where there are fewer."""
    points: Array
    """(C, 7, B, N) places in their own body's frame, biases of their distance, and a nearby place
    in the other's frame [m]."""
    planes: Array
    """(C, 8, K, B, N) of each plane: its place relative to the nearby one, its normal, the square
    of the first and the product of both."""
    slot: Array
    """(C, B) int32 index in ``pair``."""
    sign: Array
    """(C, B) int32 −1: points of the first body, +1: of the second."""
    which_points: Array
    """(C, B, N) int32 rows of the clouds, −1 where there are fewer."""
    which_planes: Array
    """(C, K, B, N) int32"""
    need: Array
    """(3,) int32: the :class:`Room` that the whole near set needs."""


def cuts(points: int, tolerance: float, depth: float) -> Cuts:
    """Return windows beyond which less than ``tolerance`` of the load, or of k ε3 if that is more,
    is carried.

    Args:
        points: of both bodies.
        depth: greatest depth of a plane behind a point, in ε3, the factor of its share.
    """
    share, deep, force = (float(np.log(x / tolerance)) for x in (points, points * depth, 1.0))
    return Cuts(*(Window(start, start + FADING) for start in (share, deep, force)))


@inner
def _met(rows, items, first, last, x, y, z, squared, d2, found, at):
    """Write the planes that a point meets to ``found`` from ``at`` on; return the least and the
    largest distance from them, and their number.

    ``d2`` (K,) is scratch. Functions called for every point take their arrays one by one, as
    references to a tuple's members are counted.
    """
    nearest = np.inf
    for k in range(first, last):
        m = items[k]
        a, b, c = x - rows[m, 0], y - rows[m, 1], z - rows[m, 2]
        d = a * a + b * b + c * c
        d2[k - first] = d
        nearest = d if d < nearest else nearest
    low, high, count = np.inf, -np.inf, at
    for k in range(first, last):
        if d2[k - first] <= nearest + squared:
            m = items[k]
            phi = (
                rows[m, 3] * (x - rows[m, 0]) + rows[m, 4] * (y - rows[m, 1]) + rows[m, 5] * (z - rows[m, 2])
            )
            low, high = phi if phi < low else low, phi if phi > high else high
            found[count] = m
            count += 1
    return low, high, count - at


@inner
def _look(cloud, frame, other, voxels, far, scratch):
    """Find candidates among the points of a cloud: lower bounds of their distances from the other
    body, and the planes that they meet.

    Args:
        cloud: its rows and balls, in a frame with the pose ``frame`` (R, p) in the other's.
        other, voxels: rows and voxels of the other body.
        far: excess over the nearest up to which a plane counts, squared, and a point; known bound
            of the nearest point's distance.

    Returns:
        The bound of the nearest point's distance; the number of candidates; the planes that they
        meet.
    """
    (rows, balls), (R, p), (squared, cut, best) = cloud, frame, far
    who, low, begins, met, d2 = scratch
    grid, start, items, least = voxels
    r00, r01, r02, r10, r11, r12 = R[0, 0], R[0, 1], R[0, 2], R[1, 0], R[1, 1], R[1, 2]
    r20, r21, r22, p0, p1, p2 = R[2, 0], R[2, 1], R[2, 2], p[0], p[1], p[2]
    g0, g1, g2, s0, s1, s2 = grid[0], grid[1], grid[2], grid[3], grid[4], grid[5]
    n0, n1, n2, c0, c1, c2, around = grid[6], grid[7], grid[8], grid[9], grid[10], grid[11], grid[15]
    count = at = 0
    for leaf in range(len(balls)):
        r = balls[leaf, 3]
        if r < 0.0:
            break
        a, b, c = balls[leaf, 0], balls[leaf, 1], balls[leaf, 2]
        x, y, z = (
            r00 * a + r01 * b + r02 * c + p0,
            r10 * a + r11 * b + r12 * c + p1,
            r20 * a + r21 * b + r22 * c + p2,
        )
        if (x - c0) ** 2 + (y - c1) ** 2 + (z - c2) ** 2 > (around + r) ** 2:
            continue
        if x < g0 - r or y < g1 - r or z < g2 - r:
            continue
        if x > g0 + n0 / s0 + r or y > g1 + n1 / s1 + r or z > g2 + n2 / s2 + r:
            continue
        for m in range(LEAF * leaf, LEAF * leaf + LEAF):
            if rows[m, 7] > 0.0:
                continue
            a, b, c = rows[m, 0], rows[m, 1], rows[m, 2]
            x, y, z = (
                r00 * a + r01 * b + r02 * c + p0,
                r10 * a + r11 * b + r12 * c + p1,
                r20 * a + r21 * b + r22 * c + p2,
            )
            i, j, k = np.floor((x - g0) * s0), np.floor((y - g1) * s1), np.floor((z - g2) * s2)
            if not (0 <= i < n0 and 0 <= j < n1 and 0 <= k < n2):
                continue
            v = int((i * n1 + j) * n2 + k)
            if least[v] > best + cut:
                continue
            first, last = start[v], start[v + 1]
            if at + last - first > len(met):
                met = _longer(met, at + last - first)
            near, most, planes = _met(other, items, first, last, x, y, z, squared, d2, met, at)
            if near <= best + cut:
                who[count], low[count], begins[count] = m, near, at
                count, at, best = count + 1, at + planes, min(best, most)
    begins[count] = at
    return best, count, met


@inner
def _longer(x, least):
    y = np.empty(2 * least, np.int32)
    y[: len(x)] = x
    return y


@inner
def _take(rows, other, found, first, into):
    """Write candidates nearer than a limit, and their planes, into blocks from ``first`` on; return
    the numbers of both that are needed."""
    count, limit, who, low, begins, met = found
    points, planes, which_points, which_planes = into
    taken = most = 0
    for n in range(count):
        if low[n] > limit:
            continue
        number = begins[n + 1] - begins[n]
        most = max(most, number)
        b, q = first + taken // BLOCK, taken % BLOCK
        c, b = b // points.shape[2], b % points.shape[2]
        taken += 1
        if c >= points.shape[0]:
            continue
        m, o = who[n], met[begins[n]]
        which_points[c, b, q], points[c, 3, b, q] = m, 0.0
        for k in range(3):
            points[c, k, b, q], points[c, 4 + k, b, q] = rows[m, k], other[o, k]
        for k in range(min(number, planes.shape[2])):
            m = met[begins[n] + k]
            which_planes[c, k, b, q] = m
            square = offset = 0.0
            for axis in range(3):
                along, normal = other[m, axis] - other[o, axis], other[m, 3 + axis]
                planes[c, axis, k, b, q], planes[c, 3 + axis, k, b, q] = along, normal
                square += along * along
                offset += along * normal
            planes[c, 6, k, b, q], planes[c, 7, k, b, q] = square, offset
    return (taken + BLOCK - 1) // BLOCK, most


@inner
def pose_in(R, p, own, other, R_rel, p_rel):
    """Write the pose of link ``own`` in the frame of ``other`` to the last two."""
    for k in range(3):
        p_rel[k] = 0.0
        for n in range(3):
            p_rel[k] += R[other, n, k] * (p[own, n] - p[other, n])
            R_rel[k, n] = (
                R[other, 0, k] * R[own, 0, n] + R[other, 1, k] * R[own, 1, n] + R[other, 2, k] * R[own, 2, n]
            )


@inner
def scratch_for(rows, other):
    """Return scratch of :func:`candidates` for one side: points, bounds of their distances, begin
    of their planes, squared distances."""
    size = max(rows.shape[1], other.shape[1]) + 1
    whole, real = np.empty((2, size), np.int32), np.empty((2, size))
    return whole[0], real[0], whole[1], real[1]


@inner
def candidates(of, met, which, law, relative, scratch):
    """Find the candidates of two bodies.

    Args:
        of: clouds of both sides.
        met: (K,) of both sides, written: the planes that candidates meet.
        which: the cloud of each side, and the squared distance of the balls around them.
        law: ε (3,), and the ends of the windows of onset, points and planes.
        relative: pose of the second body in the first one's frame, then of the first in the
            second's.
        scratch: of both sides, see :func:`scratch_for`.

    Returns:
        The limit of a near point's distance; numbers of candidates of both sides; ``met``, which
        may be reallocated. Both numbers are −1 if the tables were built for less smoothing.
    """
    (
        (rows_a, balls_a, grid_a, start_a, items_a, least_a),
        (rows_b, balls_b, grid_b, start_b, items_b, least_b),
    ) = of
    (i, j, apart), (eps, far) = which, law
    reach, spread, squared = far[0] * eps[2], far[1] * eps[1], far[2] * eps[0]
    g, h = grid_a[i], grid_b[j]
    if max(squared / g[13], squared / h[13], (reach + spread) / g[14], (reach + spread) / h[14]) > 1.0001:
        return 0.0, -1, -1, met
    if not apart <= max(g[12] + h[15], g[15] + h[12]) ** 2:
        return 0.0, 0, 0, met
    R_AB, p_AB, R_BA, p_BA = relative
    (who_a, low_a, begins_a, d2_a), (who_b, low_b, begins_b, d2_b) = scratch
    voxels_a, voxels_b = (g, start_a[i], items_a[i], least_a[i]), (h, start_b[j], items_b[j], least_b[j])
    into_a, into_b = (who_a, low_a, begins_a, met[0], d2_a), (who_b, low_b, begins_b, met[1], d2_b)
    best, count_a, met_a = _look(
        (rows_a[i], balls_a[i]), (R_BA, p_BA), rows_b[j], voxels_b, (squared, spread, reach), into_a
    )
    best, count_b, met_b = _look(
        (rows_b[j], balls_b[j]), (R_AB, p_AB), rows_a[i], voxels_a, (squared, spread, best), into_b
    )
    return best + spread, count_a, count_b, (met_a, met_b)


@inner
def found(counts, limit, scratch, met):
    """Return for both sides the number of candidates, the limit of their distance, their points,
    bounds of distances, begins of their planes, and planes."""
    (who_a, low_a, begins_a, _), (who_b, low_b, begins_b, _) = scratch
    return (counts[0], limit, who_a, low_a, begins_a, met[0]), (
        counts[1],
        limit,
        who_b,
        low_b,
        begins_b,
        met[1],
    )


@inner
def between(R, p, a, b, g, h):
    """Return the squared distance of the centres of the balls around two bodies with voxels g and h
    on the links a and b."""
    gap = 0.0
    for k in range(3):
        along_a, along_b = p[a, k], p[b, k]
        for n in range(3):
            along_a += R[a, k, n] * g[9 + n]
            along_b += R[b, k, n] * h[9 + n]
        gap += (along_a - along_b) ** 2
    return gap


@entry
def search_all(of, pairs, at, eps, far, results):
    """Write the near set of all pairs of one meeting; see :func:`search`."""
    (R, p), (pair, points, planes, slot, sign, which_points, which_planes, need) = at, results
    pair[:], slot[:], sign[:], which_points[:], which_planes[:], need[:] = -1, 0, 1, -1, -1, 0
    points[:], planes[:] = 0.0, 0.0  # also of empty chunks, which a batch does not skip
    points[:, 3], planes[:, 6] = ABSENT_POINT, ABSENT_PLANE
    rows_a, rows_b, grid_a, grid_b = of[0][0], of[1][0], of[0][2], of[1][2]
    scratch = scratch_for(rows_a, rows_b), scratch_for(rows_b, rows_a)
    met = np.empty(SCRATCH, np.int32), np.empty(SCRATCH, np.int32)
    relative = np.empty((3, 3)), np.empty(3), np.empty((3, 3)), np.empty(3)
    into = points, planes, which_points, which_planes
    for m in range(len(pairs)):
        i, j, a, b = pairs[m]
        pose_in(R, p, b, a, relative[0], relative[1])
        pose_in(R, p, a, b, relative[2], relative[3])
        which = i, j, between(R, p, a, b, grid_a[i], grid_b[j])
        limit, count_a, count_b, met = candidates(of, met, which, (eps[m], far), relative, scratch)
        if count_a < 0:
            need[0] = UNFIT
            return
        begin = need[1]
        found_a, found_b = found((count_a, count_b), limit, scratch, met)
        blocks_a, most_a = _take(rows_a[i], rows_b[j], found_a, begin, into)
        blocks_b, most_b = _take(rows_b[j], rows_a[i], found_b, begin + blocks_a, into)
        if blocks_a + blocks_b == 0:
            continue
        need[1] = begin + blocks_a + blocks_b
        for n in range(min(begin, slot.size), min(need[1], slot.size)):
            at = n // slot.shape[1], n % slot.shape[1]
            slot[at] = min(need[0], len(pair) - 1)
            sign[at] = -1 if n < begin + blocks_a else 1
        if need[0] < len(pair):
            pair[need[0]] = m
        need[0] += 1
        need[2] = max(need[2], most_a, most_b)


@inner
def clouds(x, first, batch, k, real, width):
    """Return the tables of one side for the k-th of a batch, arguments from ``first`` on."""
    return (
        array3(x[first], batch, k, real, width),
        array3(x[first + 1], batch, k, real, width),
        array2(x[first + 2], batch, k, real, width),
        array2(x[first + 3], batch, k, np.int32, 4),
        array2(x[first + 4], batch, k, np.int32, 4),
        array2(x[first + 5], batch, k, real, width),
    )


@inner
def _all(frame: int, real: type, width: int) -> None:
    """Search for a batch, as called by XLA; ``width``: bytes of a number."""
    if asked_for_version(frame):
        return
    x, y = buffers(frame, FRAME_ARGUMENTS), buffers(frame, FRAME_RESULTS)
    batch = leading(y[0], 1)
    for k in range(size(batch)):
        of = clouds(x, 0, batch, k, real, width), clouds(x, 6, batch, k, real, width)
        results = (
            array1(y[0], batch, k, np.int32, 4),
            array4(y[1], batch, k, real, width),
            array5(y[2], batch, k, real, width),
            array2(y[3], batch, k, np.int32, 4),
            array2(y[4], batch, k, np.int32, 4),
            array3(y[5], batch, k, np.int32, 4),
            array4(y[6], batch, k, np.int32, 4),
            array1(y[7], batch, k, np.int32, 4),
        )
        at = array3(x[13], batch, k, real, width), array2(x[14], batch, k, real, width)
        eps, far = array2(x[15], batch, k, real, width), array1(x[16], batch, k, real, width)
        search_all(of, array2(x[12], batch, k, np.int32, 4), at, eps, far, results)


def _single(frame: int) -> int:
    _all(frame, np.float32, 4)
    return 0


def _double(frame: int) -> int:
    _all(frame, np.float64, 8)
    return 0


HANDLERS = {"float32": _single, "float64": _double}


def results_of(room: Room, real: np.dtype) -> list[tuple[tuple[int, ...], np.dtype]]:
    """Return shapes and dtypes of the fields of :class:`Near`."""
    (s, b, k), whole = room, np.dtype(np.int32)
    c, b = -(-b // CHUNK), min(b, CHUNK)
    floats, integers = (
        [(c, 7, b, BLOCK), (c, 8, k, b, BLOCK)],
        [(c, b), (c, b), (c, b, BLOCK), (c, k, b, BLOCK), (len(room),)],
    )
    return [((s,), whole), *((shape, real) for shape in floats), *((shape, whole) for shape in integers)]


def search(
    a: Clouds, b: Clouds, pairs: np.ndarray, R: Array, p: Array, eps: Array, cut: Cuts, room: Room
) -> Near:
    """Return the near set of all pairs of bodies, without derivatives: at its borders weights are
    zero.

    Args:
        pairs: (P, 4) which cloud of ``a``, which of ``b``, and their links.
        R, p: (L, 3, 3), (L, 3) poses of the links.
        eps: (P, 3) ε1, ε2, ε3 of every pair.
    """
    real = p.dtype
    tables = [
        jax.lax.stop_gradient(jnp.asarray(x, jnp.int32 if x.dtype.kind == "i" else real)) for x in (*a, *b)
    ]
    far = jnp.asarray([cut.onset.end, cut.points.end, cut.planes.end], real)
    results = [jax.ShapeDtypeStruct(*kind) for kind in results_of(room, real)]
    call = jax.ffi.ffi_call(register("near", HANDLERS, real), results, vmap_method="expand_dims")
    moving = jax.lax.stop_gradient((R, p, eps))
    return Near(*call(*tables, jnp.asarray(pairs, jnp.int32), *moving, far))


@jax.custom_jvp
def shaped(rows_a: Array, rows_b: Array, of: tuple[Array, Array], found: Near) -> tuple[Array, Array]:
    """Return ``found.points`` and ``found.planes`` with derivatives by the rows (G, I, 8) of their
    clouds.

    Args:
        of: (S,) each: clouds of the first and the second side.
    """
    return found.points, found.planes


@shaped.defjvp
def _(primals: tuple, tangents: tuple) -> tuple:
    *rows, of, found = primals
    return shaped(*primals), jax.jvp(lambda a, b: _gathered(a, b, of, found), tuple(rows), tangents[:2])[1]


def _gathered(rows_a: Array, rows_b: Array, of: tuple[Array, Array], found: Near) -> tuple[Array, Array]:
    """Gather the search's points and planes in JAX."""
    q, k = found.which_points, found.which_planes
    i, j = (x[found.slot] for x in of)
    first = found.sign < 0
    points = jnp.where(first[..., None, None], rows_a[i[..., None], q], rows_b[j[..., None], q])[..., :3]
    first_p, i_p, j_p = (x[:, None, :, None] for x in (first, i, j))
    planes = jnp.where(first_p[..., None], rows_b[j_p, k], rows_a[i_p, k])[..., :6]
    o = planes[:, :1, ..., :3]
    along, normal = planes[..., :3] - o, planes[..., 3:]
    square, offset = (jnp.sum(along * x, axis=-1, keepdims=True) for x in (along, normal))
    there, met = q >= 0, k >= 0
    bias = jnp.where(there, 0.0, ABSENT_POINT)[..., None]
    places = jnp.concatenate(
        [jnp.where(there[..., None], points, 0.0), bias, jnp.where(there[..., None], o[:, 0], 0.0)], axis=-1
    )
    packed = jnp.where(met[..., None], jnp.concatenate([along, normal, square, offset], axis=-1), 0.0)
    packed = packed.at[..., 6].add(jnp.where(met, 0.0, ABSENT_PLANE))
    return jnp.moveaxis(places, -1, 1), jnp.moveaxis(packed, -1, 1)
