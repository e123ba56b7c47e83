"""Goals in a row of the task reorient in the whole simulated graph, compared with simulated time.

Every run is one ``dexstack up sim --task reorient`` until the object is dropped or the task's cap
is reached, in the world and with the pose noise of the trials of the comparison. Passes if the mean
is at most 30 % below theirs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.cli.arguments import natural, positive, positive_int
from dexstack.cli.output import commit, note, table
from dexstack.errors import ConfigError
from dexstack.trials.keep import claim
from experiments.harness import Findings, experiment, kept_json

WITHIN = 0.3
"""Largest relative deficit of the graph's mean against the trials'."""


def streak(args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Run the graph until it ends; with ``--keep``, save its recording.

    Raises:
        ConfigError: the graph gave no result.
    """
    with nullcontext(args.keep / str(seed)) if args.keep else tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dexstack.cli.main", "up", "sim", "--task", "reorient"]
        command += ["--seed", str(seed), "--world", str(args.world), "--params", str(args.params)]
        command += ["--real-time-factor", str(args.real_time_factor)]
        command += ["--no-report", "--json", "--results", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)["results"]
    except (ValueError, KeyError):
        raise ConfigError(f"`{' '.join(command)}` gave no result: {done.stderr[-500:]}") from None
    keys = ("goals_reached", "seconds", "phase", "rate_hz", "real_time_factor", "trouble")
    return {"seed": seed, **{key: found[key] for key in keys}}


def _once(args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Run the graph, or read the saved result."""
    return kept_json(args.keep and args.keep / f"{seed}.json", lambda: streak(args, seed))


def streaks(args: argparse.Namespace) -> Findings:
    """Run the graph repeatedly and compare the mean with that of the trials."""
    try:
        trials = json.loads(args.trials.read_text())["results"]["consecutive"]
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{args.trials} is not a result of `dexstack eval reorient`: {error}") from None
    if args.keep:
        plan = {
            "world": args.world.read_text(),
            "params": args.params.read_text(),
            "factor": args.real_time_factor,
            "commit": commit(),
        }
        claim(args.keep, plan, "runs")
    rows: list[dict[str, Any]] = []
    for k in range(args.runs):
        rows.append(_once(args, args.seed + k))
        row = rows[-1]
        ended = f"run {row['seed']}: {row['goals_reached']} reached in {row['seconds']:.0f} s, {row['phase']}"
        note("; ".join([ended, *row["trouble"]]))
    counts = np.array([row["goals_reached"] for row in rows])
    minutes = sum(row["seconds"] for row in rows) / 60.0
    results = {
        "real_time_factor": args.real_time_factor,
        "runs": rows,
        "consecutive": {
            "mean": counts.mean(),
            "median": np.median(counts),
            "max": counts.max(),
            "min": counts.min(),
            "n": len(counts),
        },
        "goals_per_minute": counts.sum() / minutes,
        "trials_mean": trials["mean"],
        "passed": bool(counts.mean() >= (1.0 - WITHIN) * trials["mean"]),
    }
    line = (
        f"{counts.mean():.1f} in a row (mean), {counts.sum() / minutes:.1f} per minute; "
        f"in simulated time {trials['mean']:.1f}"
    )
    columns = ("seed", "goals_reached", "seconds", "phase", "rate_hz", "real_time_factor")
    view = table("", columns, [[row[c] for c in columns] for row in rows])
    return Findings(results, lines=[view, line], seed=args.seed)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this experiment."""
    add, here = parser.add_argument, Path("experiments")
    add("--runs", type=positive_int, default=10, metavar="N", help="number of runs of the graph")
    add("--seed", type=natural, default=12000, metavar="S", help="run k draws its goals with seed S + k")
    add(
        "--world",
        type=Path,
        default=here / "heavier_smoother.yaml",
        metavar="FILE",
        help="world of the plant",
    )
    add(
        "--params",
        type=Path,
        default=here / "noisy_poses.yaml",
        metavar="FILE",
        help="parameters of the graph",
    )
    add(
        "--real-time-factor",
        type=positive,
        default=1.0,
        metavar="FACTOR",
        help="simulated seconds per second; below 1 for a computer that cannot keep up",
    )
    add(
        "--trials",
        type=Path,
        default=here / "results/reorient-cube.json",
        metavar="FILE",
        help="result of `dexstack eval reorient` to compare with",
    )
    add(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="save results and recordings, and resume an interrupted run",
    )


main = experiment(__spec__.name, __doc__, streaks, arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
