"""``dexstack eval continuous``: turn an object on the palm on and on, each goal one turn further than the last."""

from __future__ import annotations

import argparse
import math
import os
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from dexstack.cli import arguments
from dexstack.cli.output import add_json_argument, errors, note, publish, table, times
from dexstack.config import share_dir
from dexstack.graph.modes import XLA_ONE_THREAD

FIRST = 3
"""The paper's hardware reached this many sub-goals in about 15 s."""
FIRST_SECONDS = 15.0
LONGEST_SECONDS = 60.0
"""A sub-goal that takes longer, or is left unfinished for longer at the end, is a standstill."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``eval continuous``."""
    p = subparsers.add_parser(
        "continuous",
        help="turn an object on and on, by sub-goals",
        description="One long run: sub-goals a turn apart, the fingers going back to their start between them, the object never reset. "
        f"Exit code 0 only if {FIRST} sub-goals were reached in {FIRST_SECONDS:g} s, none took longer than {LONGEST_SECONDS:g} s and the "
        "object was never dropped.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument("--object", default="cube", help="name of an object, or the path of an object's YAML")
    p.add_argument("--hand", default="right", help="right, left, or the path of a hand's YAML")
    p.add_argument("--turn", type=arguments.angle, default=90.0, metavar="DEG", help="from one sub-goal to the next")
    p.add_argument("--seconds", type=arguments.positive, default=60.0, metavar="S", help="simulated time")
    p.add_argument("--seed", type=arguments.natural, default=0, metavar="S", help="draws the start pose")
    p.add_argument(
        "--params", action="append", default=[], metavar="FILE", help="ROS 2 parameter file that wins over config/continuous.yaml"
    )
    p.add_argument("--results", type=Path, help="folder for the picture (default: a new one in results/)")
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Run it.

    Returns:
        0 when the first sub-goals were reached in time, it never stood still and nothing was dropped, otherwise 1.
    """
    for name, value in XLA_ONE_THREAD.items():
        os.environ.setdefault(name, value)
    import numpy as np

    from dexstack.process.compilation import use_compilation_cache
    from dexstack.sim.loop import ClosedLoop, LoopSpec

    use_compilation_cache()
    note("compiling the controller")
    files = (str(share_dir() / "config" / "continuous.yaml"), *(str(Path(f).absolute()) for f in args.params))
    loop = ClosedLoop(LoopSpec(args.object, args.hand, files))
    note(f"{args.seconds:g} s of sub-goals {args.turn:+g}° apart")
    wall = time.perf_counter()
    trial = loop.turn_on(math.radians(args.turn), args.seed, args.seconds)
    wall = time.perf_counter() - wall
    r = trial.recording
    each = np.diff([0.0, *trial.reached_at])
    simulated = float(r["t"][-1])
    first = trial.reached_at[FIRST - 1] if len(trial.reached_at) >= FIRST else None
    waited = max([*each, simulated - (trial.reached_at[-1] if trial.reached_at else 0.0)])
    passed = first is not None and first <= FIRST_SECONDS and waited <= LONGEST_SECONDS and not trial.dropped
    yaw = np.unwrap([loop.yaw(pose) for pose in r["pose_WO"]])
    distance = np.linalg.norm(r["pose_WO"][:, :3] - loop.start.pose_WO[:3], axis=1)
    folder = args.results or Path("results") / f"eval-continuous-{datetime.now():%Y%m%d-%H%M%S}"
    results: dict[str, Any] = {
        "task": "continuous",
        "object": args.object,
        "turn_rad": math.radians(args.turn),
        "seconds": simulated,
        "reached": len(trial.reached_at),
        "reached_at_s": list(trial.reached_at),
        "sub_goal_s": errors(each),
        "longest_without_s": waited,
        f"first_{FIRST}_s": first,
        "dropped": int(trial.dropped),
        "stalls": trial.stalls,
        "turned_rad": float(yaw[-1] - yaw[0]),
        "position_error_m": errors(distance),
        "solve_s": times(r["solve_s"]),
        "real_time_factor": simulated / max(wall, 1e-9),
        "passed": passed,
        "plot": str(_plot(folder / "continuous.png", r["t"], yaw, 1e3 * distance, trial.reached_at, math.radians(args.turn))),
    }
    s = results["sub_goal_s"]
    row = [
        len(trial.reached_at),
        first,
        s["median"],
        waited,
        trial.stalls,
        "yes" if trial.dropped else "no",
        math.degrees(yaw[-1] - yaw[0]),
    ]
    columns = ("sub-goals", f"first {FIRST} [s]", "median [s]", "longest [s]", "stalls", "dropped", "turned [deg]")
    publish(
        args,
        "eval continuous",
        results,
        table(f"{args.object} turned on by {args.turn:+g}° at a time for {simulated:.0f} s", columns, [row]),
        f"the paper's hardware: {FIRST} sub-goals in about {FIRST_SECONDS:g} s; picture in {results['plot']}",
        seed=args.seed,
    )
    return 0 if passed else 1


def _plot(path: Path, t: Any, yaw: Any, distance_mm: Any, reached_at: tuple[float, ...], turn: float) -> Path:
    import numpy as np

    from dexstack.report.trials import write_continuous_plot

    goals = np.degrees(turn) * (1 + np.arange(len(reached_at) + 1))
    return write_continuous_plot(path, t, np.degrees(yaw), distance_mm, reached_at, goals)
