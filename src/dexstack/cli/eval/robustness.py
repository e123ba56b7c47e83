"""``dexstack eval robustness``: the Allegro task where plant, sensor and timing are not what the controller believes."""

from __future__ import annotations

import argparse
import functools
import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dexstack.cli import arguments
from dexstack.cli.eval.pool import in_processes, on_ray
from dexstack.cli.output import add_json_argument, errors, note, publish, table
from dexstack.tasks.palm_turn import PUBLISHED, AllegroTask

if TYPE_CHECKING:
    from dexstack.sim.loop import ClosedLoop, LoopSpec


@dataclass(frozen=True)
class Cell:
    """One way in which the world differs from what the controller believes."""

    name: str
    overrides: tuple[tuple[str, float], ...] = ()
    """Parameters of plant, sensor and timing."""
    mass: float = 1.0
    friction: float = 1.0
    size: float = 1.0


CAMERA = (("pose_delay", 0.033), ("pose_period", 1 / 30))
NOISE = (("pose_noise_position", 0.001), ("pose_noise_rotation", math.radians(1.0)))
CELLS = (
    Cell("as believed"),
    Cell("mass × 0.5", mass=0.5),
    Cell("mass × 2", mass=2.0),
    Cell("friction × 0.5", friction=0.5),
    Cell("friction × 2", friction=2.0),
    Cell("size − 5 %", size=0.95),
    Cell("size + 5 %", size=1.05),
    Cell("noise 1 mm, 1°", NOISE),
    Cell("camera 30 Hz, 33 ms late", CAMERA),
    Cell("camera and noise", CAMERA + NOISE),
    Cell("command 25 ms late", (("latency", 0.025),)),
    Cell("command 50 ms late", (("latency", 0.05),)),
    Cell("pushes of 0.1 m/s", (("push_speed", 0.1),)),
    Cell("pushes of 0.2 m/s", (("push_speed", 0.2),)),
)


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``eval robustness``."""
    p = subparsers.add_parser(
        "robustness",
        help="the Allegro task in a world that is not as the controller believes",
        description="Trials of turning an object on the palm with other mass, friction and size, a noisy and late pose, late commands and "
        "pushes, none of which the controller knows. Exit code 0 only if every cell reached the success rate of --require.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument("--object", default="cube", help="name of an object, or the path of an object's YAML")
    p.add_argument("--hand", default="right", help="right, left, or the path of a hand's YAML")
    p.add_argument("--trials", type=arguments.positive_int, default=6, metavar="N", help="trials of each cell")
    p.add_argument("--seed", type=arguments.natural, default=0, metavar="S", help="trial k of every cell draws with seed S + k")
    p.add_argument("--require", type=arguments.rate, default=0.9, metavar="RATE", help="smallest success rate of any cell for exit code 0")
    p.add_argument("--params", action="append", default=[], metavar="FILE", help="ROS 2 parameter file that wins over config/allegro.yaml")
    p.add_argument("--jobs", type=arguments.positive_int, default=1, metavar="N", help="processes that run trials side by side")
    p.add_argument("--ray", action="store_true", help="spread the trials over the machines of a Ray cluster, or this one (extra [ray])")
    p.add_argument("--results", type=Path, help="folder for the picture (default: a new one in results/)")
    add_json_argument(p)


@functools.lru_cache(maxsize=1)
def _loop(spec: LoopSpec) -> ClosedLoop:
    """This process's loop for the cell it works on."""
    from dexstack.process.compilation import use_compilation_cache
    from dexstack.sim.loop import ClosedLoop

    use_compilation_cache()
    return ClosedLoop(spec)


def _trial(spec: LoopSpec, goal_yaw: float, seed: int, seconds: float) -> tuple[float, bool, int]:
    """Orientation error at the end [rad], whether the object was dropped, number of stalls."""
    trial = _loop(spec).trial(goal_yaw, seed, seconds)
    return trial.orientation_error, trial.dropped, trial.stalls


def run(args: argparse.Namespace) -> int:
    """Run all cells.

    Returns:
        0 when every cell reached the required success rate, otherwise 1.
    """
    import numpy as np

    from dexstack.sim.loop import LoopSpec, read_parts

    files = tuple(str(Path(f).absolute()) for f in args.params)
    specs = [LoopSpec(args.object, args.hand, files, cell.overrides, plant_scale=(cell.mass, cell.friction, cell.size)) for cell in CELLS]
    read_parts(specs[0])
    published = PUBLISHED.get(args.object, PUBLISHED["cube"])
    seconds = published.steps * 0.1
    goals = [published.goals_deg[k % len(published.goals_deg)] for k in range(args.trials)]
    note(f"{len(CELLS)} cells of {args.trials} trials of {seconds:g} s {'on Ray' if args.ray else f'in {args.jobs} process(es)'}")
    n = args.trials
    spread = on_ray if args.ray else in_processes
    outcomes = spread(
        _trial,
        args.jobs,
        [spec for spec in specs for _ in range(n)],
        [math.radians(goal) for goal in goals] * len(CELLS),
        list(range(args.seed, args.seed + n)) * len(CELLS),
        [seconds] * (n * len(CELLS)),
    )
    cells, each = [], []
    for cell in CELLS:
        trials = [next(outcomes) for _ in range(n)]
        ok = [error < AllegroTask.success_error and not dropped for error, dropped, _ in trials]
        cells.append(
            {
                "cell": cell.name,
                "trials": n,
                "success_rate": sum(ok) / n,
                "dropped": sum(dropped for _, dropped, _ in trials),
                "stalls": sum(stalls for *_, stalls in trials),
                "orientation_error_rad": errors(error for error, *_ in trials),
            }
        )
        each.append(ok)
        note(f"{cell.name}: {sum(ok)} of {n}")
    labels = list(dict.fromkeys(goals))
    share = np.array([[np.mean([ok[k] for k in range(n) if goals[k] == goal]) for goal in labels] for ok in each])
    folder = args.results or Path("results") / f"eval-robustness-{datetime.now():%Y%m%d-%H%M%S}"
    from dexstack.report.trials import write_heat_map

    plot = write_heat_map(
        folder / "robustness.png", share, [c.name for c in CELLS], [f"{g:+g}°" for g in labels], f"{args.object}: success"
    )
    worst = min(c["success_rate"] for c in cells)
    passed = worst >= args.require
    rows = [
        [
            c["cell"],
            n,
            f"{100 * c['success_rate']:.0f} %",
            c["dropped"],
            c["stalls"],
            c["orientation_error_rad"]["mean"],
            c["orientation_error_rad"]["median"],
        ]
        for c in cells
    ]
    publish(
        args,
        "eval robustness",
        {"task": "allegro", "object": args.object, "seconds": seconds, "cells": cells, "success_rate": worst, "plot": str(plot)},
        table(
            f"{args.object}: what the controller does not know",
            ("world", "n", "success", "dropped", "stalls", "mean [rad]", "median"),
            rows,
        ),
        f"worst cell {100 * worst:.0f} %, {'at least' if passed else 'less than'} the {100 * args.require:g} % asked for; "
        f"picture in {plot}",
        seed=args.seed,
    )
    return 0 if passed else 1
