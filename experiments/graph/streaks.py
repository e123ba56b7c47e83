"""Goals in a row of the task reorient in the whole simulated graph, beside those of simulated time.

Every run is one ``dexstack up sim --task reorient`` until the object is dropped or the task's cap
is reached, in the world and with the pose noise of the trials that it is compared with. Asked for:
a mean within 30 % of theirs, or above.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.cli.arguments import natural, positive, positive_int
from dexstack.cli.output import commit, note, table
from dexstack.errors import ConfigError
from dexstack.trials.keep import claim, whole
from experiments.harness import Outcome, run

WITHIN = 0.3
"""Largest share of the trials' mean by which the graph's may be lower."""


def streak(args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """One run of the graph until it ends, with its recording in a folder where one is to keep it.

    Raises:
        ConfigError: it gave no result.
    """
    with nullcontext(args.keep / str(seed)) if args.keep else tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "dexstack.cli.main",
            "up",
            "sim",
            "--task",
            "reorient",
            "--seed",
            str(seed),
        ]
        command += [
            "--world",
            str(args.world),
            "--params",
            str(args.params),
            "--real-time-factor",
            str(args.real_time_factor),
        ]
        command += ["--no-report", "--json", "--results", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)["results"]
    except (ValueError, KeyError):
        raise ConfigError(f"`{' '.join(command)}` gave no result: {done.stderr[-500:]}") from None
    return {
        "seed": seed,
        **{
            key: found[key]
            for key in ("goals_reached", "seconds", "phase", "rate_hz", "real_time_factor", "trouble")
        },
    }


def _once(args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """A run, or what was kept of it."""
    kept = args.keep and args.keep / f"{seed}.json"
    if kept and kept.is_file():
        return json.loads(kept.read_text())
    row = streak(args, seed)
    if kept:
        with whole(kept) as file:
            file.write(json.dumps(row).encode())
    return row


def streaks(args: argparse.Namespace) -> Outcome:
    """The runs and their mean."""
    try:
        trials = json.loads(args.trials.read_text())["results"]["consecutive"]
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{args.trials} is no result of `dexstack eval reorient`: {error}") from None
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
        note(
            "; ".join(
                [
                    "run {seed}: {goals_reached} reached in {seconds:.0f} s, {phase}".format(**rows[-1]),
                    *rows[-1]["trouble"],
                ]
            )
        )
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
    line = f"{counts.mean():.1f} in a row in the mean, {counts.sum() / minutes:.1f} a minute; in simulated time {trials['mean']:.1f}"
    columns = ("seed", "goals_reached", "seconds", "phase", "rate_hz", "real_time_factor")
    return Outcome(
        results, lines=[table("", columns, [[row[c] for c in columns] for row in rows]), line], seed=args.seed
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    """What this experiment takes."""
    parser.add_argument("--runs", type=positive_int, default=10, metavar="N", help="of the graph")
    parser.add_argument(
        "--seed", type=natural, default=12000, metavar="S", help="run k draws its goals with seed S + k"
    )
    parser.add_argument(
        "--world",
        type=Path,
        default=Path("experiments/heavier_smoother.yaml"),
        metavar="FILE",
        help="of the plant",
    )
    parser.add_argument(
        "--params",
        type=Path,
        default=Path("experiments/noisy_poses.yaml"),
        metavar="FILE",
        help="parameters of the graph",
    )
    pace = "simulated seconds per second: below 1 for a computer that cannot keep up, which then has more time for everything"
    parser.add_argument("--real-time-factor", type=positive, default=1.0, metavar="FACTOR", help=pace)
    trials = Path("experiments/results/reorient-cube.json")
    parser.add_argument(
        "--trials",
        type=Path,
        default=trials,
        metavar="FILE",
        help="result of `dexstack eval reorient` to compare with",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="keep results and recordings there, and go on where it was cut",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, streaks, argv, arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
