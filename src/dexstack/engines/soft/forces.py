"""Contact of all pairs of a meeting, or of a body on the ground, as one operation of XLA: search and law in one pass, forward only."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numba
import numpy as np
from jax import Array

from dexstack.engines.soft import law, near
from dexstack.engines.soft.foreign import (
    FRAME_ARGUMENTS,
    FRAME_RESULTS,
    array1,
    array2,
    array3,
    asked_for_version,
    buffers,
    leading,
    register,
    size,
)
from dexstack.engines.soft.near import Room
from dexstack.engines.soft.scm import ContactParams, Cuts, Dissipation, paper_dissipation, smooth_dissipation
from dexstack.engines.soft.tables import Clouds

KINDS: dict[Dissipation, int] = {paper_dissipation: law.PAPER, smooth_dissipation: law.SMOOTH}
"""Dissipations that can be had in one pass."""


class Felt(NamedTuple):
    """Contact of S pairs; wrenches on the second body about the world's origin, world axes."""

    pair: Array
    """(S,) int32 which pair, −1 where fewer are near."""
    wrench: Array
    """(S, 6) NaN where more pairs are near."""
    stiffness: Array
    """(S, 6, 6)"""
    damping: Array
    """(S, 6, 6)"""
    distance: Array
    """(S,) [m]"""


@numba.njit(error_model="numpy")
def _nothing(results, distance):
    results[0][:], results[1][:], results[2][:], results[3][:] = 0.0, 0.0, 0.0, distance


@numba.njit(error_model="numpy")
def _longer(into, points, edges):
    """The same scratch, or one that is long enough; no longer, for the pages of much memory are new every time."""
    if into[0].shape[1] >= points and into[1].shape[1] >= edges:
        return into
    return law.store(points, edges)


@numba.njit(error_model="numpy", cache=True)
def _meet(
    rows_a, balls_a, grid_a, start_a, items_a, least_a, rows_b, balls_b, grid_b, start_b, items_b, least_b,
    pairs, R, p, twist, params, windows, kind, pair, wrench, stiffness, damping, distance,
):  # fmt: skip
    """All pairs of one meeting; see :func:`meet`."""
    results = wrench, stiffness, damping, distance
    _nothing(results, near.ABSENT_POINT)
    for n in range(len(pair)):
        pair[n] = n if kind[1] else -1
    of = (rows_a, balls_a, grid_a, start_a, items_a, least_a), (rows_b, balls_b, grid_b, start_b, items_b, least_b)
    scratch = near.scratch_for(rows_a, rows_b), near.scratch_for(rows_b, rows_a)
    met = np.empty(near.SCRATCH, np.int32), np.empty(near.SCRATCH, np.int32)
    relative, moving = (np.empty((3, 3)), np.empty(3), np.empty((3, 3)), np.empty(3)), (np.empty(6), np.empty(6))
    far = windows[law.ONSET, 1], windows[law.POINTS, 1], windows[law.PLANES, 1]
    into, found = law.store(1, 1), 0
    for m in range(len(pairs)):
        i, j, a, b = pairs[m]
        near.pose_in(R, p, b, a, relative[0], relative[1])
        near.pose_in(R, p, a, b, relative[2], relative[3])
        which, c = (i, j, near.between(R, p, a, b, grid_a[i], grid_b[j])), params[m]
        limit, count_a, count_b, met = near.candidates(of, met, which, (c[law.EPS1 : law.EPS3 + 1], far), relative, scratch)
        if count_a < 0:
            wrench[:] = np.nan
            return
        if count_a + count_b == 0:
            continue
        law.twist_in(R, p, twist, a, b, moving[0])
        law.twist_in(R, p, twist, b, a, moving[1])
        into = _longer(into, count_a + count_b, scratch[0][2][count_a] + scratch[1][2][count_b])
        found_a, found_b = near.found((count_a, count_b), limit, scratch, met)
        seen_a, seen_b = (relative[2], relative[3], moving[0]), (relative[0], relative[1], moving[1])
        first, e = law.gather((rows_a[i], rows_b[j]), found_a, seen_a, c[law.EPS1], into, (0, 0))
        count, e = law.gather((rows_b[j], rows_a[i]), found_b, seen_b, c[law.EPS1], into, (first, e))
        if count == 0:
            continue
        if found == len(pair):
            wrench[:] = np.nan
            return
        slot = m if kind[1] else found
        law.feel((rows_a[i], rows_b[j], a, b), (R, p), (c, windows, kind[0]), (first, count), into, (results, slot))
        pair[slot] = m
        found += 1


