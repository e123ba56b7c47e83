"""How fast the hand stops: the time from an event to the end of its torque, or to a target that stands
still, several times for each event.

The events are rows of the fault matrix (:mod:`tests.acceptance.faults`), which states where each time
ends: signals to the processes of a graph and to a driver alone, an adapter that fails, steps of the
clock. Each row must end as in the matrix, within its limit, every time.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dexstack.cli.output import note, table
from dexstack.errors import ConfigError
from experiments.harness import Findings, run
from tests.acceptance.hand_faults import ADAPTER, COMMANDS, PROCESSES, STOPS, hand_rows
from tests.acceptance.hand_rig import FaultResult

REPEATS = 5
CLOCK = tuple(name for name in COMMANDS if "system clock" in name)
ALONE = (
    *(name for name in PROCESSES if "bus" not in name),
    *ADAPTER,
    "the controller goes off the bus",
    "joint angles stop",
    "commands stop",
    *CLOCK,
    STOPS[0],
)
"""Events of a driver without a graph."""
IN_GRAPH = ("hand", "simulator", "mpc", "pose_estimator")
"""Nodes that get a signal."""


def events() -> dict[str, Callable[[Any], FaultResult]]:
    """Return the function that runs each event in a graph or, for those of :data:`ALONE`, without."""
    rows = {name: lambda _, name=name: hand_rows()[name](name) for name in ALONE}
    try:
        from tests.acceptance.graph_faults import LOSSES, graph_rows
    except ImportError as error:
        note(f"without the processes of a graph: {error}")
        return rows
    return rows | {
        name: lambda graph, name=name: graph_rows()[name](graph, name)
        for name, (node, _) in LOSSES.items()
        if node in IN_GRAPH
    }


@contextmanager
def _graph(needed: bool) -> Iterator[Any]:
    if not needed:
        yield None
        return
    from tests.acceptance.graph_faults import graph

    with graph() as running:
        yield running


def stopping(args: argparse.Namespace) -> Findings:
    """Run every chosen event ``args.n`` times, in turns."""
    chosen = {name: make for name, make in events().items() if any(t in name for t in args.only or [""])}
    if not chosen:
        raise ConfigError(f"no event has one of {args.only} in its name")
    found: dict[str, list[FaultResult]] = {name: [] for name in chosen}
    for in_graph in (False, True):
        names = [name for name in chosen if (name not in ALONE) == in_graph]
        with _graph(in_graph and bool(names)) as running:
            for turn in range(args.n):
                for name in names:
                    outcome = chosen[name](running)
                    found[name].append(outcome)
                    after = f"{outcome.ended_in} after {1e3 * outcome.seconds:.0f} ms"
                    note(f"{turn + 1}/{args.n} {name}: {after}" + " FAILED" * (not outcome.passed))
    return summary(found)


def summary(found: dict[str, list[FaultResult]]) -> Findings:
    """Return the counts and times of all events."""
    entries = []
    for name, outcomes in found.items():
        seconds = [o.seconds for o in outcomes if math.isfinite(o.seconds)]
        entries.append(
            {
                "event": name,
                "ended_in": dict(Counter(o.ended_in for o in outcomes)),
                "n": len(outcomes),
                "in_time": sum(o.passed for o in outcomes),
                "median_s": statistics.median(seconds) if seconds else None,
                "worst_s": max(seconds, default=None),
                "limit_s": outcomes[0].limit_s,
                "seconds": [o.seconds if math.isfinite(o.seconds) else None for o in outcomes],
            }
        )
    results = {"events": entries, "passed": all(e["in_time"] == e["n"] for e in entries)}
    cells = [
        (
            e["event"],
            ", ".join(e["ended_in"]),
            f"{e['in_time']} of {e['n']}",
            *(math.nan if e[key] is None else 1e3 * e[key] for key in ("median_s", "worst_s", "limit_s")),
        )
        for e in entries
    ]
    columns = ("event", "ended in", "in time", "median [ms]", "worst [ms]", "limit [ms]")
    return Findings(results, lines=[table("Time to stop", columns, cells)])


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this rig."""
    parser.add_argument("--n", type=int, default=REPEATS, metavar="N", help="runs of each event")
    parser.add_argument(
        "--only", metavar="TEXT", nargs="+", help="only events with one of these texts in their names"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure; return the exit code."""
    return run("tests.acceptance.stopping", __doc__, stopping, argv, arguments=arguments)


if __name__ == "__main__":
    sys.exit(main())
