"""Identification by ``mujoco.sysid``: its optimiser and intervals, with our windows and rollouts."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dexstack.hand.servo import ServoParams
from dexstack.identification.fit import SAMPLES
from dexstack.identification.rollouts import Predictor, applied_targets, cut_windows, differences, in_order
from dexstack.identification.unknowns import MOST, Unknown, first_guess, values, world_and_delay
from dexstack.tasks.base import Task

REACH = 3.0
"""Bounds of the unknowns, in standard deviations of the prior."""
MOST_STEPS = 30


class Found(NamedTuple):
    """Values (P,) with their 90 % intervals, in the unknowns' units."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seconds: float


def installed() -> bool:
    """Return true if ``mujoco.sysid`` is usable (``pip install 'mujoco[sysid]'``)."""
    from mujoco import sysid

    return hasattr(sysid, "optimize")


def found(
    task: Task, servo: ServoParams, recording: Mapping[str, np.ndarray], unknowns: tuple[Unknown, ...]
) -> Found:
    """Fit all windows by ``mujoco.sysid.optimize`` from our first guess, with its default settings
    and our parametrisation."""
    from mujoco import sysid

    begin = time.perf_counter()
    predictor, recording = Predictor(task, servo), in_order(recording)
    windows = cut_windows(recording, SAMPLES, MOST, "the recording")
    targets = applied_targets(recording, servo)
    parameters = sysid.ParameterDict()
    for u, x in zip(unknowns, first_guess(unknowns), strict=True):
        parameters.add(sysid.Parameter(u.name, x, x - REACH * u.spread, x + REACH * u.spread))

    def residual(x: np.ndarray, params: Any) -> tuple[list[np.ndarray], None, None]:
        """Return the residuals of one point (P,) as (R,), or of K points (P, K) as (R, K)."""
        columns = np.atleast_2d(x.T)
        worlds = [world_and_delay(unknowns, each) for each in columns]
        r = differences(predictor.predict(worlds, windows, targets), windows.measured)
        r = np.nan_to_num(r.reshape(len(columns), -1), nan=1e3, posinf=1e3, neginf=-1e3).T
        return [r[:, 0] if x.ndim == 1 else r], None, None

    with contextlib.redirect_stdout(io.StringIO()):  # it prints its iterations
        best, result = sysid.optimize(parameters, residual, verbose=False, max_iters=MOST_STEPS)
    x = np.asarray(best.as_vector(), float)
    _, half = sysid.calculate_intervals(residual(x, None)[0], np.asarray(result.jac, float), alpha=0.1)
    seconds = time.perf_counter() - begin
    return Found(values(unknowns, x), values(unknowns, x - half), values(unknowns, x + half), seconds)