@numba.njit
def _meet_batch(frame: int, real: type, width: int) -> None:
    """:func:`_meet` of a batch, as XLA calls it, of numbers of so many bytes."""
    if asked_for_version(frame):
        return
    x, y = buffers(frame, FRAME_ARGUMENTS), buffers(frame, FRAME_RESULTS)
    batch = leading(y[0], 1)
    for k in range(size(batch)):
        _meet(
            array3(x[0], batch, k, real, width),
            array3(x[1], batch, k, real, width),
            array2(x[2], batch, k, real, width),
            array2(x[3], batch, k, np.int32, 4),
            array2(x[4], batch, k, np.int32, 4),
            array2(x[5], batch, k, real, width),
            array3(x[6], batch, k, real, width),
            array3(x[7], batch, k, real, width),
            array2(x[8], batch, k, real, width),
            array2(x[9], batch, k, np.int32, 4),
            array2(x[10], batch, k, np.int32, 4),
            array2(x[11], batch, k, real, width),
            array2(x[12], batch, k, np.int32, 4),
            array3(x[13], batch, k, real, width),
            array2(x[14], batch, k, real, width),
            array2(x[15], batch, k, real, width),
            array2(x[16], batch, k, real, width),
            array2(x[17], batch, k, real, width),
            array1(x[18], batch, k, np.int32, 4),
            array1(y[0], batch, k, np.int32, 4),
            array2(y[1], batch, k, real, width),
            array3(y[2], batch, k, real, width),
            array3(y[3], batch, k, real, width),
            array1(y[4], batch, k, real, width),
        )


def _meet_single(frame: int) -> int:
    _meet_batch(frame, np.float32, 4)
    return 0


def _meet_double(frame: int) -> int:
    _meet_batch(frame, np.float64, 8)
    return 0


HANDLERS = {"float32": _meet_single, "float64": _meet_double}


def meet(
    a: Clouds, b: Clouds, pairs: np.ndarray, at: tuple[Array, Array, Array], params: ContactParams, cuts: Cuts, kind: int, room: Room | None
) -> Felt:
    """What all pairs of a meeting feel; without derivatives.

    Args:
        pairs: (P, 4) which cloud of ``a``, which of ``b``, and their links.
        at: poses (L, 3, 3), (L, 3) and twists (L, 6) about the world's origin of the links.
        params: (P,) each.
        kind: of :data:`KINDS`.
        room: for pairs that are near, one after another; None: for all, each in its place.
    """
    R, p, twist = at
    real = p.dtype
    tables = [jax.lax.stop_gradient(jnp.asarray(x, jnp.int32 if x.dtype.kind == "i" else real)) for x in (*a, *b)]
    numbers = jnp.stack([jnp.broadcast_to(jnp.asarray(x, real), (len(pairs),)) for x in params], axis=1)
    count = room.pairs if room else len(pairs)
    shapes = [(count, 6), (count, 6, 6), (count, 6, 6), (count,)]
    results = [jax.ShapeDtypeStruct((count,), jnp.int32), *(jax.ShapeDtypeStruct(shape, real) for shape in shapes)]
    call = jax.ffi.ffi_call(register("meet", HANDLERS, real), results, vmap_method="expand_dims")
    windows, how = jnp.asarray([cuts.planes, cuts.points, cuts.onset], real), jnp.asarray([kind, room is None], jnp.int32)
    return Felt(*call(*tables, jnp.asarray(pairs, jnp.int32), R, p, twist, jax.lax.stop_gradient(numbers), windows, how))
