"""Cost of a monitor with a browser and of a recorder for the planner of a running graph.

Runs `dexstack up sim` repeatedly, every other time with `dexstack record` and a viewed `dexstack
monitor`, and compares the planner's solve times. Passes if p99 grows by at most 10 %, in processor
time and in wall time.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.cli.arguments import natural, positive, positive_int
from dexstack.cli.monitor import HOST, PORT, page_parameters, page_url
from dexstack.cli.output import note, table
from dexstack.errors import ConfigError
from dexstack.report.statistics import times
from experiments.harness import Findings, run
from tests.acceptance.programs import DEXSTACK, Program, own_domain, until, up
from tests.visitor import Visitor

LIMIT = 0.1
"""Largest growth of p99."""


def monitor(args: argparse.Namespace) -> Findings:
    """Run the pairs and compare."""
    found: dict[bool, list[Any]] = {False: [], True: []}
    received = 0
    with tempfile.TemporaryDirectory(prefix="dexstack-") as folder:
        for k in range(2 * args.pairs):
            watched = k % 2 == 1
            note(f"run {k + 1} of {2 * args.pairs}, {'with monitor and recorder' if watched else 'alone'}")
            solves, count = _solves(Path(folder) / str(k), watched, args.seconds, args.seed + k // 2)
            found[watched].append(solves)
            received += count
    if not received:
        raise ConfigError("the page sent no data; try `dexstack monitor` during `dexstack up sim`")
    results: dict[str, Any] = {"limit": LIMIT, "page_bytes": received}
    rows = []
    for name, column in (("solve_s", 0), ("solve_wall_s", 1)):
        pair = {
            key: times(np.concatenate(found[watched])[:, column])
            for key, watched in (("alone", False), ("watched", True))
        }
        growth = pair["watched"]["p99"] / pair["alone"]["p99"] - 1.0
        results[name] = {**pair, "p99_growth": growth}
        rows += [(name, key, 1e3 * t["p50"], 1e3 * t["p99"], t["n"]) for key, t in pair.items()]
        rows.append((name, "growth [%]", None, 100 * growth, None))
    results["passed"] = all(results[name]["p99_growth"] <= LIMIT for name in ("solve_s", "solve_wall_s"))
    lines = [table("solve times [ms]", ("time", "run", "p50", "p99", "n"), rows)]
    return Findings(results, lines=lines, seed=args.seed)


def _solves(folder: Path, watched: bool, seconds: float, seed: int) -> tuple[Any, int]:
    """Return processor and wall time of every solve of one run, (n, 2) [s], and the number of bytes
    that the page sent."""
    with own_domain(), contextlib.ExitStack() as stack:
        limits = "--seconds", str(seconds), "--seed", str(seed), "--goal-yaw", "180"
        graph = stack.enter_context(up("sim", folder, *limits))
        visitor = None
        if watched:
            page = page_parameters(HOST, PORT)
            monitor = ["monitor", "--no-open", "--port", str(page["port"]), "--token", str(page["token"])]
            for command in (["record", str(folder.with_suffix(".mcap"))], monitor):
                stack.enter_context(Program([*DEXSTACK, *command], folder / command[0]))
            visitor = until(lambda: _visit(page_url(page)), 60.0)
        graph.wait()
        if visitor:
            visitor.close()
    recording = folder / "recording.npz"
    if not recording.is_file():
        raise ConfigError(f"a run with seed {seed} left no recording; try `dexstack up sim`")
    with np.load(recording) as data:
        return np.stack([data["solve_s"], data["solve_wall_s"]], axis=1), visitor.received if visitor else 0


def _visit(url: str) -> Visitor | None:
    """Open the page, which the visitor receives and discards; None while it is not up yet."""
    from websockets.exceptions import WebSocketException

    with contextlib.suppress(OSError, EOFError, WebSocketException):
        return Visitor(url)
    return None


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this rig."""
    add = parser.add_argument
    add("--pairs", type=positive_int, default=3, metavar="N", help="number of runs of each kind")
    add("--seconds", type=positive, default=15.0, metavar="S", help="simulated time of a run")
    add("--seed", type=natural, default=0, metavar="S", help="seed of the first pair")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig; return the exit code."""
    return run("tests.acceptance.monitor", __doc__, monitor, argv, arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
