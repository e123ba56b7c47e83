"""The cube task over a bad link, with the hand on one machine and the planner on another.

Runs `dexstack up sim` in two network namespaces, simulator and hand in one, all other nodes in the
other, over a link that delays and drops packets. Needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dexstack.cli.arguments import angle, natural, positive, positive_int, rate
from dexstack.cli.output import note
from dexstack.report.statistics import errors
from experiments.harness import Outcome, run
from tests.acceptance.link import TwoMachines

PATIENCE = 180.0
"""Longest wall time of a trial [s]."""


def network(args: argparse.Namespace) -> Outcome:
    """Run the trials; they pass if at least the required share reaches the goal."""
    trials = []
    for k in range(args.seed, args.seed + args.trials):
        with TwoMachines(delay=args.delay, jitter=args.jitter, loss=args.loss, seed=k) as machines:
            trials.append(_trial(machines, args, k))
        phase, seconds = trials[-1].get("phase", "no result"), trials[-1].get("seconds") or 0
        note(f"trial {len(trials)} of {args.trials}: {phase} after {seconds:.1f} s")
    reached = sum(bool(s.get("reached")) for s in trials)
    results = {
        "success_rate": reached / len(trials),
        "dropped": sum(s.get("phase") == "dropped" for s in trials),
        "orientation_error_rad": errors(s.get("orientation_error_rad") or float("nan") for s in trials),
        "link": {"delay_s": args.delay, "jitter_s": args.jitter, "loss": args.loss},
        "trials": trials,
        "passed": reached >= args.require * len(trials),
    }
    return Outcome(results, lines=[f"{reached} of {len(trials)} reached the goal"], seed=args.seed)


def _trial(machines: TwoMachines, args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Return the console's summary; empty if the trial did not end in time."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("ROS_", "FASTDDS"))}
    up = [sys.executable, "-m", "dexstack.cli.main", "up", "sim", "--no-report", "--seed", str(seed)]
    goal = ["--goal-yaw", str(args.goal_yaw), "--seconds", str(args.seconds), "--json"]
    with tempfile.TemporaryDirectory(prefix="dexstack-") as name:
        summary = Path(name) / "summary.json"

        def begin(machine: int, part: str, *more: str) -> subprocess.Popen[bytes]:
            command = [*up, "--part", part, "--results", f"{name}/{part}", *more]
            null = subprocess.DEVNULL
            return subprocess.Popen(
                machines.on(machine, command), env=own, stdin=null, stdout=null, stderr=null
            )

        processes = [begin(0, "robot"), begin(1, "planner", *goal, str(summary))]
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                processes[1].wait(PATIENCE)
        finally:
            for process in reversed(processes):
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
                    process.wait(30)
        return json.loads(summary.read_text())["results"] if summary.is_file() else {}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this rig."""
    add = parser.add_argument
    add("--trials", type=positive_int, default=10, metavar="N", help="number of trials")
    add("--delay", type=float, default=0.02, metavar="S", help="one-way delay of every packet")
    add("--jitter", type=float, default=0.005, metavar="S", help="largest deviation from the delay")
    add("--loss", type=rate, default=0.01, metavar="RATE", help="share of packets that are dropped")
    add("--goal-yaw", type=angle, default=90.0, metavar="DEG", help="yaw to turn the cube to")
    add("--seconds", type=positive, default=15.0, metavar="S", help="simulated time of a trial")
    add("--require", type=rate, default=0.9, metavar="RATE", help="smallest success rate for exit code 0")
    add("--seed", type=natural, default=0, metavar="S", help="seed of the first trial")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the trials; return the exit code."""
    return run("tests.acceptance.network", __doc__, network, argv, arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
