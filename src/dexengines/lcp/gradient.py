"""Derivatives of steps and rollouts with respect to state, control, masses, friction and
restitution.

The derivative is that of the recorded decisions, exact wherever the active set is constant around
the point. On the boundary of two active sets (a contact that just touches without load, a force
exactly at its friction bound, a grazing impact) it is the one-sided derivative of the side that the
simulation took: a contact without load counts as separated, friction at its bound as sliding.
"""

from __future__ import annotations

import functools
import os
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dexengines.errors import EngineError
from dexengines.kernels import Stored
from dexengines.lcp import record as s
from dexengines.lcp.adjoint import pull_back
from dexengines.lcp.dynamics_adjoint import COTANGENTS, make_cotangents
from dexengines.lcp.roll import roll
from dexengines.lcp.system import LcpSystem

if TYPE_CHECKING:
    import jax

INPUTS = ("q", "v", "tau", "mass", "friction", "restitution")
"""Inputs of a rollout with derivatives: (Q,) and (V,) at the start, (T, V), (B,) of the bodies, and
twice (G,) as in :class:`.record.Parameters`."""


class Rollout(NamedTuple):
    """A recorded rollout of T steps."""

    q: np.ndarray
    """(T + 1, Q)"""
    v: np.ndarray
    """(T + 1, V)"""
    tau: np.ndarray
    """(T, V)"""
    parameters: s.Parameters
    tape: s.Tape


def rollout(system: LcpSystem, tau: np.ndarray) -> Rollout:
    """Advance a system by ``len(tau)`` steps under generalised forces tau (T, V) and record its
    decisions.

    Raises:
        EngineError: tau has the wrong size or is not finite.
        FloatingPointError: as :meth:`.system.LcpSystem.step`; the system keeps its state.
    """
    tau = np.array(tau, float, order="C")  # a copy: the kernels are compiled for arrays that may be written
    if tau.ndim != 2 or tau.shape[1] != system.model.nv or not np.isfinite(tau).all():
        raise EngineError(f"a rollout needs finite forces (steps, {system.model.nv}), got {tau.shape}")
    steps = len(tau)
    qs, vs = np.empty((steps + 1, system.q.size)), np.empty((steps + 1, system.v.size))
    qs[0], vs[0] = system.q, system.v
    while True:
        tape = system.tape
        tape.size[:] = 0
        counts, extremes = system.counts.copy(), system.extremes.copy()
        q, v = qs[0].copy(), vs[0].copy()
        status = roll(system.reference(), q, v, tau, system.model.opt.timestep, counts, extremes, qs, vs)
        if status not in (s.CONTACTS_FULL, s.TAPE_FULL):
            break
        system.enlarge()
    if status != s.FITS:
        raise system.failure(status)
    system.q[:], system.v[:], system.counts, system.extremes = q, v, counts, extremes
    system.time += steps * system.model.opt.timestep
    return Rollout(qs, vs, tau, system.parameters, tape)


def vjp(
    system: LcpSystem, run: Rollout, cotangent: np.ndarray, wrt: Sequence[str] = INPUTS
) -> dict[str, np.ndarray]:
    """Multiply ``cotangent`` (Q + V,) by the Jacobian of the final state, by a sweep back over the
    tape.

    Args:
        wrt: names in :data:`INPUTS`.

    Returns:
        Arrays of the shape of each input by name.

    Raises:
        EngineError: the system has other parameters, or another tape, than the rollout had.
    """
    if run.tape is not system.tape or run.parameters is not system.parameters:
        raise EngineError("derivatives are to be taken before the system's tape or parameters are replaced")
    state = np.array(cotangent, float)
    out = make_cotangents(
        system.world.tree, len(run.tau), run.parameters.friction.size, run.parameters.restitution.size
    )
    stored = Stored(out, COTANGENTS)
    pull_back(system.reference(), run.tau, state, stored.address)
    parts = *np.split(state, [run.q.shape[1]]), out.tau, out.mass, out.friction, out.restitution
    return {k: x for k, x in zip(INPUTS, parts, strict=True) if k in wrt}


def jacobian(system: LcpSystem, run: Rollout, wrt: Sequence[str] = ("q", "v")) -> dict[str, np.ndarray]:
    """Return derivatives of the final state (Q + V,) with respect to whole inputs: arrays (Q + V,
    *shape of the input) by name; one sweep for each entry of the state."""
    rows = [vjp(system, run, e, wrt) for e in np.eye(run.q.shape[1] + run.v.shape[1])]
    return {name: np.array([row[name] for row in rows]) for name in wrt}


