"""``dexstack bench network``: the cube task with the hand on one machine and the planner on
another, over a bad link."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from dexstack.cli import arguments
from dexstack.cli.output import add_json_argument, note, publish
from dexstack.report.statistics import errors

PATIENCE = 180.0
"""Longest wall time of a trial [s]."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``network``."""
    p = subparsers.add_parser(
        "network",
        help="the task over a delayed and lossy link between two machines",
        description="Run `dexstack up sim` in two network namespaces, simulator and hand in one, all other nodes in the other, with a link "
        "that delays and loses. Needs root. Exit code 0 only if enough trials reach their goal.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument("--trials", type=arguments.positive_int, default=10, metavar="N")
    p.add_argument("--delay", type=float, default=0.02, metavar="S", help="of every packet, one way")
    p.add_argument("--jitter", type=float, default=0.005, metavar="S", help="largest deviation from it")
    p.add_argument(
        "--loss", type=arguments.rate, default=0.01, metavar="RATE", help="share of packets that get lost"
    )
    p.add_argument("--goal-yaw", type=arguments.angle, default=90.0, metavar="DEG")
    p.add_argument(
        "--seconds", type=arguments.positive, default=15.0, metavar="S", help="simulated time of a trial"
    )
    p.add_argument(
        "--require",
        type=arguments.rate,
        default=0.9,
        metavar="RATE",
        help="smallest success rate for exit code 0",
    )
    p.add_argument("--seed", type=arguments.natural, default=0, metavar="S")
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Run the trials.

    Returns:
        0 when at least the required share reached the goal, otherwise 1.
    """
    from dexstack.bench.link import TwoMachines

    summaries = []
    for k in range(args.trials):
        with TwoMachines(
            delay=args.delay, jitter=args.jitter, loss=args.loss, seed=args.seed + k
        ) as machines:
            summary = _trial(machines, args, args.seed + k)
        summaries.append(summary)
        note(
            f"trial {k + 1} of {args.trials}: {summary.get('phase', 'nothing')} after {summary.get('seconds') or 0:.1f} s"
        )
    rate = sum(bool(s.get("reached")) for s in summaries) / len(summaries)
    results = {
        "success_rate": rate,
        "dropped": sum(s.get("phase") == "dropped" for s in summaries),
        "orientation_error_rad": errors(s.get("orientation_error_rad") or float("nan") for s in summaries),
        "link": {"delay_s": args.delay, "jitter_s": args.jitter, "loss": args.loss},
        "trials": summaries,
    }
    line = f"{sum(bool(s.get('reached')) for s in summaries)} of {len(summaries)} reached the goal"
    publish(args, "bench network", results, line, seed=args.seed)
    return 0 if rate >= args.require else 1


def _trial(machines: Any, args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """What the console concluded; empty when there was no end in time."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("ROS_", "FASTDDS"))}
    up = [sys.executable, "-m", "dexstack.cli.main", "up", "sim", "--no-report", "--seed", str(seed)]
    with tempfile.TemporaryDirectory(prefix="dexstack-") as name:
        folder = Path(name)
        options = {
            "env": own,
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
        }
        robot = subprocess.Popen(
            machines.on(0, [*up, "--part", "robot", "--results", str(folder / "robot")]), **options
        )
        goal = [
            "--goal-yaw",
            str(args.goal_yaw),
            "--seconds",
            str(args.seconds),
            "--json",
            str(folder / "summary.json"),
        ]
        planner = subprocess.Popen(
            machines.on(1, [*up, "--part", "planner", "--results", str(folder / "planner"), *goal]), **options
        )
        try:
            planner.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            pass
        finally:
            for process in (planner, robot):
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
                    process.wait(30)
        summary = folder / "summary.json"
        return json.loads(summary.read_text())["results"] if summary.is_file() else {}
