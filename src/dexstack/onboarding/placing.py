"""Where and by which planner an object is turned best, found by trying: the places of a rule, one
after another, in simulation."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.control.planners import PLANNERS
from dexstack.errors import writing
from dexstack.graph.settings import Spec, chosen_planner
from dexstack.model.hand import ALLEGRO, load_hand
from dexstack.model.objects import Start, load_object
from dexstack.model.placing import other_places
from dexstack.onboarding.object_file import with_start
from dexstack.tasks.palm_turn import PalmTurn
from dexstack.trials.sweep import Cell, Outcome, Run, run_trials

SECONDS = 15.0
"""Time of a turn: half of what a trial has, so that places are found from which it goes well
[s]."""
YAWS = (np.pi / 2, -np.pi / 2)
"""Turns that are tried by turns [rad]."""


@dataclass(frozen=True)
class Tried:
    """A place and a planner, and what came of it."""

    start: Start
    outcomes: tuple[Outcome, ...]

    @property
    def succeeded(self) -> int:
        return sum(o.succeeded for o in self.outcomes)

    @property
    def dropped(self) -> int:
        return sum(o.dropped for o in self.outcomes)

    @property
    def error(self) -> float:
        """Orientation error at the end, in the mean [rad]."""
        return float(np.mean([o.orientation_error for o in self.outcomes]))

    @property
    def rank(self) -> tuple[int, int, float]:
        """The larger the better."""
        return self.succeeded, -self.dropped, -self.error


def try_places(
    file: Path,
    trials: int,
    seed: int,
    *,
    overrides: Mapping[str, Any] | None = None,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda message: None,
) -> list[Tried]:
    """Turn an object by ±90° from where its file puts it and from other places of a right hand,
    until all trials from one succeed.

    Every place is tried with every planner of dexstack, first with that of the file: which is
    better depends on the object.

    Args:
        file: the object's YAML.
        trials: from every place with every planner.
        seed: of the start's noise; trial k draws from seed + k at every place.
        overrides: single parameters of the trials.

    Returns:
        What was tried, in that order; as the file has it first.

    Raises:
        ConfigError: the object cannot be used.
    """
    obj, hand = load_object(file), load_hand("right")
    first = obj.start(ALLEGRO)
    own = chosen_planner(Spec(PalmTurn.name, str(file)))
    planners = [own, *(name for name in PLANNERS if name != own)]
    starts = [
        replace(start, planner=planner)
        for start in (first, *other_places(hand, obj, first))
        for planner in planners
    ]
    tried: list[Tried] = []
    with tempfile.TemporaryDirectory(prefix="dexstack-") as folder:
        drafts = [Path(folder) / f"{k}.yaml" for k in range(len(starts))]
        for draft, start in zip(drafts, starts, strict=True):
            draft.write_text(_with_mesh(with_start(file.read_text(), start), obj.mesh_path))
        cells = [
            Cell(str(k), Spec(PalmTurn.name, str(draft), overrides=tuple((overrides or {}).items())))
            for k, draft in enumerate(drafts)
        ]
        run = Run(SECONDS, yaws=YAWS)
        outcomes = run_trials(cells, run, trials, seed, jobs=jobs)
        try:
            for start in starts:
                tried.append(Tried(start, tuple(next(outcomes) for _ in range(trials))))
                progress(
                    f"{len(tried)}/{len(starts)} {place(start)}: {tried[-1].succeeded} of {trials}, {tried[-1].dropped} dropped"
                )
                if tried[-1].succeeded == trials:
                    break
        finally:
            outcomes.close()
    return tried


def best(tried: Sequence[Tried]) -> Tried:
    """The first of the best."""
    return max(tried, key=lambda t: t.rank)


def place(start: Start) -> str:
    """A start in words."""
    yaw = np.degrees(2.0 * np.arctan2(start.pose_WO[6], start.pose_WO[3]))
    where = ", ".join(f"{1e3 * v:.1f}" for v in start.pose_WO[:3])
    planner = f", by {start.planner}" if start.planner else ""
    return f"'{start.hand_pose}' at ({where}) mm, {yaw:.0f}°{planner}"


def move(file: Path, start: Start) -> None:
    """Write a start into an object's YAML.

    Raises:
        ConfigError: the file cannot be read, or be written.
    """
    with writing(file):
        file.write_text(with_start(file.read_text(), start))


def _with_mesh(text: str, mesh: Path) -> str:
    return re.sub(r"(?m)^mesh:.*$", lambda _: f"mesh: {mesh.resolve()}", text, count=1)
