"""Contact of all pairs of a meeting as one operation of XLA: search and law in one pass, with
Jacobians."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.custom_derivatives import SymbolicZero

from dexengines.kernels import inner
from dexengines.soft import law, near
from dexengines.soft.foreign import (
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
from dexengines.soft.jacobian import BY_FRICTION, BY_STIFFNESS, WIDTH, by_motion, scratch as scratch_of
from dexengines.soft.scm import ContactParams, Cuts, Dissipation, paper_dissipation, smooth_dissipation
from dexengines.soft.tables import Clouds

KINDS: dict[Dissipation, int] = {paper_dissipation: law.PAPER, smooth_dissipation: law.SMOOTH}
"""Dissipations that the pass supports."""


class MeetingData(NamedTuple):
    """Numbers of surfaces that meet."""

    a: Clouds
    b: Clouds
    params: ContactParams
    """(P,) each."""


class Contact(NamedTuple):
    """Contact of S pairs; wrenches on the second body about the world's origin, world axes."""

    link_a: Array
    """(S,) int32"""
    link_b: Array
    wrench: Array
    """(S, 6), NaN if more pairs are near than there is room for."""
    stiffness: Array
    """(S, 6, 6)"""
    damping: Array
    """(S, 6, 6)"""
    distance: Array
    """(S,) soft distance [m]"""


@inner
def _nothing(results, distance):
    results[0][:], results[1][:], results[2][:], results[3][:] = 0.0, 0.0, 0.0, distance


@inner
def _unknown(wrench, jacobian):
    """Fill results with NaN, as the near set is incomplete."""
    wrench[:] = np.nan
    if jacobian is not None:
        jacobian[:] = np.nan


@inner
def _longer(into, points, edges):
    """Return the same scratch, or one that is just long enough: pages of larger ones would be new
    at every call."""
    if into[0].shape[1] >= points and into[1].shape[1] >= edges:
        return into
    return law.store(points, edges)


@inner
def _meet(of, pairs, at, law_of, results, jacobian):
    """Write the contact of all pairs of one meeting, and Jacobians unless ``jacobian`` is None; see
    :func:`meet`."""
    (R, p, twist), (params, windows, kind), (pair, wrench, stiffness, damping, distance) = at, law_of, results
    felt = wrench, stiffness, damping, distance
    _nothing(felt, near.ABSENT_POINT)
    if jacobian is not None:
        jacobian[:] = 0.0
    for n in range(len(pair)):
        pair[n] = n if kind[1] else -1
    rows_a, rows_b, grid_a, grid_b = of[0][0], of[1][0], of[0][2], of[1][2]
    scratch = near.scratch_for(rows_a, rows_b), near.scratch_for(rows_b, rows_a)
    met = np.empty(near.SCRATCH, np.int32), np.empty(near.SCRATCH, np.int32)
    relative, moving = (
        (np.empty((3, 3)), np.empty(3), np.empty((3, 3)), np.empty(3)),
        (np.empty(6), np.empty(6)),
    )
    far = windows[law.ONSET, 1], windows[law.POINTS, 1], windows[law.PLANES, 1]
    into, sums, number = law.store(1, 1), scratch_of(), 0
    for m in range(len(pairs)):
        i, j, a, b = pairs[m]
        near.pose_in(R, p, b, a, relative[0], relative[1])
        near.pose_in(R, p, a, b, relative[2], relative[3])
        which, c = (i, j, near.between(R, p, a, b, grid_a[i], grid_b[j])), params[m]
        limit, count_a, count_b, met = near.candidates(
            of, met, which, (c[law.EPS1 : law.EPS3 + 1], far), relative, scratch
        )
        if count_a < 0:
            _unknown(wrench, jacobian)
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
        if number == len(pair):
            _unknown(wrench, jacobian)
            return
        slot, bodies = m if kind[1] else number, (rows_a[i], rows_b[j], a, b)
        law.feel(bodies, (R, p), (c, windows, kind[0]), (first, count), into, (felt, slot))
        if jacobian is not None:
            spins = moving[0][3:], moving[1][3:]
            by_motion(bodies, at, (c, kind[0]), (first, count), spins, into, (sums, jacobian[slot]))
        pair[slot] = m
        number += 1


