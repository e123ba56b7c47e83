"""Learn θ of the planner on each plant, on all of them and on all but one, let trials there decide
how much of it is used, and run trials with each θ on every plant, until their goals are reached.

Every source learns offline from equally many rollouts of the same policy, the task's own; a mixture
takes an equal share of each of its plants. A θ that predicts a plant better may turn its object
worse, as the planner relies on what it predicts, so the models' θ, the learned one and one half way
between are compared in trials with seeds of their own. The models' θ is kept unless another one saves
time by the 95 % interval of the paired differences; of several that do, the fastest is taken.

Everything is kept in the folder of --results, and the same command continues an interrupted run.
Reached: every plant's θ keeps 95 % of the success of the others' own θ, and the mixtures are as
good as the best single θ.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dexstack.bags.recordings import read_recording
from dexstack.cli import arguments
from dexstack.cli.output import commit, note, table
from dexstack.control.theta_file import ThetaFile, save_theta
from dexstack.files import whole
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.learning.loss import between
from dexstack.learning.on_policy import collect, learn_from, learner_of, split, stack_recordings
from dexstack.learning.transitions import cut
from dexstack.plants import PLANTS
from dexstack.report.statistics import errors, wilson
from dexstack.tasks import TASKS
from dexstack.tasks.controller import check
from dexstack.trials.keep import claim
from dexstack.trials.overlap import Overlap
from dexstack.trials.pool import in_processes, on_ray
from dexstack.trials.sweep import Run, loop_of, run_one
from experiments.harness import Findings, experiment, kept_json

DEFAULTS, ALL = "defaults", "all"
ROLLOUTS, CHOOSING = 1_000_000, 2_000_000
"""Offsets of the seeds of rollouts, and of the trials that choose a share, from those of the cells."""
KEEPS = 0.95
"""Share of the success of a plant's own θ that a θ from another plant must keep."""
OWN, SHARES = 0.0, (0.5, 1.0)
"""Shares of the way from the models' θ to the learned one, in the learner's free numbers."""
CHOOSING_TRIALS = 48
"""Trials of each share of a source, spread over the plants that it was learned on."""
SURE = 1.96
"""Standard errors on either side of a mean within its 95 % interval."""


class Source(NamedTuple):
    """Origin of a θ."""

    name: str
    plants: tuple[str, ...]
    """Plants whose rollouts it is learned from; empty: θ of the models."""
    on: tuple[str, ...]
    """Plants that it is tried on."""


def sources(plants: Sequence[str]) -> list[Source]:
    """Return the models' θ, each plant alone, all plants, and all but one, tried on the one left
    out."""
    every = tuple(plants)
    several = [Source(ALL, every, every)] if len(every) > 1 else []
    if len(every) > 2:
        several += [Source(f"all but {p}", tuple(q for q in every if q != p), (p,)) for p in every]
    return [Source(DEFAULTS, (), every), *(Source(p, (p,), every) for p in every), *several]


class Trial(NamedTuple):
    """The k-th trial with a share of a source's θ on a plant."""

    source: str
    share: float
    plant: str
    k: int
    choosing: bool = False
    """True for the trials that choose a share, whose seeds differ."""


