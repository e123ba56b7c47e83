"""``dexstack bench hand``: the servo loop over CAN against an emulated hand."""

from __future__ import annotations

import argparse
import os
from typing import Any

from dexstack.cli.arguments import natural, positive
from dexstack.cli.cores import one_core
from dexstack.cli.output import add_json_argument, note, publish, table
from dexstack.report.statistics import times


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``bench hand``."""
    p = subparsers.add_parser(
        "hand",
        help="the servo loop over CAN, against an emulated hand",
        description="Period and latency of the servo loop against an emulated hand in a process of its own, the driver on one core and "
        "the others busy. Exit code 0 only if all limits are kept.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument("--seconds", type=positive, default=60.0, metavar="S", help="how long to measure")
    p.add_argument("--hand", default="right", choices=("right", "left"), help="side of the hand")
    p.add_argument("--idle", action="store_true", help="leave the other cores alone")
    p.add_argument(
        "--period-p99",
        type=positive,
        default=3.5e-3,
        metavar="S",
        help="largest 99th percentile of the period for exit code 0",
    )
    p.add_argument(
        "--latency-p99",
        type=positive,
        default=1.5e-3,
        metavar="S",
        help="largest 99th percentile of the latency for exit code 0",
    )
    p.add_argument(
        "--cpu",
        type=positive,
        default=0.25,
        metavar="SHARE",
        help="largest share of one core for exit code 0",
    )
    p.add_argument(
        "--core",
        type=natural,
        metavar="K",
        help="core to run on (default: the last one this process may use)",
    )
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Run the measurement.

    Returns:
        0 when the limits were kept, otherwise 1.
    """
    cores = os.sched_getaffinity(0)
    with one_core(args.core) as core:
        from dexstack.bench.hand import time_hand

        note(
            f"driver on core {core}, {'nothing else' if args.idle else 'the others busy'}, {args.seconds:g} s"
        )
        m = time_hand(args.seconds, sorted(cores - {core}) or [core], side=args.hand, busy=not args.idle)
    period, latency = times(m.period), times(m.latency)
    missed = m.lost + m.incomplete
    results: dict[str, Any] = {
        "core": core,
        "seconds": args.seconds,
        "rate_hz": 1.0 / period["mean"] if period["mean"] else None,
        "period_s": {**period, "max": m.period.max(initial=0.0)},
        "latency_s": {**latency, "max": m.latency.max(initial=0.0)},
        "sets": m.sets,
        "missed": missed,
        "skipped": m.skipped,
        "cpu_share": m.cpu_share,
        "emulator_cpu_share": m.emulator_cpu_share,
        "realtime": m.realtime,
        "fault": m.fault or None,
        "over_limit": m.over_limit,
        "largest_torque_share": m.largest,
        "load_average": {"mean": sum(m.load) / len(m.load), "max": max(m.load)},
        "limits": {
            "period_p99": args.period_p99,
            "latency_p99": args.latency_p99,
            "missed": 0,
            "cpu_share": args.cpu,
        },
    }
    kept = {
        "period": period["n"] > 0 and period["p99"] <= args.period_p99,
        "latency": latency["n"] > 0 and latency["p99"] <= args.latency_p99,
        "missed": missed == 0,
        "cpu": m.cpu_share <= args.cpu,
        "torque": m.over_limit == 0,
        "fault": not m.fault,
    }
    results["kept"], results["passed"] = kept, all(kept.values())
    rows = [
        [
            "period [ms]",
            *(f"{1e3 * results['period_s'][k]:.3f}" for k in ("p50", "p99", "max")),
            f"p99 {1e3 * args.period_p99:g}",
        ],
        [
            "frame to torque [ms]",
            *(f"{1e3 * results['latency_s'][k]:.3f}" for k in ("p50", "p99", "max")),
            f"p99 {1e3 * args.latency_p99:g}",
        ],
    ]
    publish(
        args,
        "bench hand",
        results,
        table(
            f"Servo loop over CAN, {m.sets} sets, core {core}", ("", "p50", "p99", "largest", "limit"), rows
        ),
        f"{results['rate_hz']:.1f} Hz; {missed} sets missed, {m.skipped} skipped; driver and guard {100 * m.cpu_share:.1f} % of one core "
        f"(limit {100 * args.cpu:g}), emulated hand {100 * m.emulator_cpu_share:.1f} %; "
        f"real-time scheduling {'on' if m.realtime else 'refused'}",
        f"load average {results['load_average']['mean']:.1f}, at most {results['load_average']['max']:.1f}"
        + (f"; fault: {m.fault}" if m.fault else ""),
        "every limit kept"
        if results["passed"]
        else "not kept: " + ", ".join(name for name, ok in kept.items() if not ok),
    )
    return 0 if results["passed"] else 1
