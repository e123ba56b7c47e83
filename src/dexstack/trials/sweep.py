"""Batches of trials of one closed loop in different worlds, over processes or the machines of a
cluster."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dexstack.control.base import SolveStatus
from dexstack.errors import ConfigError
from dexstack.tasks.base import NOMINAL_WORLD, World
from dexstack.trials.keep import BatchTrial, keep_trial, load_outcome, save_outcome
from dexstack.trials.pool import in_processes, on_ray
from dexstack.trials.progress import Clock

if TYPE_CHECKING:
    from dexstack.graph.settings import Spec
    from dexstack.sim.loop import Loop
    from dexstack.sim.simulation import Until


@dataclass(frozen=True)
class Run:
    """Settings of every trial of a batch."""

    seconds: float
    measured_latency: bool = False
    yaws: tuple[float, ...] = ()
    """Goals of consecutive trials, as turns from the nominal start [rad]; empty: the task's own
    goals."""
    record: str = ""
    """Folder for the recording of every trial; empty: not recorded."""
    keep: str = ""
    """Existing folder for every outcome, where finished trials are not run again; empty: not
    kept."""
    until: Until = "time"
    """End of a trial whose object is not dropped, see :class:`~dexstack.sim.simulation.Rollout`."""
    progress: str = ""
    """Existing folder for the simulated times of the running trials; empty: not noted."""


@dataclass(frozen=True)
class Cell:
    """One variation of the world or of parameters."""

    name: str
    spec: Spec


def vary(spec: Spec, settings: Sequence[str]) -> list[Cell]:
    """Return the unchanged cell, and one cell for each value of each setting.

    Args:
        settings: ``NAME=V[,V…]``, one cell per value, or ``NAME=V+NAME=V…``, one cell of several
            changes. A name is a field of :class:`~dexstack.tasks.base.World`, or any parameter.

    Raises:
        ConfigError: a malformed setting.
    """
    cells = [Cell("as believed" if spec.world == NOMINAL_WORLD else "the world given", spec)]
    for setting in settings:
        together = "+" in setting and "," not in setting
        names, values = zip(*map(_assignment, setting.split("+") if together else [setting]), strict=True)
        for row in zip(*values, strict=True):
            changed = spec
            for name, value in zip(names, row, strict=True):
                changed = _change(changed, name, value)
            label = ", ".join(f"{name} {value:g}" for name, value in zip(names, row, strict=True))
            cells.append(Cell(label, changed))
    return cells


def _assignment(text: str) -> tuple[str, list[float]]:
    name, equals, values = text.partition("=")
    try:
        numbers = [float(v) for v in values.split(",")]
    except ValueError:
        numbers = []
    if not (name and equals and numbers):
        raise ConfigError(f"--vary takes NAME=VALUE[,VALUE…] or NAME=VALUE+NAME=VALUE, got '{text}'")
    return name, numbers


def _change(spec: Spec, name: str, value: float) -> Spec:
    if name in {f.name for f in fields(World)}:
        return replace(spec, world=replace(spec.world, **{name: value}))
    return replace(spec, overrides=(*spec.overrides, (name, value)))


@functools.lru_cache(maxsize=1)
def loop_of(spec: Spec) -> Loop:
    """Return this process's loop, built for its first trial.

    Raises:
        ConfigError: see :func:`dexstack.graph.settings.read_settings` and
            :class:`dexstack.sim.loop.Loop`.
    """
    from dexstack.graph.settings import make_task, read_settings
    from dexstack.process.compilation import use_compilation_cache
    from dexstack.sim.loop import Loop

    use_compilation_cache()
    settings = read_settings(spec)
    return Loop(make_task(spec, settings), settings, spec.plant, spec.world)


def run_one(spec: Spec, run: Run, k: int, seed: int, cell: str = "") -> BatchTrial:
    """Run the k-th trial of a loop, or load its kept outcome.

    Raises:
        ConfigError: see :func:`loop_of`; or a kept file cannot be read or written.
    """
    name = _file_name(cell, k)
    kept = Path(run.keep) / f"{name}.npz" if run.keep else None
    if kept is not None and kept.is_file():
        outcome = load_outcome(kept)
    else:
        outcome = _simulated(spec, run, k, seed, cell)
        if kept is not None:
            save_outcome(kept, outcome)
    if run.record:
        keep_trial(Path(run.record) / name, spec, outcome, seed + k)
    return outcome


def _file_name(cell: str, k: int) -> str:
    return f"{cell or 'trial'}-{k:03d}".replace(" ", "_").replace(",", "")


def _simulated(spec: Spec, run: Run, k: int, seed: int, cell: str) -> BatchTrial:
    loop = loop_of(spec)
    goals = iter([loop.task.at_yaw(run.yaws[k % len(run.yaws)])]) if run.yaws else loop.task.goals(k, seed)
    first = next(goals)
    clock = Clock(Path(run.progress) / _file_name(cell, k)) if run.progress else None
    loop.watch = clock.note if clock else None
    options = {"measured_latency": run.measured_latency, "until": run.until}
    trial = loop.run(k, seed, run.seconds, goals=itertools.chain([first], goals), **options)
    if clock:
        clock.end()
    return BatchTrial(**vars(trial), seed=seed + k, label=first.label, cell=cell)


def run_trials(
    cells: Sequence[Cell], run: Run, trials: int, seed: int, *, jobs: int = 1, ray: bool = False
) -> Iterator[BatchTrial]:
    """Run ``trials`` trials of every cell, in order; a cell's loop is compiled once per process."""
    spread = on_ray if ray else in_processes
    rows = [
        (cell.spec, run, k, seed, cell.name if len(cells) > 1 else "")
        for cell in cells
        for k in range(trials)
    ]
    return spread(run_one, jobs, *(list(column) for column in zip(*rows, strict=True)))