def choosing_trials(source: Source, share: float) -> list[Trial]:
    """Return the trials of a share of a source; those of ``OWN`` are the models' for all sources."""
    whose, each = source.name if share else DEFAULTS, range(-(-CHOOSING_TRIALS // len(source.plants)))
    return [Trial(whose, share, plant, k, True) for plant in source.plants for k in each]


def compare_shares(times: Mapping[float, np.ndarray]) -> tuple[float, list[dict[str, float]]]:
    """Return the share to use, and mean time [s], time saved against the models' θ [s] and its standard
    error of each, from the times (n,) of the same trials with every share, the models' first."""
    rows = []
    for share, taken in times.items():
        saved = times[OWN] - taken
        error = float(saved.std(ddof=1) / np.sqrt(len(saved)))
        rows.append(
            {"share": share, "seconds": float(taken.mean()), "saved": float(saved.mean()), "error": error}
        )
    better = [row for row in rows if row["saved"] - SURE * row["error"] > 0.0]
    return min(better, key=lambda row: row["seconds"])["share"] if better else OWN, rows


def judged(cells: Sequence[Mapping[str, Any]], plants: Sequence[str]) -> dict[str, Any]:
    """Compare each plant's θ on the others with their own, and the mixtures, one left out included,
    with the best single θ there."""
    of = {(c["source"], c["plant"]): c for c in cells}
    rate = {cell: c["success_rate"] for cell, c in of.items()}
    crossed = [(a, b) for a in plants for b in plants if a != b]
    kept = sum(rate[a, b] >= KEEPS * rate[b, b] for a, b in crossed)
    mixed = [(name, b) for b in plants for name in (ALL, f"all but {b}") if (name, b) in rate]
    best = {b: max((of[a, b] for a in plants), key=lambda c: c["success_rate"]) for b in plants}
    as_good = sum(rate[name, b] >= best[b]["success_rate"] for name, b in mixed)
    worse = sum(of[name, b]["success_interval"][1] < best[b]["success_interval"][0] for name, b in mixed)
    return {
        "crossed": len(crossed),
        "crossed_kept": kept,
        "mixed": len(mixed),
        "mixed_as_good": as_good,
        "mixed_surely_worse": worse,
        "passed": kept == len(crossed) and as_good == len(mixed),
    }


def tried(spec: Spec, seconds: float, trial: Trial, seed: int, folder: str) -> dict[str, Any]:
    """Run one trial, or read its kept row.

    Raises:
        ConfigError: the folder cannot be written.
    """
    theta = (("theta", str(_theta_file(folder, trial.source, trial.share))),) if trial.share else ()
    own = tuple((name, value) for name, value in spec.overrides if name != "theta")
    spec = replace(spec, plant=trial.plant, overrides=tuple(sorted(own + theta)))
    seed += CHOOSING if trial.choosing else 0

    def run() -> dict[str, Any]:
        outcome = run_one(spec, Run(seconds, until="reached"), trial.k, seed)
        return {
            "succeeded": outcome.succeeded,
            "dropped": outcome.dropped,
            "reached_s": outcome.reached_at[0] if outcome.reached_at else None,
            "orientation_error_rad": outcome.orientation_error,
            "overlap_m": float(_overlap_of(spec).depths_of(outcome.recording).max()),
            "wall_s": outcome.wall_s,
        }

    name = "-".join(map(str, trial)).replace(" ", "_").replace("/", "_")
    return kept_json(Path(folder) / "trials" / f"{name}.json", run)


@functools.lru_cache(maxsize=1)
def _overlap_of(spec: Spec) -> Overlap:
    return Overlap(loop_of(spec).actual)


def _theta_file(folder: str | Path, source: str, share: float) -> Path:
    return Path(folder) / f"theta-{source.replace(' ', '-')}-{share:g}.yaml"


def _collect(spec: Spec, steps: int, seed: int, path: Path) -> str:
    """Write rollouts of the policy on a plant into a file, if it is missing."""
    if not path.is_file():
        _, recordings, _ = collect(loop_of(spec), steps, seed + ROLLOUTS)
        with whole(path) as file:
            np.savez_compressed(file, **stack_recordings(recordings))
    return f"rollouts on {spec.plant}"


def _learn(
    spec: Spec, source: Source, rollouts: Mapping[str, Path], folder: Path, seed: int
) -> dict[str, dict[str, float]]:
    """Write a θ of each share of a source; return their losses, by share and plant, on the held-out
    part of the rollouts."""

    def learn() -> dict[str, dict[str, float]]:
        loop = loop_of(replace(spec, plant="mujoco"))  # for its planner and detector: no rollouts are made
        robot, obj, _ = loop.setup
        read = {plant: read_recording(path, robot.joint_names) for plant, path in rollouts.items()}
        thetas = {OWN: loop.planner.theta}
        if source.plants:
            parts = {plant: _first(read[plant], len(source.plants)) for plant in source.plants}
            *_, (point, data, _) = learn_from(loop, thetas[OWN], parts, seed=seed, score_with=lambda _: [])
            origin = {
                "transitions": data.count,
                "sha256": data.digest(),
                "source": f"rollouts on {', '.join(source.plants)}",
            }
            date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            for share in SHARES:
                theta = thetas[share] = between(thetas[OWN], point.theta, share)
                about = (obj.name, robot.name, loop.model, loop.controller.step, seed, date)
                path = _theta_file(folder, source.name, share)
                save_theta(path, ThetaFile(theta, *about, origin | {"share": share}))
        cover = np.asarray(loop.planner.theta.cover)
        held_out = {
            plant: cut(split(recording)[1], loop.controller.step, cover, loop.detector.detect)
            for plant, recording in read.items()
        }
        return {
            f"{share:g}": {p: learner_of(loop, theta).data_loss(data) for p, data in held_out.items()}
            for share, theta in thetas.items()
        }

    return kept_json(folder / f"losses-{source.name.replace(' ', '-')}.json", learn)


def _first(recording: Mapping[str, np.ndarray], parts: int) -> dict[str, np.ndarray]:
    """Return the first of ``parts`` equal parts of a recording's rollouts."""
    last = max(1, round((recording["rollout"].max() + 1) / parts))
    return {name: array[recording["rollout"] < last] for name, array in recording.items()}


def transfer(args: argparse.Namespace) -> Findings:
    """Run what is missing of a matrix."""
    spec, begin, folder = arguments.spec_of(args), time.monotonic(), args.results.absolute()
    settings = read_settings(spec)
    task = make_task(spec, settings)
    check(task, task.setup(), settings)
    seconds, every = args.seconds or task.seconds(), sources(args.plants)
    names = ("plants", "steps", "seed", "share")
    claim(
        folder,
        {n: getattr(args, n) for n in names} | {"spec": asdict(spec), "s": seconds, "commit": commit()},
        "a matrix",
    )

    def spread(function: Callable[..., Any], rows: Sequence[tuple]) -> Iterator[Any]:
        pool = on_ray if args.ray else in_processes
        return pool(function, args.jobs, *map(list, zip(*rows, strict=True)))

    def run(trials: Sequence[Trial]) -> dict[Trial, dict[str, Any]]:
        found = {}
        rows = [(spec, seconds, trial, args.seed, str(folder)) for trial in trials]
        for trial, row in zip(trials, spread(tried, rows), strict=True):
            found[trial] = row
            note(f"{trial}: {'reached' if row['succeeded'] else 'not reached'}")
        return found

    rollouts = {plant: folder / f"rollouts-{Path(plant).stem}.npz" for plant in args.plants}
    rows = [(replace(spec, plant=p), args.steps, args.seed, path) for p, path in rollouts.items()]
    for line in spread(_collect, rows):
        note(line)
    losses = spread(_learn, [(spec, source, rollouts, folder, args.seed) for source in every])
    losses = {source.name: loss for source, loss in zip(every, losses, strict=True)}
    shares, chosen = {s.name: args.share if s.plants else OWN for s in every}, []
    if args.share is None:
        taught = [s for s in every if s.plants]
        asked = {s.name: {x: choosing_trials(s, x) for x in (OWN, *SHARES)} for s in taught}
        trials = dict.fromkeys(t for by in asked.values() for some in by.values() for t in some)
        taken = {
            trial: row["reached_s"] if row["succeeded"] and row["reached_s"] else seconds
            for trial, row in run(sorted(trials, key=lambda t: args.plants.index(t.plant))).items()
        }
        for name, by in asked.items():
            times = {share: np.array([taken[t] for t in some]) for share, some in by.items()}
            shares[name], rows = compare_shares(times)
            chosen += [{"source": name} | row for row in rows]
    cells = {
        (s.name, plant): [
            Trial(s.name if shares[s.name] else DEFAULTS, shares[s.name], plant, k)
            for k in range(args.trials)
        ]
        for s in every
        for plant in s.on
    }
    found = run(list(dict.fromkeys(trial for cell in cells.values() for trial in cell)))
    summary = [
        _summary(*at, shares[at[0]], [found[t] for t in cell], losses[at[0]]) for at, cell in cells.items()
    ]
    results = {
        **{"task": task.name, "object": args.object, "hand": args.hand, "seconds": seconds},
        **{"cells": summary, "choosing": chosen, **judged(summary, args.plants)},
        "trials_wall_s": sum(row["wall_s"] for row in found.values()),
        "spent": [{"jobs": args.jobs, "ray": args.ray, "wall_s": time.monotonic() - begin}],
    }
    return Findings(results, None, _views(results), args.seed)


def _summary(
    source: str,
    plant: str,
    share: float,
    rows: Sequence[Mapping[str, Any]],
    losses: Mapping[str, Mapping[str, float]],
) -> dict[str, Any]:
    good = sum(row["succeeded"] for row in rows)
    return {
        "source": source,
        "plant": plant,
        "share": share,
        "trials": len(rows),
        "succeeded": good,
        "success_rate": good / len(rows),
        "success_interval": wilson(good, len(rows)),
        "dropped": sum(row["dropped"] for row in rows),
        "reached_s": errors(row["reached_s"] for row in rows if row["reached_s"] is not None),
        "orientation_error_rad": errors(row["orientation_error_rad"] for row in rows),
        "prediction_loss": losses[f"{share:g}"][plant],
        "overlap_m": errors(row["overlap_m"] for row in rows),
    }


def _views(results: Mapping[str, Any]) -> list[Any]:
    rows = []
    for c in results["cells"]:
        low, high = c["success_interval"]
        rate = f"{100 * c['success_rate']:.0f} ({100 * low:.0f}–{100 * high:.0f})"
        figures = (c["reached_s"]["median"], c["orientation_error_rad"]["mean"], c["prediction_loss"])
        shown = ("–" if x is None else f"{x:.2g}" for x in figures)
        rows.append([c["source"], f"{c['share']:g}", c["plant"], rate, c["dropped"], *shown])
    columns = ("θ of", "share", "on", "success [%]", "drops", "time [s]", "error [rad]", "loss")
    title = f"{results['task']}, {results['object']}, {results['cells'][0]['trials']} trials in each cell"
    return [
        table(title, columns, rows),
        f"{results['crossed_kept']} of {results['crossed']} pairs keep 95 % of the success of the plant's "
        f"own θ; {results['mixed_as_good']} of {results['mixed']} mixtures are as good as the best single "
        f"θ there ({results['mixed_surely_worse']} worse by intervals that do not overlap)",
    ]


def _arguments(p: argparse.ArgumentParser) -> None:
    count = {"type": arguments.positive_int, "metavar": "N"}
    p.add_argument(
        "task",
        nargs="?",
        default="palm_turn",
        metavar="TASK",
        help=f"{', '.join(TASKS)}, or the path of your task's file",
    )
    arguments.add_scene_arguments(p)
    arguments.add_planner_arguments(p)
    add = p.add_argument
    add("--plants", nargs="+", default=list(PLANTS), choices=PLANTS, metavar="PLANT", help="names, or files")
    add("--steps", default=1200, help="steps of 0.1 s that each θ is learned from", **count)
    add("--trials", default=200, help="trials of each cell", **count)
    add("--seconds", type=arguments.positive, metavar="S", help="of a trial (default: the task's)")
    add("--seed", type=arguments.natural, default=0, metavar="S", help="trial k has seed S + k in all cells")
    add("--share", type=float, choices=SHARES, help="of each learned θ (default: decided by trials)")
    add("--jobs", default=1, help="number of processes", **count)
    add("--ray", action="store_true", help="spread the work over a Ray cluster, or here (extra [ray])")
    add("--results", type=Path, default=Path("results") / "transfer", metavar="DIR", help="kept trials")


main = experiment(__spec__.name, __doc__, transfer, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
