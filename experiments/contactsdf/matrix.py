"""Step models × contact rules × weights × θ, on palm turns and three balls, without a supervisor.

Step models: `dsdf` (the paper's) and `implicit` of the package, the complementarity-free update and the exact
step of ``examples/models``. Contact rules: frozen (the paper's), propagated, detected. Weights: the paper's
(``config/paper``) and those of the tasks. θ: the authors', and that of the models of hand and object. The
rest is the task's own. Every cell has the same seeds.

Required beforehand: no other cell succeeds more often than the default of its task by disjoint 95 %
intervals.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.cli.arguments import natural, positive_int
from dexstack.cli.output import note, table
from dexstack.config import share_dir
from dexstack.graph.settings import Spec
from dexstack.report.statistics import wilson
from dexstack.trials.sweep import Cell, Run, run_trials
from experiments.contactsdf.published import name_of
from experiments.harness import Findings, experiment

EXAMPLES = share_dir() / "examples" / "models"
MODELS = {
    "dsdf": "dsdf",
    "implicit": "implicit",
    "complementarity-free": str(EXAMPLES / "cf.py"),
    "exact": str(EXAMPLES / "qp.py"),
}
RULES = ("frozen", "propagated", "detected")
WEIGHTS = {
    "palm_turn": {
        "paper": {
            "contact_weight": 0.5,
            "position_weight": 1e3,
            "position_length": 1e3,
            "orientation_weight": 1e4,
            "running_weight": 0.0,
        },
        "own": {},
    },
    "three_ball": {
        "paper": {
            "contact_weight": 1.0,
            "effort_weight": 1.0,
            "orientation_weight": 1e3,
            "running_weight": 0.0,
        },
        "own": {},
    },
}
"""Parameters that differ from the task's own, by task."""
THETAS = ("authors", "models")
SECONDS = {"palm_turn": 15.0, "three_ball": 10.0}
DEFAULT = ("implicit", "propagated", "own", "models")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tasks", nargs="+", choices=WEIGHTS, default=list(WEIGHTS), metavar="NAME")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), metavar="NAME")
    parser.add_argument("--trials", type=positive_int, default=14, metavar="N", help="in each cell")
    parser.add_argument("--seed", type=natural, default=76000, metavar="S", help="of the first trial")
    parser.add_argument("--jobs", type=positive_int, default=1, metavar="N", help="parallel processes")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="folder of finished trials")


def _cells(task: str, models: list[str]) -> dict[tuple[str, ...], Cell]:
    cells = {}
    for key in itertools.product(models, RULES, WEIGHTS[task], THETAS):
        model, rule, weights, theta = key
        settings: dict[str, Any] = {"model": MODELS[model], "contact_set": rule, "supervisor": "none"}
        settings |= WEIGHTS[task][weights]
        if theta == "authors":
            settings["theta"] = name_of(task, "cube")
        spec = Spec(task, "cube", overrides=tuple(sorted(settings.items())))
        cells[key] = Cell(" · ".join(key), spec)
    return cells


def matrix(args: argparse.Namespace) -> Findings:
    """Run every cell."""
    rows: list[dict[str, Any]] = []
    for task in args.tasks:
        for key, cell in _cells(task, args.models).items():
            folder = args.keep / task / "-".join(key) if args.keep else None
            if folder:
                folder.mkdir(parents=True, exist_ok=True)
            run = Run(SECONDS[task], keep=str(folder or ""), until="settled")
            trials = list(run_trials([cell], run, args.trials, args.seed, jobs=args.jobs))
            good = sum(trial.succeeded for trial in trials)
            times = [trial.reached_s for trial in trials if trial.succeeded and trial.reached]
            solve_s = np.concatenate([trial.recording["solve_s"] for trial in trials])
            row = dict(zip(("model", "rule", "weights", "theta"), key, strict=True))
            row |= {"task": task, "trials": args.trials, "succeeded": good}
            row |= {
                "interval": wilson(good, args.trials),
                "dropped": sum(trial.dropped for trial in trials),
                "goal_s": float(np.median(times)) if times else None,
                "error_rad": float(np.median([trial.orientation_error for trial in trials])),
                "solve_s": float(np.median(solve_s)),
                "default": key == DEFAULT,
            }
            rows.append(row)
            note(f"{task}, {cell.name}: {good} of {args.trials}")
    passed = not any(
        row["interval"][0] > own["interval"][1]
        for own in rows
        if own["default"]
        for row in rows
        if row["task"] == own["task"]
    )
    columns = ("task", "model", "rule", "weights", "theta", "succeeded", "trials", "goal_s")
    shown = table("Matrix", columns, [[row[c] for c in columns] for row in rows])
    return Findings({"rows": rows, "passed": passed}, lines=[shown], seed=args.seed)


main = experiment("experiments.contactsdf.matrix", __doc__, matrix, arguments=_arguments)

if __name__ == "__main__":
    sys.exit(main())
