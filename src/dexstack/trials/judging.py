"""Judging of a controller by a protocol: tasks × plants × worlds × perceptions."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dexstack.config import read_yaml_file
from dexstack.errors import ConfigError, check_names
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.report.statistics import errors, times, wilson
from dexstack.tasks.base import World
from dexstack.trials.keep import BatchTrial
from dexstack.trials.overlap import Overlap
from dexstack.trials.sweep import Cell, Run, run_trials, summary

DEEP = 0.002
"""Overlap from which a sample counts as deep [m]."""
STILL_TIME, STILL_TURN, STILL_SHIFT = 5.0, 0.05, 0.003
"""A trial is stuck if its errors changed less than this [rad], [m] in its last seconds [s]."""
ENDS = ("success", "drop", "servo trip", "plant failure", "stuck", "timeout")
"""Ends of a trial, the first that applies."""
PARTS = ("trials", "seed", "tasks", "plants", "worlds", "perception")
_TYPES = {
    "trials": (int, object),
    "seed": (int, object),
    "plants": (list, str),
    **dict.fromkeys(("tasks", "worlds", "perception"), (dict, dict)),
}
_WORDS = {
    (int, object): "a whole number",
    (list, str): "a list of names",
    (dict, dict): "a mapping of mappings",
}


class CellName(NamedTuple):
    """What a cell of the table varies."""

    task: str
    plant: str
    world: str
    perception: str


@dataclass(frozen=True)
class Protocol:
    """Protocol, as its file has it."""

    trials: int
    seed: int
    tasks: Mapping[str, Mapping[str, Any]]
    """Name → ``task``, ``seconds``, and optionally ``yaws`` [deg] and ``parameters``."""
    plants: Sequence[str]
    worlds: Mapping[str, Mapping[str, float]]
    perception: Mapping[str, Mapping[str, float]]

    def cells(
        self,
        planner: str,
        obj: str,
        hand: str,
        files: Sequence[str] = (),
        settings: Mapping[str, Any] = {},
    ) -> Iterator[tuple[CellName, Cell, Run]]:
        """Yield every cell with the run of its trials.

        Args:
            planner: name, or path of a policy or of a planner's file; empty: the task's.
            files: parameter files of the controller.
            settings: single parameters of the controller; those of the protocol win.
        """
        chosen = {"planner": planner} if planner else {}
        for task, of in self.tasks.items():
            run = Run(float(of["seconds"]), yaws=tuple(np.radians(of.get("yaws", ())).tolist()))
            for plant in self.plants:
                for world, factors in self.worlds.items():
                    for seen, sensor in self.perception.items():
                        parameters = {**settings, **of.get("parameters", {}), **sensor, **chosen}
                        overrides = tuple(sorted(parameters.items()))
                        spec = Spec(of["task"], obj, hand, tuple(files), overrides, plant, World(**factors))
                        name = CellName(task, plant, world, seen)
                        yield name, Cell(" ".join(name), spec), run


def read_protocol(path: Path, *, quick: bool = False) -> Protocol:
    """Read a protocol.

    Args:
        quick: with what the entry ``quick`` replaces.

    Raises:
        ConfigError: a missing file, an unknown or missing entry, or a task without ``task`` or
            ``seconds``.
    """
    document = read_yaml_file(path)
    if not isinstance(document, dict):
        raise ConfigError(f"{path} must be a mapping of {', '.join(PARTS)}")
    replaced = document.pop("quick", {})
    document |= replaced if quick else {}
    check_names(f"entry of {path}", document, PARTS)
    if lacking := [name for name in PARTS if not document.get(name) and name != "seed"]:
        raise ConfigError(f"{path} lacks '{lacking[0]}'")
    document = {"seed": 0} | document
    for name, (kind, of) in _TYPES.items():
        if type(document[name]) is not kind or not all(isinstance(x, of) for x in _entries(document[name])):
            raise ConfigError(f"{path}: '{name}' must be {_WORDS[kind, of]}, got {document[name]!r}")
    if document["trials"] < 1 or document["seed"] < 0:
        raise ConfigError(f"{path}: 'trials' must be positive and 'seed' not negative")
    for name, of in document["tasks"].items():
        if lacking := [key for key in ("task", "seconds") if key not in of]:
            raise ConfigError(f"{path}: the task '{name}' lacks '{lacking[0]}'")
        yaws = of.get("yaws", [])
        if not isinstance(yaws, list) or not all(map(_is_number, [of["seconds"], *yaws])):
            raise ConfigError(f"{path}: 'seconds' and 'yaws' of the task '{name}' must be finite numbers")
    try:
        for name, factors in document["worlds"].items():
            if not all(map(_is_number, factors.values())):
                raise ConfigError(f"{path}: the entries of the world '{name}' must be finite numbers")
            World(**factors)
    except TypeError as error:
        raise ConfigError(f"{path}: {error}") from None
    return Protocol(**document)


def _entries(value: Any) -> Collection[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def code_hash(protocol: Protocol) -> str:
    """Return a SHA-256 over the protocol and the Python sources of dexstack and dexengines."""
    found = hashlib.sha256(json.dumps(vars(protocol), sort_keys=True, default=str).encode())
    package = Path(__file__).parents[1]
    for path in sorted([*package.rglob("*.py"), *package.with_name("dexengines").rglob("*.py")]):
        found.update(path.relative_to(package.parent).as_posix().encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def end_of(outcome: BatchTrial) -> str:
    """Return how a trial ended, of :data:`ENDS`."""
    t = outcome.recording["t"]
    turn, shift = (
        np.ptp(outcome.recording[name][t >= t[-1] - STILL_TIME]) for name in ("error", "position_error")
    )
    if outcome.succeeded:
        return "success"
    if outcome.dropped:
        return "drop"
    if outcome.trouble:
        return "servo trip" if outcome.trouble.startswith("the servo is off") else "plant failure"
    still = t[-1] - t[0] >= STILL_TIME and turn < STILL_TURN and shift < STILL_SHIFT
    return "stuck" if still else "timeout"


def at_goal_ends(recording: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the position [m] and orientation errors [rad] (K,) of a trial when each of its K goals was
    reached or given up."""
    number = recording["goal_number"]
    last = np.flatnonzero(np.append(np.diff(number) != 0, True))
    return recording["position_error"][last], recording["error"][last]


