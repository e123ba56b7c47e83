"""Films of the best trial and of the worst one of every kind of end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import mujoco
import numpy as np

from dexstack.errors import writing
from dexstack.report.film import write_film

if TYPE_CHECKING:
    from dexstack.trials.keep import BatchTrial

SECONDS = 15.0
"""Length of the last part of a trial that a film shows [s]."""


def worth_seeing(outcomes: Sequence[BatchTrial]) -> dict[str, BatchTrial]:
    """Choose the best trial, as ``best``, and the worst of every end: ``worst-succeeded``,
    ``worst-dropped``, ``worst-late``, ``worst-stopped`` (by the watch, or because the plant
    failed).

    Trials are ranked by goals reached, then by distance to the goal; none is chosen twice.
    """
    ranked = sorted(outcomes, key=_merit)
    chosen = {"best": ranked[-1]}
    for o in ranked[:-1]:
        chosen.setdefault(f"worst-{_end(o)}", o)
    return chosen


def write_trial_films(folder: Path, outcomes: Sequence[BatchTrial], scene: mujoco.MjModel) -> dict[str, Path]:
    """Write films of the trials of :func:`worth_seeing` as GIF files into a folder, which is made if
    it is missing; trials too short to show are skipped.

    Args:
        scene: compiled scene with the camera ``film``, of the trials' robot and object.

    Raises:
        ConfigError: a file cannot be written.
    """
    made = {}
    for name, outcome in worth_seeing(outcomes).items():
        t = np.asarray(outcome.recording["t"])
        shown = {
            k: np.asarray(outcome.recording[k])[t >= t[-1:] - SECONDS]
            for k in ("t", "q", "pose_WO", "goal_WO")
        }
        finite = np.isfinite(np.column_stack(list(shown.values()))).all(axis=1)  # not after divergence
        if finite.sum() < 2:
            continue
        path = folder / f"{name}.gif"
        with writing(path):
            folder.mkdir(parents=True, exist_ok=True)
            made[name] = write_film(path, {k: array[finite] for k, array in shown.items()}, scene)
    return made


def _merit(o: BatchTrial) -> tuple[bool, int, float]:
    return (
        o.succeeded,
        len(o.reached_at),
        -(o.orientation_error if np.isfinite(o.orientation_error) else np.inf),
    )


def _end(o: BatchTrial) -> str:
    if o.succeeded:
        return "succeeded"
    return "dropped" if o.dropped else "stopped" if o.trouble else "late"
