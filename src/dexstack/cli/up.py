"""``dexstack up``: start the graph of nodes, keep it running, and report the result."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from dexstack.bags.recordings import read_run
from dexstack.cli.monitor import HOST, PORT, page_parameters, page_url
from dexstack.cli.output import note, publish
from dexstack.cli.replay import draw
from dexstack.cli.supervisor import NodeSupervisor, graph_environment, only_graph
from dexstack.errors import USAGE_ERROR, ConfigError
from dexstack.graph.modes import MODES, discovery_range
from dexstack.process.threads import XLA_ONE_THREAD, prefer
from dexstack.report.statistics import times

NOT_ARGUMENTS = ("results",)
"""Arguments of the graph that this command sets."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``up`` and one subcommand per mode, with the arguments of the graph."""
    parser = subparsers.add_parser(
        "up",
        description="Start the graph of nodes, keep it running, and report the result.",
    )
    modes = parser.add_subparsers(dest="mode", metavar="MODE", required=True)
    for name, mode in MODES.items():
        p = modes.add_parser(name, help=mode.doc, description=mode.doc)
        for a in mode.arguments:
            if a.name not in NOT_ARGUMENTS:
                flag, metavar = "--" + a.name.replace("_", "-"), a.name.rpartition("_")[2].upper()
                kind = {"choices": a.choices} if a.choices else {"metavar": metavar}
                if set(a.choices) in ({"yes", "no"}, {"true", "false"}):
                    kind |= {"nargs": "?", "const": a.choices[0]}
                p.add_argument(flag, default=a.default, help=a.doc, **kind)
        p.add_argument(
            "--results",
            type=Path,
            help="folder for recording, plot, film and logs (default: new folder in results/)",
        )
        p.add_argument("--no-report", action="store_true", help="make no plot and no film")


def run(args: argparse.Namespace) -> int:
    """Run one mode to its end.

    Returns:
        0 if the goal was reached or the user stopped the run, otherwise 1; 2 for invalid arguments.
    """
    prefer(XLA_ONE_THREAD)  # before libraries are loaded: the nodes are forks of this process
    mode = MODES[args.mode]
    results = (args.results or Path("results") / f"{args.mode}-{datetime.now():%Y%m%d-%H%M%S}").absolute()
    values = {a.name: getattr(args, a.name) for a in mode.arguments if a.name not in NOT_ARGUMENTS} | {
        "results": str(results)
    }
    nodes = mode.describe(values)
    mode.check(values)
    for sentence in mode.notes(values):
        note(sentence)
    try:
        (results / "log").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot create the results folder {results}: {error.strerror}") from None
    recording = results / "recording.npz"
    recording.unlink(missing_ok=True)

    live = sys.stdout.isatty() and not args.json
    added: dict[str, dict[str, Any]] = {n.name: {} for n in nodes}
    for n in nodes:
        if n.ends_run:
            added[n.name] = {"live": live, "launched": _start_of_process()}
    if values.get("monitor") == "yes":
        page = page_parameters(HOST, PORT)
        added.setdefault("monitor", {}).update(page)
        note(f"the monitor will be at {page_url(page)}; the run continues until Ctrl-C")
    nodes = [replace(n, parameters={**n.parameters, **added[n.name]}) for n in nodes]
    with contextlib.ExitStack() as stack:
        environment = stack.enter_context(graph_environment(whole=args.part == "all"))
        domain = environment["ROS_DOMAIN_ID"]
        stack.enter_context(only_graph(domain, args.part, values.get("namespace", "").strip("/")))
        environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] = discovery_range(args.discovery, args.part)
        note(f"starting {len(nodes)} nodes in ROS domain {domain}; results in {results}")
        view = sys.stdout if live else sys.stderr
        end = NodeSupervisor(nodes, environment, results / "log", view=view, forked=True).run()
    summary = _summary(recording)
    summary.update(stopped=end.stopped, restarts=end.restarts, results=str(results))
    if recording.is_file() and not args.no_report:
        note("drawing the plot and the film")
        draw(read_run(recording), results / "run.png", results / "run.gif")
    publish(args, f"up {args.mode}", summary, _line(summary), seed=int(args.seed) if "seed" in args else None)
    if end.failure:
        note(end.failure)
        return USAGE_ERROR if end.unusable else 1
    return 0 if summary.get("reached") or end.stopped else 1


def _start_of_process() -> float:
    """Return the start time of this process on the clock of time.monotonic() [s]."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.monotonic() - (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, AttributeError):
        return time.monotonic()


def _summary(recording: Path) -> dict[str, Any]:
    """Return the summary of the console node, with the timing of the planner."""
    import numpy as np

    if not recording.is_file():
        return {"reached": False}
    with np.load(recording) as data:
        summary = json.loads(str(data["summary"]))
        t, cpu, wall = data["solve_t"], data["solve_s"], data["solve_wall_s"]
    rate = (len(t) - 1) / (t[-1] - t[0]) if len(t) > 1 else None
    return {**summary, "rate_hz": rate, "solve_s": times(cpu), "solve_wall_s": times(wall)}


def _line(summary: dict[str, Any]) -> str:
    """Return the result in one line."""
    outcome = (
        "reached"
        if summary.get("reached")
        else "stopped"
        if summary.get("stopped")
        else summary.get("phase", "failed")
    )
    parts = [outcome]
    if summary.get("yaw") is not None:
        yaw = math.degrees(summary["yaw"])
        parts.append(f"asked {summary['goal']}, {summary['goals_reached']} reached, yaw {yaw:+.1f}°")
        parts.append(f"error {summary['orientation_error_rad']:.3f} rad after {summary['seconds']:.1f} s")
    if summary.get("first_command_s") is not None:
        parts.append(f"first command after {summary['first_command_s']:.1f} s")
    if summary.get("real_time_factor") is not None:
        parts.append(f"real-time factor {summary['real_time_factor']:.2f}")
    if summary.get("rate_hz") is not None:
        solve = summary["solve_s"]
        parts.append(
            f"MPC {summary['rate_hz']:.0f} Hz, solve p50 {1e3 * solve['p50']:.1f} ms, "
            f"p99 {1e3 * solve['p99']:.1f} ms"
        )
    return ", ".join([*parts, *summary.get("trouble", []), f"results in {summary['results']}"])
