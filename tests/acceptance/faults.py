"""The fault matrix: every fault alone, on an emulated hand that moves.

Each fault must end in HOLD, READY or FAULT within its stated time, no torque on the bus may pass a
limit, and nothing but consent may switch the hand on again. The last rows run in a whole graph,
where ROS 2 is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dexstack.cli.output import machine, note, table
from dexstack.errors import ConfigError, writing
from experiments.harness import Findings, run
from tests.acceptance.hand_faults import hand_rows, tick_cost
from tests.acceptance.hand_rig import NOT_STARTED, FaultResult

PAGE = """# The fault matrix

Written by `python -m tests.acceptance.faults --page FILE`. Each row is one fault alone, on an emulated hand
in a separate process, with weight, dry friction and backlash, whose joints are commanded all the time; the
last rows run in a graph, `dexstack up
mock --perception camera`, whose messages pass a relay that can drop them. The time runs from the fault to
the moment the motors lose their torque; where the hand cannot be reached, to the moment the driver knows of
the fault; where the hand holds, to the moment its target stands still; in commissioning, from the last good
measurement to the end of the torque. Wiring faults are present from the moment the hand is enabled. Before
each row of the graph the target has moved without a rest of 0.4 s; while messages are dropped or the camera
is wrong, the time is that of the last motion within two seconds. Without a fault the target moved
throughout that time; a run on a machine too busy for that fails. The system clock itself is not set: in the
first rows the driver reads a clock with an offset, in the last ones the camera's stamps step. A parameter
change that loosens a limit is refused, one that tightens a limit is applied at once, and a stop ends the
row.

{checked} faults, {failed} failed, the slowest after {worst_s:.3f} s. {cpu}, {cores} cores.

| fault | ended in | after [ms] | limit [ms] | torque within limits | switched on by itself |
|---|---|---|---|---|---|
"""


def faults(args: argparse.Namespace) -> Findings:
    """Run the chosen rows; with ``--page``, write the page."""
    rows = _chosen(hand_rows(), args.only) if args.part != "graph" else {}
    of_graph = _chosen(_graph_rows(args.perception), args.only) if args.part != "hand" else {}
    for text in args.only:
        if not any(text in name for name in (*rows, *of_graph)):
            raise ConfigError(f"no fault has '{text}' in its name")
    outcomes: list[FaultResult] = []
    moves = True

    def add(outcome: FaultResult) -> None:
        outcomes.append(outcome)
        verdict = "" if outcome.passed else " FAILED"
        after = f"{outcome.ended_in} after {1e3 * outcome.seconds:.0f} ms{verdict}"
        note(f"{len(outcomes)}/{len(rows) + len(of_graph)} {outcome.fault}: {after}")

    with contextlib.suppress(KeyboardInterrupt):  # the rows that were run are kept
        for name, make in rows.items():
            add(make(name))
        if of_graph:
            from tests.acceptance.graph_faults import graph, moves_on

            with graph(args.perception) as g:
                moves = moves_on(g)
                for name, make_in in of_graph.items():
                    add(make_in(g, name) if moves else FaultResult(name, "not judged", math.nan, math.nan))
                    moves = moves and outcomes[-1].ended_in != NOT_STARTED
    failed = [o.fault for o in outcomes if not o.passed]
    tick = tick_cost()
    results: dict[str, Any] = {
        "checked": len(outcomes),
        "of": len(rows) + len(of_graph),
        "failed": len(failed),
        "moves_without_fault": moves,
        "worst_s": max((o.seconds for o in outcomes if math.isfinite(o.seconds)), default=math.nan),
        "faults": [asdict(o) for o in outcomes],
        "tick": tick,
        "passed": moves and not failed and len(outcomes) == len(rows) + len(of_graph),
    }
    if args.page is not None:
        with writing(args.page):
            args.page.write_text(page(results))
    cells = [
        (o.fault, o.ended_in, 1e3 * o.seconds, 1e3 * o.limit_s, "" if o.passed else "FAILED")
        for o in outcomes
    ]
    columns = ("fault", "ended in", "after [ms]", "limit [ms]", "")
    lines = [table("Fault matrix of the emulated hand", columns, cells)]
    lines.append(f"{len(outcomes)} faults, {len(failed)} failed" + f": {', '.join(failed)}" * bool(failed))
    if not moves:
        lines.append("the graph stands still without a fault: the machine is too busy to judge it")
    lines.append(f"servo step {1e6 * tick['servo_s']:.0f} µs, of which watch {1e6 * tick['watch_s']:.0f} µs")
    return Findings(results, lines=lines)


def _chosen(rows: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    """Select the rows with one of the texts in their names; without texts, all."""
    return {name: make for name, make in rows.items() if not texts or any(text in name for text in texts)}


def _graph_rows(perception: str) -> dict[str, Any]:
    try:
        from tests.acceptance.graph_faults import graph_rows
    except ImportError as error:
        note(f"without the faults of a graph: {error}")
        return {}
    return graph_rows(perception)


def page(results: dict[str, Any]) -> str:
    """Return the Markdown page of the results."""

    def line(f: dict[str, Any]) -> str:
        took = f"{1e3 * f['seconds']:.0f}" if math.isfinite(f["seconds"]) else "never"
        took = took if f["seconds"] <= f["limit_s"] else f"**{took}**"
        kept, on = ("yes" if f["torque_kept"] else "**no**"), ("no" if f["stayed_off"] else "**yes**")
        cells = (f["fault"], f["ended_in"].upper(), took, f"{1e3 * f['limit_s']:.0f}", kept, on)
        return f"| {' | '.join(cells)} |\n"

    return PAGE.format(**results, **machine()) + "".join(map(line, results["faults"]))


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this rig."""
    parser.add_argument(
        "--only",
        metavar="TEXT",
        nargs="+",
        default=[],
        help="only the faults with one of these texts in their names",
    )
    parser.add_argument(
        "--part",
        choices=("all", "hand", "graph"),
        default="all",
        help="only the rows of a hand alone, which need little processor time, or those of a graph",
    )
    parser.add_argument(
        "--perception",
        choices=("camera", "truth"),
        default="camera",
        help="poses of the graph: from simulated pictures, which take two fast cores, or exact, without the "
        "rows of camera and estimator",
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write the results as Markdown")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the matrix; return the exit code."""
    return run("tests.acceptance.faults", __doc__, faults, argv, arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
