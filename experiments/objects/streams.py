"""Any orientation of everyday things, one goal after the other.

The objects are those of ``experiments.objects.everyday``, as added in its folder: of the things that
the rule of ``object add`` does not exclude, the ten with the smallest largest extents. The task
`reorient` turns each with exact poses until it is dropped, after 80 s without a goal, or at
:data:`CAP` goals. All parameters are defaults, except the number of samples of a search, see
:mod:`experiments.objects.searches`. Required: 20 goals in the mean over all runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.cli.arguments import natural, positive_int
from dexstack.cli.output import commit, note, table
from dexstack.errors import ConfigError
from dexstack.graph.settings import Spec
from dexstack.model.objects import load_object
from dexstack.tasks.reorient import ReorientParams
from dexstack.trials.keep import claim
from dexstack.trials.sweep import Cell, Run, run_trials
from experiments.harness import Findings, experiment, kept_json
from experiments.objects.everyday import THINGS
from experiments.objects.searches import search_settings

CAP, MEAN = 30, 20.0


def smallest(folder: Path, count: int) -> list[str]:
    """Return the names of the ``count`` smallest things that were turned, the smallest first.

    Raises:
        ConfigError: there are fewer.
    """
    rows = [json.loads(file.read_text()) for file in folder.glob("*/row.json")]
    turned = [row for row in rows if row["name"] in THINGS and not row["told"] and row["refused"] is None]
    if len(turned) < count:
        raise ConfigError(f"{folder} has {len(turned)} things that were turned, {count} needed")
    return [row["name"] for row in sorted(turned, key=lambda row: max(row["size_mm"]))[:count]]


def stream(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run the task with one thing; finished runs are kept."""
    kept = args.keep / name
    kept.mkdir(parents=True, exist_ok=True)
    file = (args.data / name / f"{name}.yaml").absolute()
    settings = ("cap", CAP), *search_settings(len(load_object(file).parts))
    spec = Spec("reorient", str(file), overrides=settings)
    run = Run(CAP * ReorientParams().patience, keep=str(kept.absolute()))
    outcomes = list(run_trials([Cell("", spec)], run, args.runs, args.seed, jobs=args.jobs))
    goals = [len(o.reached_at) for o in outcomes]
    seconds = sum(o.seconds for o in outcomes)
    note(f"{name}: {goals} goals in {seconds:.0f} s")
    return {
        "name": name,
        "runs": len(goals),
        "goals": goals,
        "mean": float(np.mean(goals)),
        "goals_per_minute": 60.0 * sum(goals) / seconds,
        "dropped": sum(o.dropped for o in outcomes),
        "troubles": [o.trouble for o in outcomes],
    }


def streams(args: argparse.Namespace) -> Findings:
    """Run the task with all chosen things."""
    names = smallest(args.data, args.things)
    args.keep.mkdir(parents=True, exist_ok=True)
    claim(args.keep, {"runs": args.runs, "seed": args.seed, "names": names, "commit": commit()}, "runs")
    rows = [kept_json(args.keep / f"{name}.json", lambda name=name: stream(name, args)) for name in names]
    mean = float(np.mean([goals for row in rows for goals in row["goals"]]))
    columns = ("name", "runs", "mean", "goals_per_minute", "dropped")
    view = table("any orientation of everyday things", columns, [[row[c] for c in columns] for row in rows])
    results = {"objects": rows, "cap": CAP, "mean": mean, "passed": mean >= MEAN}
    return Findings(results, lines=[view, f"{mean:.1f} goals in a row in the mean"], seed=args.seed)


def _arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", type=Path, required=True, metavar="FOLDER", help="that of experiments.objects.everyday")
    add("--things", type=positive_int, default=10, metavar="N", help="number of things")
    add("--runs", type=positive_int, default=5, metavar="N", help="with each thing")
    add("--jobs", type=positive_int, default=1, metavar="N", help="runs at a time")
    add("--seed", type=natural, default=26000, metavar="S", help="run k starts with S + k")
    add("--keep", type=Path, required=True, metavar="FOLDER", help="runs; the same command resumes")


main = experiment(__spec__.name, __doc__, streams, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
