"""``dexstack transfer``: learn θ on every plant, try it on every other, and on mixtures; one matrix
says what carries over."""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dexstack.cli import arguments
from dexstack.cli.output import add_json_argument, commit, note, publish, table
from dexstack.plants import PLANTS
from dexstack.tasks import TASKS
from dexstack.trials.choosing import SHARES

if TYPE_CHECKING:
    from dexstack.trials.transfer import Matrix

FILMS = 2
"""Worst cells that are filmed."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``transfer``."""
    p = subparsers.add_parser(
        "transfer",
        help="learn on one plant, run on another: a matrix",
        description="Learn θ of the planner from rollouts on each plant, on all of them and on all but one, let trials there say how much "
        "of it stays, and run trials with each θ on every plant, which end where their goals are reached. Everything is kept in the folder "
        "of --results; the same command goes on where it was cut. Exit code 0 only if every plant's θ keeps 95 % of the others' success on "
        "theirs, and the mixtures are as good as the best single θ.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument(
        "task",
        nargs="?",
        default="palm_turn",
        metavar="TASK",
        help=f"{', '.join(TASKS)}, or the path of your own task's file",
    )
    arguments.add_scene_arguments(p)
    arguments.add_planner_arguments(p)
    p.add_argument(
        "--plants",
        nargs="+",
        default=list(PLANTS),
        choices=PLANTS,
        metavar="PLANT",
        help="names, or paths of your own's files",
    )
    p.add_argument(
        "--steps",
        type=arguments.positive_int,
        default=1200,
        metavar="N",
        help="steps of 0.1 s that each θ is learned from",
    )
    p.add_argument(
        "--trials", type=arguments.positive_int, default=200, metavar="N", help="trials of each cell"
    )
    p.add_argument(
        "--seconds",
        type=arguments.positive,
        metavar="S",
        help="simulated time that a trial has (default: the task's)",
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
        help="how much of what is learned stays in every θ (default: trials say)",
    )
    p.add_argument(
        "--jobs", type=arguments.positive_int, default=1, metavar="N", help="processes side by side"
    )
    p.add_argument(
        "--ray",
        action="store_true",
        help="spread the work over the machines of a Ray cluster, or this one (extra [ray])",
    )
    p.add_argument(
        "--results",
        type=Path,
        default=Path("results") / "transfer",
        metavar="DIR",
        help="folder of all that is made",
    )
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Do what is missing, then tell.

    Returns:
        0 when what was learned carries over as asked, otherwise 1.
    """
    from dexstack.graph.settings import make_task, read_settings
    from dexstack.tasks.controller import check
    from dexstack.trials.transfer import Matrix, Plan
    from dexstack.trials.worlds import randomised

    spec = arguments.spec_of(args)
    settings = read_settings(spec)
    task = make_task(spec, settings)
    check(task, task.scene(), settings)
    if args.randomise:
        task.scene(randomised(spec, args.seed).world)  # refuses what its robot does not have
    seconds = args.seconds or task.seconds()
    plan = Plan(
        spec, tuple(args.plants), args.steps, args.trials, args.seed, seconds, args.randomise, args.share
    )
    matrix = Matrix(plan, args.results, commit())
    note(
        f"{len(matrix.cells())} cells of {args.trials} trials; {len(matrix.rows())} trials are there already"
    )
    for line in matrix.run(args.jobs, ray=args.ray):
        note(line)
    results = {
        "task": task.name,
        "object": args.object,
        "hand": args.hand,
        "seconds": seconds,
        "randomised": args.randomise,
    }
    results |= matrix.results()
    results["picture"], results["films"] = str(_picture(matrix, results)), _films(matrix, results)
    publish(args, "transfer", results, *_views(args, results), seed=args.seed)
    return 0 if results["passed"] else 1


def _picture(matrix: Matrix, results: dict[str, Any]) -> Path:
    import numpy as np

    from dexstack.report.trials import write_heat_map

    names, plants = [s.name for s in matrix.sources], list(matrix.plan.plants)
    share = np.full((len(names), len(plants)), np.nan)
    for c in results["cells"]:
        share[names.index(c["source"]), plants.index(c["plant"])] = c["success_rate"]
    title = f"{results['object']}: success with θ of … on …"
    return write_heat_map(matrix.folder / "transfer.png", share, names, plants, title)


def _films(matrix: Matrix, results: dict[str, Any]) -> list[str]:
    """The worst trial of each of the worst cells."""
    from dexstack.cli.replay import draw, read_recording

    worst = sorted(results["cells"], key=lambda c: c["success_rate"])[:FILMS]
    made = []
    for c in itertools.takewhile(lambda c: c["success_rate"] < 1.0, worst):
        path = matrix.worst(c["source"], c["plant"])
        made += map(
            str, draw(read_recording(path), path.with_name("run.png"), path.with_name("run.gif")).values()
        )
    return made


def _views(args: argparse.Namespace, results: dict[str, Any]) -> list[Any]:
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
        rows.append(
            [
                c["source"],
                f"{c['share']:g}",
                c["plant"],
                rate,
                c["dropped"],
                *("–" if x is None else f"{x:.2g}" for x in figures),
            ]
        )
    columns = ("θ of", "share", "on", "success [%]", "drops", "time [s]", "error [rad]", "deep [mm]", "loss")
    crossed = f"{results['crossed_kept']} of {results['crossed']} pairs keep 95 % of the success of the plant's own θ"
    mixed = (
        f"{results['mixed_as_good']} of {results['mixed']} mixtures are as good as the best single θ there"
    )
    mixed += f" ({results['mixed_surely_worse']} worse by intervals that do not overlap)"
    spent = sum(part["wall_s"] for part in results["spent"])
    said = f"{crossed}; {mixed}; {spent / 60:.1f} minutes in {len(results['spent'])} runs; picture in {results['picture']}"
    title = f"{results['task']}, {args.object}, {results['cells'][0]['trials']} trials in each cell"
    return [table(title, columns, rows), said]
