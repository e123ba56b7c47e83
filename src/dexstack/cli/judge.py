"""``dexstack judge``: judge a controller by a fixed protocol."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dexstack.cli import arguments
from dexstack.cli.options import command, option
from dexstack.cli.output import commit, note, publish, table
from dexstack.control.planners import PLANNERS
from dexstack.errors import ConfigError

if TYPE_CHECKING:
    from dexstack.trials.judging import Cell, CellName
    from dexstack.trials.keep import BatchTrial

FILMS = 4
"""Largest number of films of failures."""
SHOWN = (0, 1, 2, 3, 4, 6, 11, 12)
"""Columns in the terminal."""
TASKS_OWN = "tasks"
"""Name for the planners that the tasks choose."""


add_parser = command(
    "judge",
    option(
        "controller",
        metavar="CONTROLLER",
        help=f"planner ({', '.join(PLANNERS)}), path to your own planner or ONNX policy, or '{TASKS_OWN}' "
        "for each task's own planner",
    ),
    option("--object", default="cube", help="object: name, or path to a YAML file"),
    option("--hand", default="right", help="hand: side, or path to a YAML file"),
    option(
        "--params",
        action="append",
        default=[],
        metavar="FILE",
        help="ROS 2 parameter file of the controller; repeatable",
    ),
    arguments.add_set_argument,
    option("--protocol", type=Path, metavar="FILE", help="protocol (default: config/judge.yaml)"),
    option("--quick", action="store_true", help="few short trials in one plant, to try it"),
    option("--trials", type=arguments.positive_int, metavar="N", help="trials of each cell"),
    option("--jobs", type=arguments.positive_int, default=1, metavar="N", help="parallel processes"),
    option("--ray", action="store_true", help="distribute over a Ray cluster (extra [ray])"),
    option(
        "--results", type=Path, metavar="DIR", help="folder of page and trials (default: results/judge-NAME)"
    ),
    description="Run the trials of a protocol (config/judge.yaml): tasks in all plants, worlds and "
    "perceptions, and write one table of success with intervals, ends, overlap and times as JSON and as "
    "an HTML page with films of failures. Finished trials are kept: the same command continues.",
)


def run(args: argparse.Namespace) -> int:
    """Judge; return 0."""
    from dexstack.config import share_dir
    from dexstack.report.judgement import COLUMNS, cells_of, write_judgement
    from dexstack.trials.judging import code_hash, judge_cell, read_protocol
    from dexstack.trials.keep import claim
    from dexstack.trials.progress import progress

    protocol = read_protocol(args.protocol or share_dir() / "config" / "judge.yaml", quick=args.quick)
    protocol = replace(protocol, trials=args.trials or protocol.trials)
    planner = "" if args.controller == TASKS_OWN else args.controller
    files = [str(Path(file).absolute()) for file in args.params]
    cells = list(protocol.cells(planner, args.object, args.hand, files, dict(args.settings)))
    _check(cells)
    name = Path(args.controller).stem
    folder = (args.results or Path("results") / f"judge-{name}{'-quick' if args.quick else ''}").absolute()
    identity = code_hash(protocol)
    asked = [args.controller, args.object, args.hand, files, dict(args.settings)]
    claim(folder, {"hash": identity, "arguments": asked}, "trials")
    rows, failures = [], []
    for k, (cell_name, cell, chosen) in enumerate(cells, 1):
        note(f"cell {k}/{len(cells)}: {' · '.join(cell_name)}, {protocol.trials} trials")
        kept = folder / "trials" / cell.name.replace(" ", "-")
        kept.mkdir(parents=True, exist_ok=True)
        with progress(protocol.trials, chosen.seconds, min(args.jobs, protocol.trials), note) as seen:
            chosen = replace(chosen, keep=str(kept), progress=str(seen.folder))
            row, outcomes = judge_cell(
                cell_name, cell, chosen, protocol, seen.add, jobs=args.jobs, ray=args.ray
            )
        rows.append(row)
        failures += [(cell_name, cell, o) for o in outcomes if not o.succeeded]
        note("; ".join(f"{a} {b}" for a, b in zip(COLUMNS[1:6], cells_of(row)[1:6], strict=True)))
    results = {
        "controller": args.controller,
        "object": args.object,
        "hand": args.hand,
        "quick": args.quick,
        "seed": protocol.seed,
        "hash": identity,
        "commit": commit(),
        "cells": rows,
    }
    films = _films(folder / "films", failures)
    results["page"] = str(write_judgement(folder / "judgement.html", results, films))
    shown = table(f"{args.controller}, {args.object}", *_few(COLUMNS, map(cells_of, rows)))
    publish(args, f"judge {args.controller}", results, shown, f"page: {results['page']}", seed=protocol.seed)
    return 0


def _few(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Return the columns that fit into a terminal; the page has all."""
    return [columns[k] for k in SHOWN], [[row[k] for k in SHOWN] for row in rows]


def _check(cells: list[tuple[CellName, Cell, object]]) -> None:
    """Read the parameters of every cell before anything runs.

    Raises:
        ConfigError: an unknown name, or a parameter out of range.
    """
    from dexstack.graph.settings import check_run

    for name, cell, _ in cells:
        try:
            check_run(cell.spec)
        except ConfigError as error:
            raise ConfigError(f"{' · '.join(name)}: {error}") from None


def _films(folder: Path, failures: list[tuple[CellName, Cell, BatchTrial]]) -> list[tuple[str, Path]]:
    """Film one failure of each end and cell, at most :data:`FILMS`."""
    from dexstack.graph.settings import make_task, read_settings
    from dexstack.model.scene import robot_scene
    from dexstack.trials.films import write_trial_films
    from dexstack.trials.judging import end_of

    chosen = {(name, end_of(o)): (cell, o) for name, cell, o in reversed(failures)}
    made = []
    for (name, end), (cell, outcome) in list(chosen.items())[:FILMS]:
        robot, obj, _ = make_task(cell.spec, read_settings(cell.spec)).setup()
        where = folder / f"{cell.name.replace(' ', '-')}-{end.replace(' ', '_')}"
        written = write_trial_films(where, [outcome], robot_scene(robot, obj).compile())
        made += [(f"{' · '.join(name)}: {end}, seed {outcome.seed}", film) for film in written.values()]
    return made
