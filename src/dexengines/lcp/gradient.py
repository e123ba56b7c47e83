"""Derivatives of steps and rollouts with respect to state, control, masses, friction and
restitution; as a JAX function, too.

The derivative is that of the recorded decisions: exact wherever the active set is constant around
the point. On the boundary of two active sets (a contact that just touches without load, a force
exactly at its friction bound, a grazing impact) it is the one-sided derivative of the side the
simulation took: a contact without load counts as separated, friction at its bound as sliding.
"""

from __future__ import annotations

import functools
import os
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dexengines.errors import EngineError
from dexengines.lcp import record as s
from dexengines.lcp.adjoint import pull_back
from dexengines.lcp.dynamics_adjoint import make_cotangents
from dexengines.lcp.replay import differentiate
from dexengines.lcp.roll import refer, roll
from dexengines.lcp.system import LcpSystem

if TYPE_CHECKING:
    import jax

INPUTS = ("q", "v", "tau", "mass", "friction", "restitution")
"""What derivatives are taken with respect to: (Q,) and (V,) at the start, (T, V), (B,) of the
bodies, (G,) of the geometries twice."""


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
    """Advance a system by ``len(tau)`` steps under generalised forces tau (T, V) and record what
    was decided.

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
    """Transposed derivative of the final state: ``cotangent`` (Q + V,) times the Jacobian, by a
    sweep back over the tape.

    Args:
        wrt: of :data:`INPUTS`.

    Returns:
        An array of the shape of each input by name.

    Raises:
        EngineError: the system has other parameters, or another tape, than the rollout had.
    """
    _check(system, run)
    state = np.array(cotangent, float)
    out = make_cotangents(
        system.world.tree, len(run.tau), run.parameters.friction.size, run.parameters.restitution.size
    )
    pull_back(system.reference(), run.tau, state, refer(out))
    parts = dict(
        zip(
            INPUTS,
            (*np.split(state, [run.q.shape[1]]), out.tau, out.mass, out.friction, out.restitution),
            strict=True,
        )
    )
    return {k: parts[k] for k in wrt}


def _check(system: LcpSystem, run: Rollout) -> None:
    if run.tape is not system.tape or run.parameters is not system.parameters:
        raise EngineError("derivatives are to be taken before the system's tape or parameters are replaced")


def directional(system: LcpSystem, run: Rollout, directions: dict[str, np.ndarray]) -> np.ndarray:
    """Derivatives of the final state along n directions, before the system takes another step.

    Args:
        directions: per entry of :data:`INPUTS` an array (n, *shape of the input); what is left out
            stays constant.

    Returns:
        (n, Q + V)

    Raises:
        EngineError: the system has other parameters, or another tape, than the rollout had.
    """
    n = len(next(iter(directions.values())))
    shapes = (run.q[0], run.v[0], run.tau, *run.parameters)
    _check(system, run)
    parts = [
        np.array(directions[k], float, order="C") if k in directions else np.zeros((n, *x.shape))
        for k, x in zip(INPUTS, shapes, strict=True)
    ]
    out = np.empty((n, run.q.shape[1] + run.v.shape[1]))
    differentiate(system.reference(), run.q[0], run.v[0], run.tau, *parts, out)
    return out


def jacobian(system: LcpSystem, run: Rollout, wrt: Sequence[str] = ("q", "v")) -> dict[str, np.ndarray]:
    """Derivatives of the final state (Q + V,) with respect to whole inputs: arrays (Q + V, *shape
    of the input) by name."""
    shapes = dict(
        zip(
            INPUTS,
            (run.q[0].shape, run.v[0].shape, run.tau.shape, *(x.shape for x in run.parameters)),
            strict=True,
        )
    )
    result = {}
    for name in wrt:
        size = int(np.prod(shapes[name]))
        columns = directional(system, run, {name: np.eye(size).reshape(size, *shapes[name])})
        result[name] = np.moveaxis(columns.reshape(*shapes[name], -1), -1, 0)
    return result


def jax_rollout(system: LcpSystem, *, threads: int | None = None) -> Callable[..., jax.Array]:
    """The engine as a JAX function ``(q, v, tau, mass, friction, restitution) → final state (Q +
    V,)`` with a custom derivative.

    ``tau`` is (T, V); mass, friction and restitution are laid out as in
    :class:`.record.Parameters`. Works under ``jit``, ``grad`` and
    ``vmap``: rollouts of a batch run side by side in ``threads`` threads of this process (None: as
        many as it has cores), each with a twin
    of the system, which itself stays as it is. Derivatives are taken by the inputs that are asked
    for. Warm starts are cleared before each rollout, so that it is a function.
    """
    import jax
    import jax.numpy as jnp

    idle: queue.SimpleQueue[LcpSystem] = queue.SimpleQueue()
    count = threads or len(os.sched_getaffinity(0))
    for _ in range(count):
        idle.put(system.twin())

    def run(twin, inputs):
        twin.forget()
        twin.q[:], twin.v[:] = inputs[:2]
        twin.parameters = s.Parameters(*inputs[3:])
        return rollout(twin, inputs[2])

    def each(work, inputs):
        """Do work(twin, inputs) for all rows of a batch."""

        def one(row):
            twin = idle.get()
            try:
                return work(twin, row)
            finally:
                idle.put(twin)

        batch = np.shape(inputs[1])[:-1]
        arrays = [np.array(x, float) for x in inputs]
        rows = list(zip(*(x.reshape(-1, *x.shape[len(batch) :]) for x in arrays), strict=True))
        if len(rows) == 1:
            return batch, [one(rows[0])]
        with ThreadPoolExecutor(count) as pool:
            return batch, list(pool.map(one, rows))

    def forward(*inputs):
        def work(twin, row):
            end = run(twin, row)
            return np.concatenate([end.q[-1], end.v[-1]])

        batch, ends = each(work, inputs)
        return np.reshape(ends, (*batch, -1)).astype(np.asarray(inputs[0]).dtype)

    def backward(wrt, *inputs):
        def work(twin, row):
            return vjp(twin, run(twin, row[:-1]), row[-1], wrt)

        batch, found = each(work, inputs)
        return tuple(
            np.reshape([x[k] for x in found], (*batch, *found[0][k].shape)).astype(
                np.asarray(inputs[INPUTS.index(k)]).dtype
            )
            for k in wrt
        )

    @jax.custom_vjp
    def roll(q, v, tau, mass, friction, restitution):
        shape = jax.ShapeDtypeStruct((q.size + v.size,), q.dtype)
        return jax.pure_callback(
            forward, shape, q, v, tau, mass, friction, restitution, vmap_method="broadcast_all"
        )

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
        call = functools.partial(backward, tuple(INPUTS[i] for i in at))
        for i, x in zip(
            at, jax.pure_callback(call, shapes, *inputs, cotangent, vmap_method="broadcast_all"), strict=True
        ):
            result[i] = x
        return tuple(result)

    roll.defvjp(push, pull, symbolic_zeros=True)
    return roll
