"""A trial kept: the same file as a run of the graph leaves, to be drawn, replayed and learned from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dexstack.errors import writing

if TYPE_CHECKING:
    from dexstack.graph.settings import Spec
    from dexstack.sim.loop import Loop
    from dexstack.sim.trial import Trial


def keep_trial(folder: Path, loop: Loop, spec: Spec, trial: Trial, seed: int) -> Path:
    """Write ``recording.npz`` into a folder, which is made if it is missing.

    Raises:
        ConfigError: it cannot be written.
    """
    r = dict(trial.recording)
    summary = {
        "task": spec.task,
        "object": spec.object,
        "hand": spec.hand,
        "plant": spec.plant,
        "seed": seed,
        "phase": "dropped" if trial.dropped else "reached" if trial.succeeded else "timeout",
        "reached": trial.reached,
        "seconds": trial.seconds,
        "goal": trial.goal.label,
        "orientation_error_rad": trial.orientation_error,
        "position_error_m": trial.position_error,
        "stalls": trial.stalls,
    }
    arrays = r | {"solve_t": r["t"], "solve_wall_s": r["latency"]}
    path = folder / "recording.npz"
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, summary=json.dumps(summary), **arrays)
    return path
