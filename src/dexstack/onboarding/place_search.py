"""Search for the place and planner with which an object is turned best, by trials in simulation."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.control.planners import PLANNERS
from dexstack.errors import ConfigError, writing
from dexstack.graph.settings import Spec, chosen_planner
from dexstack.model.hand import ALLEGRO, HandModel, load_hand
from dexstack.model.objects import ObjectModel, Start, load_object
from dexstack.model.placing import HIGHEST, PlacingScene
from dexstack.onboarding.object_file import with_start
from dexstack.tasks.palm_turn import PalmTurn
from dexstack.trials.keep import BatchTrial
from dexstack.trials.sweep import Cell, Run, run_trials

SECONDS = 15.0
"""Time of a turn [s]: half of a trial's, so that only places from which it goes well succeed."""
YAWS = (np.pi / 2, -np.pi / 2)
"""Goals of consecutive trials, as turns from the start [rad]."""
APART = 0.015
"""Distance between places that are tried [m]."""
HIGHER = 0.02
"""Largest height of a place over the first one in the same hand pose [m]."""


@dataclass(frozen=True)
class Tried:
    """A start with its planner, and its trials."""

    start: Start
    outcomes: tuple[BatchTrial, ...]

    @property
    def succeeded(self) -> int:
        return sum(o.succeeded for o in self.outcomes)

    @property
    def dropped(self) -> int:
        return sum(o.dropped for o in self.outcomes)

    @property
    def error(self) -> float:
        """Mean orientation error at the end [rad]."""
        return float(np.mean([o.orientation_error for o in self.outcomes]))


def other_places(hand: HandModel, obj: ObjectModel, first: Start) -> list[Start]:
    """Return alternatives to the start ``first``: the hand's other pose, then from both back and
    forth and turned by a quarter.

    Places at which the object falls past the hand are left out, and those where it would lie on a
    part that stands up, more than :data:`HIGHER` over the pose's first place.
    """
    scene, yaw = PlacingScene(hand, obj), 2.0 * np.arctan2(first.pose_WO[6], first.pose_WO[3])
    at = {first.hand_pose: first.pose_WO[:2]}
    if first.hand_pose == "home" and "flat" in hand.poses:
        at["flat"] = np.array([scene.middle_of_first_links(), 0.0])
    elif (spot := scene.spot_on_palm()) is not None:
        at["home"] = spot[:2]
    changes = [(0.0, 0.0), (-APART, 0.0), (APART, 0.0), (0.0, np.pi / 2)]
    found: list[Start] = []
    heights = {first.hand_pose: first.pose_WO[2]}
    for dx, turn in changes:
        for pose in sorted(at, key=lambda pose: pose == first.hand_pose):
            if pose == first.hand_pose and not (dx or turn):
                continue
            try:
                start = scene.start(np.array([*(at[pose] + [dx, 0.0]), HIGHEST]), pose, yaw + turn)
            except ConfigError:
                continue
            if start.pose_WO[2] < heights.setdefault(pose, start.pose_WO[2]) + HIGHER:
                found.append(start)
    return found


def try_places(
    file: Path,
    trials: int,
    seed: int,
    *,
    overrides: Mapping[str, Any] | None = None,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda message: None,
) -> list[Tried]:
    """Turn an object by ±90° from its file's start and from other places in a right hand, until all
    trials from one succeed.

    Every place is tried with every planner, the file's first, since the better one depends on the
    object.

    Args:
        file: the object's YAML.
        trials: trials of every place with every planner.
        seed: trial k draws the noise of the start from seed + k at every place.
        overrides: single parameters of the trials.

    Returns:
        Places in the order in which they were tried, the file's first.

    Raises:
        ConfigError: the object cannot be used.
    """
    obj, hand = load_object(file), load_hand("right")
    first = obj.start(ALLEGRO)
    own = chosen_planner(Spec(PalmTurn.name, str(file)))
    planners = [own, *(name for name in PLANNERS if name != own)]
    places = (first, *other_places(hand, obj, first))
    starts = [replace(start, planner=planner) for start in places for planner in planners]
    tried: list[Tried] = []
    with tempfile.TemporaryDirectory(prefix="dexstack-") as folder:
        cells = []
        for k, start in enumerate(starts):
            draft = Path(folder) / f"{k}.yaml"
            draft.write_text(_with_mesh(with_start(file.read_text(encoding="utf-8"), start), obj.mesh_path))
            spec = Spec(PalmTurn.name, str(draft), overrides=tuple((overrides or {}).items()))
            cells.append(Cell(str(k), spec))
        outcomes = run_trials(cells, Run(SECONDS, yaws=YAWS), trials, seed, jobs=jobs)
        try:
            for start in starts:
                tried.append(Tried(start, tuple(next(outcomes) for _ in range(trials))))
                progress(
                    f"{len(tried)}/{len(starts)} {describe(start)}: {tried[-1].succeeded} of {trials}, "
                    f"{tried[-1].dropped} dropped"
                )
                if tried[-1].succeeded == trials:
                    break
        finally:
            outcomes.close()
    return tried


def best(tried: Sequence[Tried]) -> Tried:
    """Return the first of the best: by successes, then drops, then error."""
    return max(tried, key=lambda t: (t.succeeded, -t.dropped, -t.error))


def describe(start: Start) -> str:
    """Return a start in words."""
    yaw = np.degrees(2.0 * np.arctan2(start.pose_WO[6], start.pose_WO[3]))
    where = ", ".join(f"{1e3 * v:.1f}" for v in start.pose_WO[:3])
    planner = f", by {start.planner}" if start.planner else ""
    return f"'{start.hand_pose}' at ({where}) mm, {yaw:.0f}°{planner}"


def move(file: Path, start: Start) -> None:
    """Write a start into an object's YAML.

    Raises:
        ConfigError: the file cannot be read or written.
    """
    with writing(file):
        file.write_text(with_start(file.read_text(encoding="utf-8"), start))


def _with_mesh(text: str, mesh: Path) -> str:
    return re.sub(r"(?m)^mesh:.*$", lambda _: f"mesh: {mesh.resolve()}", text, count=1)
