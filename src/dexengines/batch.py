"""Rollouts of many scenes at once."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dexengines.errors import EngineError
from dexengines.scene import Scene, State


def rollout(
    scenes: Sequence[Scene], states: State, controls: ArrayLike, *, threads: int | None = None
) -> State:
    """Rollouts of N scenes at once, which may differ in geometry, parameters and engine, but not in
    the sizes of a state.

    MuJoCo's run in its own threads, those of hydroelastic and lcp in Python's, whose lock their
    kernels do without; both give the bits of :meth:`Scene.rollout`. Those of soft are one program
    for all scenes of one structure (joints, pairs, numbers of points), on JAX's device and in its
    threads; they differ from single ones by rounding. Actuators that engines leave to MuJoCo are
    computed one after another.

    Args:
        scenes: N of :func:`dexengines.load`; one that occurs several times does one rollout after
            another.
        states: (N, …), a first state for each scene; see :func:`~dexengines.scene.stack`.
        controls: (N, T, nu), or (T, nu) for all.
        threads: at most so many; None: as many as this process has cores.

    Returns:
        States (N, T + 1, …), the first ones among them.

    Raises:
        EngineError: sizes that do not fit each other, or numbers that are not finite.
        FloatingPointError: a simulation diverged.
    """
    controls, n = np.asarray(controls, float), len(scenes)
    if not n or (threads is not None and threads < 1):
        raise EngineError("rollout: there must be at least one scene and one thread")
    for name in ("nq", "nv", "na", "nu"):
        if len(found := {getattr(scene.model, name) for scene in scenes}) > 1:
            raise EngineError(
                f"rollout: scenes whose states are to be stacked need one size, their {name} are {sorted(found)}"
            )
    if (given := {len(column) for column in states}) != {n}:
        raise EngineError(f"rollout: {n} scenes need {n} states, got {sorted(given)}")
    m = scenes[0].model
    if (
        controls.shape[-1:] != (m.nu,)
        or controls.ndim not in (2, 3)
        or controls.shape[:-2] not in ((), (n,))
        or not np.isfinite(controls).all()
    ):
        raise EngineError(
            f"rollout: controls must be finite and (T, {m.nu}) or ({n}, T, {m.nu}), got {controls.shape}"
        )
    controls = np.broadcast_to(controls, (n, *controls.shape[-2:]))
    rows, T = [State(*row) for row in zip(*states, strict=True)], controls.shape[1]
    groups: dict[object, list[int]] = {}
    for k, scene in enumerate(scenes):
        groups.setdefault((type(scene), scene.batch_key), []).append(k)
    result = State(*(np.empty((n, T + 1, *column.shape[1:])) for column in states))
    for group in groups.values():
        parts = [scenes[k] for k in group], [rows[k] for k in group], controls[group]
        for whole, part in zip(
            result,
            type(scenes[group[0]]).rollout_many(*parts, threads or len(os.sched_getaffinity(0))),
            strict=True,
        ):
            whole[group] = part
    # where MuJoCo's rollout gives up, time stands still
    for k, step in np.argwhere(~np.isfinite(result.v[:, 1:]).all(axis=2) | (np.diff(result.time) <= 0.0)):
        raise scenes[k].diverged(result.time[k, step])
    return result
