"""Trials as files: recordings like those of a graph's run, to be drawn, replayed and learned from, and
outcomes, so that an interrupted batch continues."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dexstack.errors import ConfigError
from dexstack.files import whole, write_text
from dexstack.sim.trial import Trial
from dexstack.tasks.base import Goal

if TYPE_CHECKING:
    from dexstack.graph.settings import Spec


@dataclass(frozen=True)
class BatchTrial(Trial):
    """Result of one trial of a batch."""

    seed: int
    label: str
    """Description of the first goal."""
    cell: str


def keep_trial(folder: Path, spec: Spec, trial: Trial, seed: int) -> Path:
    """Write ``recording.npz`` into a folder, which is made if it is missing.

    Raises:
        ConfigError: the file cannot be written.
    """
    r = dict(trial.recording)
    summary = {
        "task": spec.task,
        "object": spec.object,
        "hand": spec.hand,
        "plant": spec.plant,
        **{name: value for name, value in spec.overrides if name == "gravity"},
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
    with whole(path) as file:
        np.savez_compressed(file, summary=json.dumps(summary), **arrays)
    return path


def claim(folder: Path, plan: Mapping[str, Any], what: str) -> None:
    """Make the folder of a plan's results, or check that an existing one belongs to the plan.

    Args:
        plan: everything that the results depend on; converted to JSON.
        what: name of the results in error messages.

    Raises:
        ConfigError: the folder holds another plan's results, or cannot be written.
    """
    text = json.loads(json.dumps(plan, default=str))
    note = folder / "plan.json"
    if note.is_file() and json.loads(note.read_text(encoding="utf-8")) != text:
        raise ConfigError(f"{folder} holds {what} of other numbers, parameters or code; give another folder")
    write_text(note, json.dumps(text, indent=1))


def save_outcome(path: Path, outcome: BatchTrial) -> None:
    """Write an outcome with its recording atomically.

    Raises:
        ConfigError: the file cannot be written.
    """
    values = {f.name: getattr(outcome, f.name) for f in fields(outcome)}
    recording, goal = values.pop("recording"), values.pop("goal")
    values |= {"goal": [goal.pose_WO.tolist(), goal.label]}
    with whole(path) as file:
        np.savez_compressed(
            file, outcome=json.dumps(values, default=lambda number: number.item()), **recording
        )


def load_outcome(path: Path) -> BatchTrial:
    """Read a file of :func:`save_outcome`.

    Raises:
        ConfigError: the file is not an outcome.
    """
    try:
        with path.open("rb") as file, np.load(file) as archive:
            recording = {name: archive[name] for name in archive.files if name != "outcome"}
            values = json.loads(str(archive["outcome"]))
        pose_WO, label = values.pop("goal")
        values |= {"goal": Goal(np.array(pose_WO), label), "reached_at": tuple(values["reached_at"])}
        return BatchTrial(**values, recording=recording)
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise ConfigError(f"{path} is not a trial's outcome: {error}") from None