@inner
def _of_one(x, y, batch, k, real, width):
    """Return the arguments of :func:`_meet` for the k-th of a batch, without the Jacobians."""
    of = near.clouds(x, 0, batch, k, real, width), near.clouds(x, 6, batch, k, real, width)
    at = (
        array3(x[13], batch, k, real, width),
        array2(x[14], batch, k, real, width),
        array2(x[15], batch, k, real, width),
    )
    law_of = (
        array2(x[16], batch, k, real, width),
        array2(x[17], batch, k, real, width),
        array1(x[18], batch, k, np.int32, 4),
    )
    results = (
        array1(y[0], batch, k, np.int32, 4),
        array2(y[1], batch, k, real, width),
        array3(y[2], batch, k, real, width),
        array3(y[3], batch, k, real, width),
        array1(y[4], batch, k, real, width),
    )
    return of, array2(x[12], batch, k, np.int32, 4), at, law_of, results


@inner
def _meet_batch(frame: int, real: type, width: int) -> None:
    """Compute :func:`_meet` for a batch, as called by XLA; ``width``: bytes of a number."""
    if asked_for_version(frame):
        return
    x, y = buffers(frame, FRAME_ARGUMENTS), buffers(frame, FRAME_RESULTS)
    batch = leading(y[0], 1)
    for k in range(size(batch)):
        of, pairs, at, law_of, results = _of_one(x, y, batch, k, real, width)
        _meet(of, pairs, at, law_of, results, None)


@inner
def _move_batch(frame: int, real: type, width: int) -> None:
    """Compute the same with Jacobians, a kernel of its own, as they take long to compile."""
    if asked_for_version(frame):
        return
    x, y = buffers(frame, FRAME_ARGUMENTS), buffers(frame, FRAME_RESULTS)
    batch = leading(y[0], 1)
    for k in range(size(batch)):
        of, pairs, at, law_of, results = _of_one(x, y, batch, k, real, width)
        _meet(of, pairs, at, law_of, results, array3(y[5], batch, k, real, width))


def _meet_single(frame: int) -> int:
    _meet_batch(frame, np.float32, 4)
    return 0


def _meet_double(frame: int) -> int:
    _meet_batch(frame, np.float64, 8)
    return 0


def _move_single(frame: int) -> int:
    _move_batch(frame, np.float32, 4)
    return 0


def _move_double(frame: int) -> int:
    _move_batch(frame, np.float64, 8)
    return 0


HANDLERS = (
    {"float32": _meet_single, "float64": _meet_double},
    {"float32": _move_single, "float64": _move_double},
)
"""Handlers of wrenches alone, and with Jacobians; compiled separately on first use."""


def meet(
    d: MeetingData,
    pairs: np.ndarray,
    at: tuple[Array, Array, Array],
    law_of: tuple[Cuts, int],
    slots: int | None,
    *,
    moved: bool,
) -> tuple[Contact, Array]:
    """Return the contact of all pairs of a meeting; without derivatives of its own.

    Args:
        pairs: (P, 4) clouds of the first and the second side, and their links.
        at: poses (L, 3, 3), (L, 3) and twists (L, 6) about the world's origin of the links.
        law_of: windows, and a value of :data:`KINDS`.
        slots: number of near pairs that fit, in order; None: all pairs, each in its place.
        moved: whether to return Jacobians.

    Returns:
        Pairs (S,), −1 where fewer are near; the :class:`Contact`; if ``moved``, Jacobians (S, 6,
        20) of the wrenches by displacements of the first and the second link, their relative twist
        (each about the world's origin, in its axes), friction and stiffness.
    """
    real, (cuts, kind) = at[1].dtype, law_of
    tables = [
        jax.lax.stop_gradient(jnp.asarray(x, jnp.int32 if x.dtype.kind == "i" else real))
        for x in (*d.a, *d.b)
    ]
    numbers = jnp.stack([jnp.broadcast_to(jnp.asarray(x, real), (len(pairs),)) for x in d.params], axis=1)
    count = len(pairs) if slots is None else slots
    shapes = [(count, 6), (count, 6, 6), (count, 6, 6), (count,), *([(count, 6, WIDTH)] if moved else [])]
    results = [
        jax.ShapeDtypeStruct((count,), jnp.int32),
        *(jax.ShapeDtypeStruct(shape, real) for shape in shapes),
    ]
    call = jax.ffi.ffi_call(
        register("move" if moved else "meet", HANDLERS[moved], real), results, vmap_method="expand_dims"
    )
    windows, how = (
        jnp.asarray([cuts.planes, cuts.points, cuts.onset], real),
        jnp.asarray([kind, slots is None], jnp.int32),
    )
    met = jnp.asarray(pairs, jnp.int32)
    pair, wrench, stiffness, damping, distance, *jacobian = call(
        *tables, met, *jax.lax.stop_gradient((*at, numbers)), windows, how
    )
    return pair, Contact(*met[:, 2:][pair].T, wrench, stiffness, damping, distance), *jacobian


Motion = tuple[Array, Array, Array]
"""R, p and twists of the links, as :func:`meet` takes them."""


