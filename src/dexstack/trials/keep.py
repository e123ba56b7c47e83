"""Trials kept: as a run of the graph leaves them, to be drawn, replayed and learned from; and as
results, so that what was cut goes on."""

from __future__ import annotations

import contextlib
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from dexstack.errors import ConfigError, writing
from dexstack.tasks.base import Goal

if TYPE_CHECKING:
    from dexstack.graph.settings import Spec
    from dexstack.sim.trial import Trial
    from dexstack.trials.sweep import Outcome


def keep_trial(folder: Path, spec: Spec, trial: Trial, seed: int) -> Path:
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


def claim(folder: Path, plan: Mapping[str, Any], what: str) -> None:
    """Make a folder that keeps what one plan makes, or go on in one.

    Args:
        plan: what all that is kept there depends on; goes into JSON.
        what: the plan makes, for complaints.

    Raises:
        ConfigError: the folder holds another plan's, or cannot be written.
    """
    said = json.loads(json.dumps(plan, default=str))
    note = folder / "plan.json"
    if note.is_file() and json.loads(note.read_text()) != said:
        raise ConfigError(f"{folder} holds {what} of other numbers, parameters or code; give another folder")
    with writing(note):
        folder.mkdir(parents=True, exist_ok=True)
        note.write_text(json.dumps(said, indent=1))


@contextlib.contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """Write a file inside: it is there whole or not at all, however this ends. Folders that are
    missing are made.

    Raises:
        ConfigError: it cannot be written.
    """
    part = path.with_suffix(".part")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            yield file
        part.replace(path)


def save_outcome(path: Path, outcome: Outcome) -> None:
    """Write an outcome with its recording, whole or not at all.

    Raises:
        ConfigError: it cannot be written.
    """
    values = {f.name: getattr(outcome, f.name) for f in fields(outcome)}
    recording, goal = values.pop("recording"), values.pop("goal")
    values |= {"goal": [goal.pose_WO.tolist(), goal.label]}
    with whole(path) as file:
        np.savez_compressed(
            file, outcome=json.dumps(values, default=lambda number: number.item()), **recording
        )


def load_outcome(path: Path) -> Outcome:
    """What :func:`save_outcome` wrote.

    Raises:
        ConfigError: the file is something else.
    """
    from dexstack.trials.sweep import Outcome

    try:
        with path.open("rb") as file, np.load(file) as archive:
            recording = {name: archive[name] for name in archive.files if name != "outcome"}
            values = json.loads(str(archive["outcome"]))
        pose_WO, label = values.pop("goal")
        values |= {"goal": Goal(np.array(pose_WO), label), "reached_at": tuple(values["reached_at"])}
        return Outcome(**values, recording=recording)
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise ConfigError(f"{path} is no kept trial: {error}") from None
