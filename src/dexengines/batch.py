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
    """Roll out N scenes at once.

    Scenes may differ in geometry, parameters and engine, but not in the sizes of a state. MuJoCo's
    run in its own threads, those of hydroelastic and lcp in Python threads, whose kernels release
    the lock; both give the bits of :meth:`Scene.rollout`. Those of soft are one program for all
    scenes of one structure (joints, pairs, numbers of points), on JAX's device and in its threads;
    they differ from single rollouts by rounding. Actuator forces that engines leave to MuJoCo are
    computed scene by scene.

    Args:
        scenes: N scenes; the rollouts of one that occurs several times run one after another.
        states: (N, …), the initial state of each scene; see :func:`~dexengines.scene.stack`.
        controls: (N, T, nu), or (T, nu) for all.
        threads: largest number of threads; the number of cores of this process if None.

    Returns:
        States (N, T + 1, …), the initial states first.

    Raises:
        EngineError: sizes that do not match, or numbers that are not finite.
        FloatingPointError: a simulation diverged.
    """
    controls, n = np.asarray(controls, float), len(scenes)
    if not n or (threads is not None and threads < 1):
        raise EngineError("rollout: there must be at least one scene and one thread")
    for name in ("nq", "nv", "na", "nu"):
        if len(found := {getattr(scene.model, name) for scene in scenes}) > 1:
            raise EngineError(f"rollout: the scenes must have one {name}, got {sorted(found)}")
    if (given := {len(column) for column in states}) != {n}:
        raise EngineError(f"rollout: {n} scenes need {n} states, got {sorted(given)}")
    nu, shape = scenes[0].model.nu, controls.shape
    if (
        shape[-1:] != (nu,)
        or len(shape) < 2
        or shape[:-2] not in ((), (n,))
        or not np.isfinite(controls).all()
    ):
        raise EngineError(f"rollout: controls must be finite and (T, {nu}) or ({n}, T, {nu}), got {shape}")
    controls = np.broadcast_to(controls, (n, *shape[-2:]))
    rows, T = [State(*row) for row in zip(*states, strict=True)], shape[-2]
    groups: dict[object, list[int]] = {}
    for k, scene in enumerate(scenes):
        groups.setdefault((type(scene), scene.batch_key), []).append(k)
    result = State(*(np.empty((n, T + 1, *column.shape[1:])) for column in states))
    for group in groups.values():
        of_group = [scenes[k] for k in group]
        parts = of_group[0].rollout_many(
            of_group, [rows[k] for k in group], controls[group], threads or len(os.sched_getaffinity(0))
        )
        for whole, part in zip(result, parts, strict=True):
            whole[group] = part
    # time stands still where MuJoCo's rollout stops early
    for k, step in np.argwhere(~np.isfinite(result.v[:, 1:]).all(axis=2) | (np.diff(result.time) <= 0.0)):
        raise scenes[k].diverged(result.time[k, step])
    return result
