"""The cube task over a bad link, with the hand on one machine and the planner on another.

Runs `dexstack up sim` in two network namespaces, simulator and hand in one, all other nodes in the
other, over a link that delays and drops packets. Needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dexstack.cli.arguments import angle, natural, positive, positive_int, rate
from dexstack.cli.output import note
from dexstack.report.statistics import errors
from experiments.harness import Findings, run
from tests.acceptance.link import TwoMachines
from tests.acceptance.programs import DEXSTACK

PATIENCE = 180.0
"""Longest wall time of a trial [s]."""


def network(args: argparse.Namespace) -> Findings:
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
    return Findings(results, lines=[f"{reached} of {len(trials)} reached the goal"], seed=args.seed)


def _trial(machines: TwoMachines, args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Return the console's summary; empty if the trial did not end in time."""
    up = [*DEXSTACK, "up", "sim", "--no-report", "--seed", str(seed)]
    goal = ["--goal-yaw", str(args.goal_yaw), "--seconds", str(args.seconds), "--json"]
    with tempfile.TemporaryDirectory(prefix="dexstack-") as name, contextlib.ExitStack() as stack:
        robot, planner, summary = (Path(name) / part for part in ("robot", "planner", "summary.json"))
        commands = (
            [*up, "--part", "robot", "--results", str(robot)],
            [*up, "--part", "planner", "--results", str(planner), *goal, str(summary)],
        )
        for machine, (command, folder) in enumerate(zip(commands, (robot, planner), strict=True)):
            program = stack.enter_context(machines.start(machine, command, folder))
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(PATIENCE)
        stack.close()
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