def judge_cell(
    name: CellName,
    cell: Cell,
    run: Run,
    protocol: Protocol,
    ended: Callable[[BatchTrial], Any] = lambda trial: None,
    **where: Any,
) -> tuple[dict[str, Any], list[BatchTrial]]:
    """Run the trials of a cell; return its row and the outcomes.

    Args:
        ended: called with each outcome when its trial ends.
        where: ``jobs`` and ``ray`` of :func:`~dexstack.trials.sweep.run_trials`.
    """
    outcomes = []
    for outcome in run_trials([cell], run, protocol.trials, protocol.seed, **where):
        outcomes.append(outcome)
        ended(outcome)
    settings = read_settings(cell.spec)
    setup = make_task(cell.spec, settings).setup(cell.spec.world)
    overlap = Overlap(setup)
    depths = [overlap.depths_of(o.recording) for o in outcomes]
    every = np.concatenate(depths)
    ends = Counter(map(end_of, outcomes))
    n, good = len(outcomes), ends["success"]
    goals = sum(len(o.reached_at) for o in outcomes)
    positions, angles = map(np.concatenate, zip(*(at_goal_ends(o.recording) for o in outcomes), strict=True))
    solves, late = (np.concatenate([o.recording[key] for o in outcomes]) for key in ("solve_s", "latency"))
    row = {
        **name._asdict(),
        "trials": n,
        "success_rate": good / n,
        "success_interval": wilson(good, n),
        "ends": {end: ends[end] for end in ENDS},
        "goals_reached": goals,
        "goals_per_minute": 60.0 * goals / max(sum(o.seconds for o in outcomes), 1e-9),
        "goals_in_a_row": errors(len(o.reached_at) for o in outcomes),
        "goal_s": summary(outcomes)["goal_s"],
        "at_goal_ends": {
            "goals": len(positions),
            "position_m": float(positions.mean()),
            "orientation_rad": float(angles.mean()),
        },
        "depth_m": {
            "deepest": float(every.max()),
            "mean_of_deepest": float(np.mean([d.max() for d in depths])),
            "share_deeper_than_2_mm": float(np.mean(every > DEEP)),
        },
        "latency_s": times(late),
        "solve_s": times(solves),
        "troubles": sorted({o.trouble for o in outcomes if o.trouble})[:5],
    }
    return row, outcomes