def summary(outcomes: Sequence[BatchTrial]) -> dict[str, Any]:
    """Summarise trials for :func:`dexstack.cli.output.publish`."""
    from dexstack.report.statistics import errors, wilson

    n, good = len(outcomes), sum(o.succeeded for o in outcomes)
    between = np.concatenate([np.diff([0.0, *o.reached_at]) for o in outcomes])
    waited = [
        max([*np.diff([0.0, *o.reached_at]), o.seconds - (o.reached_at[-1] if o.reached_at else 0.0)])
        for o in outcomes
    ]
    return {
        "trials": n,
        "success_rate": good / n,
        "success_interval": wilson(good, n),
        "reached": sum(bool(o.reached_at) for o in outcomes),
        "goals_reached": int(between.size),
        "goal_s": errors(between),
        "longest_without_s": max(waited),
        "dropped": sum(o.dropped for o in outcomes),
        "stalls": sum(o.stalls for o in outcomes),
        "reached_s": errors(o.reached_at[0] for o in outcomes if o.reached_at),
        "orientation_error_rad": errors(o.orientation_error for o in outcomes),
        "position_error_m": errors(o.position_error for o in outcomes),
    }


def results_of(outcomes: Sequence[BatchTrial]) -> Mapping[str, Any]:
    """Return :func:`summary` with times, kinds of goals and every trial."""
    from dexstack.report.statistics import errors, times

    solves, statuses, contacts = (
        np.concatenate([o.recording[name] for o in outcomes]) for name in ("solve_s", "status", "contacts")
    )
    simulated = sum(o.seconds for o in outcomes)
    kinds: dict[str, list[BatchTrial]] = {}
    for o in outcomes:
        kinds.setdefault(o.label, []).append(o)
    return {
        **summary(outcomes),
        "solve_s": times(solves),
        "bad_solves": int(np.isin(statuses, (SolveStatus.BAD_INPUT, SolveStatus.DIVERGED)).sum()),
        "contacts": errors(contacts),
        "plans_per_second": len(solves) / max(simulated, 1e-9),
        "real_time_factor": simulated / max(sum(o.wall_s for o in outcomes), 1e-9),
        "kinds": {label: summary(some) for label, some in kinds.items()},
        "each": [
            {
                "seed": o.seed,
                "goal": o.label,
                "goal_WO": o.goal.pose_WO,
                "succeeded": o.succeeded,
                "reached_at_s": list(o.reached_at),
                "dropped": o.dropped,
                "stalls": o.stalls,
                "orientation_error_rad": o.orientation_error,
                "position_error_m": o.position_error,
                "trouble": o.trouble,
                **({"cell": o.cell} if o.cell else {}),
            }
            for o in outcomes
        ],
    }
