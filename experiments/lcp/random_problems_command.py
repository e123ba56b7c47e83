"""``dexstack bench lcp``: validity and time of the solvers of frictional LCPs."""

from __future__ import annotations

import argparse
from typing import Any

from dexstack.cli import arguments
from dexstack.cli.cores import one_core
from dexstack.cli.output import add_json_argument, note, publish, table, track
from dexstack.report.statistics import times

SIZES = ((1, 1), (5, 7), (18, 22), (60, 64))
"""Ranges of contacts that times are printed for."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``bench lcp``."""
    p = subparsers.add_parser(
        "lcp",
        help="validity and time of the solvers of frictional LCPs",
        description="Random frictional LCPs of 1 to 64 contacts: random, boxes, stacks, duplicated, near-parallel and opposing contacts. "
        "Every solution is checked again, independently. Exit code 0 only if Lemke, the engine's solver, solved all of them validly.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument("--random", type=arguments.positive_int, default=10_000, metavar="N", help="problems")
    p.add_argument(
        "--peers-every", type=arguments.positive_int, default=50, metavar="K", help="Dantzig and PGS take every K-th of each kind"
    )
    p.add_argument("--tolerance", type=arguments.positive, default=1e-9, metavar="R", help="largest residual, relative to 1 + |f|")
    p.add_argument("--seed", type=arguments.natural, default=0, metavar="S")
    p.add_argument("--core", type=int, metavar="K", help="core to run on (default: the last one this process may use)")
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Run the measurement.

    Returns:
        0 when Lemke solved every problem and every solution passed the independent check, otherwise 1.
    """
    with one_core(args.core) as core:
        import numpy as np

        from experiments.lcp.random_problems import run as solve_all

        note(f"core {core}: {args.random} problems; the first solve compiles or loads the kernels")
        tallies = solve_all(args.random, args.seed, args.peers_every, args.tolerance, lambda items: track(items, "solving"))
    results: dict[str, Any] = {"core": core, "tolerance": args.tolerance, "solvers": {}}
    rows: list[list[Any]] = []
    for name, tally in tallies.items():
        seconds, contacts = np.array(tally.seconds), np.array(tally.contacts)
        by_size = {f"{lo}-{hi}": times(seconds[(contacts >= lo) & (contacts <= hi)]) for lo, hi in SIZES}
        failed = sum(tally.unsolved.values())
        results["solvers"][name] = {
            "checked": tally.problems,
            "failed": tally.invalid,
            "worst": tally.worst,
            "unsolved": failed,
            "unsolved_by_kind": tally.unsolved,
            "ways": tally.ways,
            "solve_s": times(seconds),
            "solve_s_by_contacts": by_size,
        }
        medians = [None if t["p50"] is None else 1e6 * t["p50"] for t in by_size.values()]
        rows.append([name, tally.problems, tally.invalid, failed, tally.ways["retry"], tally.ways["search"], tally.worst, *medians])
    lemke = tallies["lemke"]
    results["passed"] = bool(lemke.problems and not lemke.invalid and not sum(lemke.unsolved.values()))
    columns = ["solver", "problems", "invalid", "unsolved", "retried", "searched", "worst residual"]
    columns += [f"{lo if lo == hi else f'{lo}–{hi}'} contacts [µs]" for lo, hi in SIZES]
    verdict = "reached" if results["passed"] else "not reached"
    publish(
        args,
        "bench lcp",
        results,
        table(f"frictional LCPs, residual ≤ {args.tolerance:g} (1 + |f|)", columns, rows),
        f"{verdict}; invalid: called solved, refused by the check; unsolved: said so",
        seed=args.seed,
    )
    return 0 if results["passed"] else 1
