"""Learn θ of the planner on each plant, on all of them and on all but one, let trials there decide
how much of it is used, and run trials with each θ on every plant, until their goals are reached.

Everything is kept in the folder of --results, and the same command continues an interrupted run.
Reached: every plant's θ keeps 95 % of the success of the others' own θ, and the mixtures are as
good as the best single θ.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.bags.recordings import read_run
from dexstack.cli import arguments
from dexstack.cli.output import commit, note, table
from dexstack.cli.replay import draw
from dexstack.graph.settings import make_task, read_settings
from dexstack.plants import PLANTS
from dexstack.report.trials import write_heat_map
from dexstack.tasks import TASKS
from dexstack.tasks.controller import check
from experiments.harness import Outcome, experiment
from experiments.identification.transfer_matrix import Matrix, Plan
from experiments.identification.transfer_shares import SHARES
from experiments.identification.worlds import randomised

FILMS = 2
"""Number of worst cells that are filmed."""


def transfer(args: argparse.Namespace) -> Outcome:
    """Run what is missing of a matrix."""
    spec = arguments.spec_of(args)
    settings = read_settings(spec)
    task = make_task(spec, settings)
    check(task, task.setup(), settings)
    if args.randomise:
        task.setup(randomised(spec, args.seed).world)  # rejects fields that its robot does not have
    seconds = args.seconds or task.seconds()
    plan = Plan(
        spec, tuple(args.plants), args.steps, args.trials, args.seed, seconds, args.randomise, args.share
    )
    matrix = Matrix(plan, args.results, commit())
    note(f"{len(matrix.cells())} cells of {args.trials} trials; {len(matrix.rows())} trials are done already")
    for line in matrix.run(args.jobs, ray=args.ray):
        note(line)
    results = {"task": task.name, "object": args.object, "hand": args.hand, "seconds": seconds}
    results |= {"randomised": args.randomise} | matrix.results()
    results["picture"], results["films"] = str(_picture(matrix, results)), _films(matrix, results)
    return Outcome(results, None, _views(results), args.seed)


def _picture(matrix: Matrix, results: Mapping[str, Any]) -> Path:
    names, plants = [s.name for s in matrix.sources], list(matrix.plan.plants)
    share = np.full((len(names), len(plants)), np.nan)
    for c in results["cells"]:
        share[names.index(c["source"]), plants.index(c["plant"])] = c["success_rate"]
    title = f"{results['object']}: success with θ of … on …"
    return write_heat_map(matrix.folder / "transfer.png", share, names, plants, title)


def _films(matrix: Matrix, results: Mapping[str, Any]) -> list[str]:
    """Film the worst trial of each of the worst cells."""
    worst = sorted(results["cells"], key=lambda c: c["success_rate"])[:FILMS]
    films = []
    for c in itertools.takewhile(lambda c: c["success_rate"] < 1.0, worst):
        path = matrix.worst(c["source"], c["plant"])
        films += map(str, draw(read_run(path), path.with_name("run.png"), path.with_name("run.gif")).values())
    return films


def _views(results: Mapping[str, Any]) -> list[Any]:
    rows = []
    for c in results["cells"]:
        low, high = c["success_interval"]
        rate = f"{100 * c['success_rate']:.0f} ({100 * low:.0f}–{100 * high:.0f})"
        figures = (
            c["reached_s"]["median"],
            c["orientation_error_rad"]["mean"],
            1e3 * c["overlap_m"]["mean"],
            c["prediction_loss"],
        )
        shown = ("–" if x is None else f"{x:.2g}" for x in figures)
        rows.append([c["source"], f"{c['share']:g}", c["plant"], rate, c["dropped"], *shown])
    columns = ("θ of", "share", "on", "success [%]", "drops", "time [s]", "error [rad]", "deep [mm]", "loss")
    spent = sum(part["wall_s"] for part in results["spent"])
    title = f"{results['task']}, {results['object']}, {results['cells'][0]['trials']} trials in each cell"
    return [
        table(title, columns, rows),
        f"{results['crossed_kept']} of {results['crossed']} pairs keep 95 % of the success of the plant's "
        "own θ; "
        f"{results['mixed_as_good']} of {results['mixed']} mixtures are as good as the best single θ there "
        f"({results['mixed_surely_worse']} worse by intervals that do not overlap); {spent / 60:.1f} "
        "minutes in "
        f"{len(results['spent'])} runs; picture in {results['picture']}",
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
    p.add_argument(
        "--plants",
        nargs="+",
        default=list(PLANTS),
        choices=PLANTS,
        metavar="PLANT",
        help="names, or paths of your files",
    )
    p.add_argument("--steps", default=1200, help="steps of 0.1 s that each θ is learned from", **count)
    p.add_argument("--trials", default=200, help="trials of each cell", **count)
    p.add_argument(
        "--seconds",
        type=arguments.positive,
        metavar="S",
        help="simulated time of a trial (default: the task's)",
    )
    p.add_argument(
        "--seed",
        type=arguments.natural,
        default=0,
        metavar="S",
        help="trial k draws with seed S + k, in every cell",
    )
    p.add_argument(
        "--randomise",
        action="store_true",
        help="trial k in a world drawn with seed S + k, with its delay and noise",
    )
    p.add_argument(
        "--share",
        type=float,
        choices=SHARES,
        help="how much of each learned θ is used (default: decided by trials)",
    )
    p.add_argument("--jobs", default=1, help="number of processes", **count)
    p.add_argument(
        "--ray", action="store_true", help="spread the work over a Ray cluster, or this machine (extra [ray])"
    )
    p.add_argument(
        "--results",
        type=Path,
        default=Path("results") / "transfer",
        metavar="DIR",
        help="folder of all output",
    )


main = experiment(__spec__.name, __doc__, transfer, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