class _Twins:
    """Copies of a system, one for each thread, on which a batch is worked."""

    def __init__(self, system: LcpSystem, count: int) -> None:
        self._count = count
        self._idle: queue.SimpleQueue[LcpSystem] = queue.SimpleQueue()
        for _ in range(count):
            self._idle.put(system.twin())

    def run(self, twin: LcpSystem, inputs: Sequence[np.ndarray]) -> Rollout:
        twin.forget()
        twin.q[:], twin.v[:] = inputs[:2]
        twin.parameters = s.Parameters(*inputs[3:])
        return rollout(twin, inputs[2])

    def each(self, work: Callable[[LcpSystem, tuple], Any], inputs: Sequence[Any]) -> tuple[tuple, list]:
        """Return the shape of a batch and ``work(twin, inputs)`` of each of its rows."""

        def one(row: tuple) -> Any:
            twin = self._idle.get()
            try:
                return work(twin, row)
            finally:
                self._idle.put(twin)

        batch = np.shape(inputs[1])[:-1]
        arrays = [np.array(x, float) for x in inputs]
        rows = list(zip(*(x.reshape(-1, *x.shape[len(batch) :]) for x in arrays), strict=True))
        if len(rows) == 1:
            return batch, [one(rows[0])]
        with ThreadPoolExecutor(self._count) as pool:
            return batch, list(pool.map(one, rows))

    def forward(self, *inputs: Any) -> np.ndarray:
        """Return the final states of a batch."""

        def work(twin: LcpSystem, row: tuple) -> np.ndarray:
            end = self.run(twin, row)
            return np.concatenate([end.q[-1], end.v[-1]])

        batch, ends = self.each(work, inputs)
        return np.reshape(ends, (*batch, -1)).astype(np.asarray(inputs[0]).dtype)

    def backward(self, wrt: tuple[str, ...], *inputs: Any) -> tuple[np.ndarray, ...]:
        """Return the cotangents of inputs ``wrt``; the last of ``inputs`` is that of the final
        state."""

        def work(twin: LcpSystem, row: tuple) -> dict[str, np.ndarray]:
            return vjp(twin, self.run(twin, row[:-1]), row[-1], wrt)

        batch, found = self.each(work, inputs)
        kinds = {k: np.asarray(x).dtype for k, x in zip(INPUTS, inputs, strict=False)}
        return tuple(
            np.reshape([x[k] for x in found], (*batch, *found[0][k].shape)).astype(kinds[k]) for k in wrt
        )


def jax_rollout(system: LcpSystem, *, threads: int | None = None) -> Callable[..., jax.Array]:
    """Return the engine as a JAX function ``(q, v, tau, mass, friction, restitution) → final state
    (Q + V,)`` with a custom derivative.

    ``tau`` is (T, V); mass, friction and restitution are as in :class:`.record.Parameters`. Works
    under ``jit``, ``grad`` and ``vmap``: rollouts of a batch run concurrently in ``threads``
    threads of this process (None: one per core), each on a copy of the system, which itself is not
    changed. Only the derivatives asked for are computed. Warm starts are reset before each rollout,
    so that it is a function.
    """
    import jax
    import jax.numpy as jnp

    twins = _Twins(system, threads or len(os.sched_getaffinity(0)))

    @jax.custom_vjp
    def roll(q, v, tau, mass, friction, restitution):
        shape = jax.ShapeDtypeStruct((q.size + v.size,), q.dtype)
        inputs = q, v, tau, mass, friction, restitution
        return jax.pure_callback(twins.forward, shape, *inputs, vmap_method="broadcast_all")

    def push(*primals):
        inputs = tuple(x.value for x in primals)
        return roll(*inputs), (inputs, tuple(() if x.perturbed else None for x in primals))

    def pull(kept, cotangent):
        inputs, asked = kept
        result = [jnp.zeros_like(x) for x in inputs]
        if isinstance(cotangent, jax.custom_derivatives.SymbolicZero):
            return tuple(result)
        at = [i for i, x in enumerate(asked) if x is not None]
        shapes = tuple(jax.ShapeDtypeStruct(inputs[i].shape, inputs[i].dtype) for i in at)
        call = functools.partial(twins.backward, tuple(INPUTS[i] for i in at))
        found = jax.pure_callback(call, shapes, *inputs, cotangent, vmap_method="broadcast_all")
        for i, x in zip(at, found, strict=True):
            result[i] = x
        return tuple(result)

    roll.defvjp(push, pull, symbolic_zeros=True)
    return roll