def differentiable(
    found: Callable[..., tuple], law: Callable[..., Contact], pairs: np.ndarray
) -> Callable[..., Contact]:
    """Return a function with the values of ``found``: derivatives of wrenches by motion, friction
    and stiffness are its Jacobians, all others those of ``law``.

    Both take :class:`MeetingData` and :data:`Motion`; ``found`` has the keyword ``moved`` and the
    results of :func:`meet`; ``law`` takes the ``pairs`` after the motion. Unused results of ``law``
    are eliminated by the compiler.
    """

    @jax.custom_jvp
    def slopes(jacobian: Array, d: MeetingData, at: Motion) -> Array:
        return jacobian

    @slopes.defjvp
    def _(primals: tuple, tangents: tuple) -> tuple:
        return slopes(*primals), jax.jvp(
            functools.partial(_jacobian_of, law, pairs), primals[1:], tangents[1:]
        )[1]

    @jax.custom_jvp
    def known(pair: Array, contact: Contact, jacobian: Array, d: MeetingData, at: Motion) -> Contact:
        return contact

    def of_known(primals: tuple, tangents: tuple) -> tuple:
        (pair, contact, jacobian, d, at), (*_, d_t, at_t) = primals, tangents
        others = d_t.a, d_t.b, d_t.params._replace(friction=None, stiffness=None)
        quiet = all(isinstance(x, SymbolicZero) for x in jax.tree.leaves(others))
        d_t, at_t = jax.tree.map(_whole, (d_t, at_t))
        change = jax.jvp(lambda d, at: law(d, at, pairs), (d, at), (d_t, at_t))[1]
        if quiet:
            by = [
                _changed(contact, at, at_t),
                *(
                    jnp.asarray(x, at[1].dtype)[pair, None]
                    for x in (d_t.params.friction, d_t.params.stiffness)
                ),
            ]
            change = change._replace(
                wrench=jnp.sum(slopes(jacobian, d, at) * jnp.concatenate(by, axis=1)[:, None, :], axis=2)
            )
        return known(*primals), change

    known.defjvp(of_known, symbolic_zeros=True)

    @jax.custom_jvp
    def felt(d: MeetingData, at: Motion) -> Contact:
        return found(d, at, moved=False)[1]

    def of_felt(primals: tuple, tangents: tuple) -> tuple:
        return of_known((*found(*primals, moved=True), *primals), (None, None, None, *tangents))

    felt.defjvp(of_felt, symbolic_zeros=True)
    return felt


def _jacobian_of(law: Callable[..., Contact], pairs: np.ndarray, d: MeetingData, at: Motion) -> Array:
    """Return the Jacobians (S, 6, 20) by differentiating ``law``, with separate links for every
    body of every pair."""
    R, p, twist = (x[pairs[:, 2:].T] for x in at)  # (2, P, …)
    alone = np.concatenate([pairs[:, :2], np.arange(2 * len(pairs)).reshape(2, -1).T], axis=1).astype(
        pairs.dtype
    )

    def wrench(z: Array) -> Array:
        moves = z[:12].reshape(2, 1, 6)
        linear, turn = moves[..., :3], moves[..., 3:]
        moved = (
            R + jnp.cross(turn[..., None], R, axis=2),
            p + linear + jnp.cross(turn, p),
            twist.at[1].add(z[12:BY_FRICTION]),
        )
        c = d.params._replace(
            friction=d.params.friction + z[BY_FRICTION], stiffness=d.params.stiffness + z[BY_STIFFNESS]
        )
        return law(d._replace(params=c), tuple(x.reshape(-1, *x.shape[2:]) for x in moved), alone).wrench

    return jax.jacfwd(wrench)(jnp.zeros(WIDTH, p.dtype))


def _whole(tangent: Any) -> Any:
    """Return a tangent as an array, also if it is a symbolic zero."""
    if not isinstance(tangent, SymbolicZero):
        return tangent
    return (
        np.zeros(tangent.shape, jax.dtypes.float0)
        if tangent.dtype == jax.dtypes.float0
        else jnp.zeros(tangent.shape, tangent.dtype)
    )


def _changed(contact: Contact, at: Motion, t: Motion) -> Array:
    """Return the change (S, 18) of the links of pairs, in the order of a Jacobian's columns, under
    the tangents ``t``."""
    (R, p, _), (dR, dp, twist) = at, t
    turn = 0.5 * jnp.sum(jnp.cross(R, dR, axis=1), axis=2)
    moves = jnp.concatenate([dp - jnp.cross(turn, p), turn], axis=1)
    a, b = contact.link_a, contact.link_b
    return jnp.concatenate([moves[a], moves[b], twist[b] - twist[a]], axis=1)
