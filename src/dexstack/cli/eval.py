"""``dexstack eval``: seeded closed-loop trials of a task without ROS, with the controller and plant
of ``dexstack up sim``."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dexstack.cli import arguments
from dexstack.cli.arguments import MEASURED
from dexstack.cli.options import command, option
from dexstack.cli.output import commit, note, publish, table
from dexstack.model.mount import INCLINE
from dexstack.plants import PLANTS
from dexstack.tasks import TASKS

if TYPE_CHECKING:
    from dexstack.tasks.base import Task
    from dexstack.trials.sweep import BatchTrial, Cell, Run


add_parser = command(
    "eval",
    option("task", metavar="TASK", help=f"{', '.join(TASKS)}, or path to your own Python file"),
    arguments.add_scene_arguments,
    option(
        "--plant",
        default="mujoco",
        choices=PLANTS,
        help="physics engine: name, or path to your own Python file",
    ),
    arguments.add_planner_arguments,
    option(
        "--trials",
        "--runs",
        type=arguments.positive_int,
        metavar="N",
        help="number of trials in each world (default: the task's)",
    ),
    option("--seed", type=arguments.natural, default=0, metavar="S", help="trial k is drawn with seed S + k"),
    option(
        "--goal-yaw",
        type=arguments.angle,
        nargs="+",
        metavar="DEG",
        help="yaw goals relative to the start, used in turn (default: the task's goals)",
    ),
    option(
        "--tolerance",
        type=arguments.positive,
        metavar="RAD",
        help="error below which a goal is reached (default: from the parameter files)",
    ),
    option(
        "--seconds",
        type=arguments.positive,
        metavar="S",
        help="simulated time of a trial (default: the task's)",
    ),
    option(
        "--latency",
        type=arguments.latency,
        metavar="S|measured",
        help="time from pose to command (default: from the parameter files); 'measured': the wall time of "
        "each computation, which no seed reproduces",
    ),
    option(
        "--require",
        type=arguments.rate,
        metavar="RATE",
        help="smallest success rate for exit code 0 (default: the task's)",
    ),
    option(
        "--until",
        choices=("time", "reached", "settled"),
        default="time",
        help="end of a trial whose object is not dropped: after --seconds, when its last goal is reached, or "
        "when the object has also rested there for 1 s (default: time)",
    ),
    option(
        "--jobs", type=arguments.positive_int, default=1, metavar="N", help="number of parallel processes"
    ),
    option("--ray", action="store_true", help="distribute over a Ray cluster, or this machine (extra [ray])"),
    option(
        "--vary",
        nargs="+",
        default=[],
        metavar="NAME=V[,V…]",
        help="also run in worlds that differ from the controller's model: factors on mass, friction, size, "
        "torque, joint_damping, contact_stiffness; joint_friction [N m]; joint_armature [kg m²]; com_x, "
        "com_y, com_z [m]; or any parameter; NAME=V+NAME=V changes several together",
    ),
    option(
        "--perception",
        metavar="NAME",
        help="measured object poses of config/perception: realsense, markerless (errors), camera (pictures); "
        "or a parameter file; --params overrides it (default: exact)",
    ),
    option("--incline", type=arguments.incline, metavar="DEG[,AXIS]", help=INCLINE),
    option(
        "--world",
        type=Path,
        metavar="FILE",
        help="world of the plant, as written by `dexstack identify --out`; --vary changes it",
    ),
    option(
        "--keep",
        type=Path,
        metavar="DIR",
        help="save the result of every trial; the same command resumes an interrupted run",
    ),
    option(
        "--record",
        type=Path,
        metavar="DIR",
        help="save a recording of every trial, for `dexstack replay` and `dexstack learn --from`",
    ),
    option("--films", action="store_true", help="make films of the best and worst trial of each outcome"),
    option("--results", type=Path, help="folder for plot and films (default: new folder in results/)"),
    description="Run closed-loop trials of a task, without ROS. Exit code 0 only if the success rate of "
    "--require is reached, with --vary in every world.",
)


def run(args: argparse.Namespace) -> int:
    """Run the trials.

    Returns:
        0 if the required success rate was reached in every world, otherwise 1; 130 if it was stopped
        by Ctrl-C or SIGTERM, with the results of the trials until then.
    """
    from dexstack.trials.keep import claim
    from dexstack.trials.sweep import Run, vary

    spec = arguments.spec_of(args)
    cells = vary(spec, args.vary)
    task, timing = _check(cells)
    chosen = Run(
        args.seconds or task.seconds(),
        args.latency == MEASURED,
        tuple(math.radians(yaw) for yaw in args.goal_yaw or ()),
        str(args.record.absolute()) if args.record else "",
        str(args.keep.absolute()) if args.keep else "",
        args.until,
    )
    trials = args.trials or task.trials
    if args.keep:
        claim(args.keep, _plan(cells, chosen, args.seed), "trials")
    where = "on Ray" if args.ray else f"in {min(args.jobs, trials * len(cells))} process(es)"
    count = f"{len(cells)} world(s), {trials} trial(s) of {chosen.seconds:g} s each"
    note(f"{count}, {where}; the first one compiles the controller")
    outcomes, stopped = _run(args, cells, chosen, trials)
    cells = cells[: -(-len(outcomes) // trials)]
    required = task.required_rate if args.require is None else args.require
    results = _results(args, task, chosen, cells, outcomes) | {
        "task": task.name,
        **{name: timing[name] for name in ("planner", "model", "supervisor")},
        "stopped": stopped,
        "required_success_rate": required,
        "period_s": timing["pose_period"],
        "latency_s": None if chosen.measured_latency else timing["latency"],
        "published": [row._asdict() for row in task.published()],
    }
    folder = args.results or Path("results") / f"eval-{task.name}-{datetime.now():%Y%m%d-%H%M%S}"
    results["plot"] = str(_plot(folder, args, task, cells, outcomes))
    if args.films:
        note("drawing the films")
        results["films"] = _films(folder, task, outcomes)
    passed = results["success_rate"] >= required
    publish(args, f"eval {task.name}", results, *_views(args, task, results, passed), seed=args.seed)
    return 130 if stopped else 0 if passed else 1


def _run(
    args: argparse.Namespace, cells: Sequence[Cell], chosen: Run, trials: int
) -> tuple[list[BatchTrial], bool]:
    """Run the trials; return their outcomes, and true if they were stopped by Ctrl-C or SIGTERM.

    Raises:
        KeyboardInterrupt: stopped before the first trial ended.
    """
    from dexstack.process.interrupts import sigterm_interrupts
    from dexstack.trials.progress import progress
    from dexstack.trials.sweep import run_trials

    outcomes, planned = [], trials * len(cells)
    try:
        with (
            sigterm_interrupts(),
            progress(planned, chosen.seconds, min(args.jobs, planned), note) as seen,
        ):
            watched = replace(chosen, progress=str(seen.folder))
            for o in run_trials(cells, watched, trials, args.seed, jobs=args.jobs, ray=args.ray):
                outcomes.append(o)
                note(_progress(o, seen.add(o), planned))
    except KeyboardInterrupt:
        more = "the same command continues" if args.keep else "with --keep DIR, the same command continues"
        note(f"stopped after {len(outcomes)} of {planned} trials; {more}")
        if not outcomes:
            raise
        return outcomes, True
    return outcomes, False


def _plan(cells: Sequence[Cell], chosen: Run, seed: int) -> dict[str, Any]:
    """Return what a saved trial depends on."""
    from dexstack.graph.settings import read_settings

    said = [
        asdict(c) | {block.__qualname__: vars(values) for block, values in read_settings(c.spec).items()}
        for c in cells
    ]
    return {
        "cells": said,
        "run": asdict(replace(chosen, record="", keep="")),
        "seed": seed,
        "commit": commit(),
    }


def _check(cells: Sequence[Cell]) -> tuple[Task, dict[str, Any]]:
    """Return the task and its timing, after checking every cell before anything is compiled.

    Raises:
        ConfigError: see :func:`dexstack.graph.settings.read_settings` and
            :func:`dexstack.tasks.controller.check`.
    """
    from dexstack.control.params import PlannerParams
    from dexstack.graph.settings import make_task, read_settings
    from dexstack.sim.params import LoopParams
    from dexstack.tasks.controller import check, supervisor_name

    for cell in reversed(cells):
        settings = read_settings(cell.spec)
    task = make_task(cells[0].spec, settings)
    check(task, task.setup(), settings)
    timing: LoopParams = settings[LoopParams]
    return task, {
        "pose_period": timing.pose_period,
        "latency": timing.latency,
        "planner": settings[PlannerParams].planner,
        "model": settings[PlannerParams].model,
        "supervisor": supervisor_name(task, settings),
    }


def _progress(o: BatchTrial, done: int, total: int) -> str:
    how = "not reached"
    if len(o.reached_at) == 1:
        how = f"reached after {o.reached_at[0]:.1f} s"
    elif o.reached_at:
        how = f"{len(o.reached_at)} goals reached"
    cell = f"{o.cell}: " if o.cell else ""
    return (
        f"trial {done}/{total}: {cell}{o.label} {how}{', dropped' if o.dropped else ''}, {o.stalls} stalls, "
        f"final error {o.orientation_error:.3f} rad and {1e3 * o.position_error:.1f} mm"
        + (f"; {o.trouble}" if o.trouble else "")
    )


def _results(
    args: argparse.Namespace, task: Task, run: Run, cells: Sequence[Cell], outcomes: Sequence[BatchTrial]
) -> dict[str, Any]:
    from dexstack.trials.sweep import results_of, summary

    def figures(some: Sequence[BatchTrial]) -> dict[str, Any]:
        return task.figures([o.judged for o in some])

    results: dict[str, Any] = {
        "object": args.object,
        "hand": args.hand,
        "plant": args.plant,
        "perception": args.perception,
        "gravity_m_s2": list(task.gravity),
        "seconds": run.seconds,
        **results_of(outcomes),
        **figures(outcomes),
    }
    if len(cells) > 1:
        results["cells"] = []
        for cell in cells:
            own = [o for o in outcomes if o.cell == cell.name]
            results["cells"].append({"cell": cell.name, **summary(own), **figures(own)})
        results["success_rate"] = min(c["success_rate"] for c in results["cells"])
    return results


def _plot(
    folder: Path, args: argparse.Namespace, task: Task, cells: Sequence[Cell], outcomes: Sequence[BatchTrial]
) -> Path:
    import numpy as np

    from dexstack.report.trials import write_heat_map, write_trials_plot

    if len(cells) > 1:
        labels = list(dict.fromkeys(o.label for o in outcomes))
        reached = {(c.name, label): [] for c in cells for label in labels}
        for o in outcomes:
            reached[o.cell, o.label].append(o.succeeded)
        share = [[np.mean(reached[c.name, x] or math.nan) for x in labels] for c in cells]
        names = [c.name for c in cells]
        return write_heat_map(
            folder / "worlds.png", np.array(share), names, labels, f"{args.object}: success"
        )
    file, title = folder / "trials.png", f"{task.name}, {args.object}"
    own = task.picture(file, [o.judged for o in outcomes], f"{title}, seed {args.seed}")
    if own is not None:
        return own
    curves = [
        (o.label, o.succeeded, *(o.recording[name] for name in ("t", "error", "position_error")))
        for o in outcomes
    ]
    title += f": {sum(o.succeeded for o in outcomes)} of {len(outcomes)} trials succeeded"
    return write_trials_plot(file, curves, task.params.tolerance, title)


def _films(folder: Path, task: Task, outcomes: Sequence[BatchTrial]) -> dict[str, str]:
    from dexstack.model.scene import robot_scene
    from dexstack.trials.films import write_trial_films

    robot, obj, _ = task.setup()
    films = write_trial_films(folder, outcomes, robot_scene(robot, obj).compile())
    return {name: str(path) for name, path in films.items()}


def _views(args: argparse.Namespace, task: Task, r: dict[str, Any], passed: bool) -> list[Any]:
    if "cells" in r:
        rows = [_row(c["cell"], c) for c in r["cells"]]
    else:
        rows = [_row(k, s) for k, s in r["kinds"].items()]
        rows += [_row("all", r)] if len(rows) > 1 else []
    rows += [_published(p) for p in r["published"]]
    columns = ("", "n", "success [%]", "drops", "stalls", "goals", "each [s]", "error [rad]", "[mm]")
    setting = f"{args.plant}, supervisor {r['supervisor']}"
    title = f"{task.name}, {args.object} ({setting}), {r['seconds']:g} s each"
    solve = r["solve_s"]
    return [
        table(title, columns, rows),
        f"detection and solve: p50 {1e3 * solve['p50']:.2f} ms, p99 {1e3 * solve['p99']:.2f} ms of processor "
        f"time, n = {solve['n']}; {r['plans_per_second']:.0f} plans per simulated second; "
        f"real-time factor {r['real_time_factor']:.2f} per process",
        f"{'in the worst world ' if 'cells' in r else ''}{100 * r['success_rate']:.0f} % succeeded, "
        f"{'at least' if passed else 'fewer than'} the required {100 * r['required_success_rate']:g} %; "
        f"plot in {r['plot']}" + (f", films: {', '.join(r['films'])}" if r.get("films") else ""),
    ]


def _row(name: str, s: dict[str, Any]) -> list[Any]:
    turn, shift, (low, high) = s["orientation_error_rad"], s["position_error_m"], s["success_interval"]
    rate = f"{100 * s['success_rate']:.0f} ({100 * low:.0f}–{100 * high:.0f})"
    goals = (s["goals_reached"], s["goal_s"]["median"] and round(s["goal_s"]["median"], 1))
    error = (f"{turn['mean']:.3f} ± {turn['std']:.3f}", f"{1e3 * shift['mean']:.1f}")
    return [name, s["trials"], rate, s["dropped"], s["stalls"], *goals, *error]


def _published(p: dict[str, Any]) -> list[Any]:
    turn, shift = p["orientation_rad"], p["position_m"]
    return [
        p["name"],
        p["trials"],
        *[None] * 5,
        turn and f"{turn[0]:.2f} ± {turn[1]:.2f}",
        shift and f"{1e3 * shift[0]:.1f}",
    ]
