"""``dexstack bench hand``: timing of the servo loop over CAN against an emulated hand."""

from __future__ import annotations

import argparse
import os
from typing import Any

from dexstack.cli.arguments import positive
from dexstack.cli.cores import add_core_argument, one_core
from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish, table
from dexstack.report.statistics import times

add_parser = command(
    "hand",
    option("--seconds", type=positive, default=60.0, metavar="S", help="duration of the measurement"),
    option("--hand", default="right", choices=("right", "left"), help="side of the hand"),
    option("--idle", action="store_true", help="do not keep the other cores busy"),
    option(
        "--period-p99",
        type=positive,
        default=3.5e-3,
        metavar="S",
        help="largest 99th percentile of the period for exit code 0",
    ),
    option(
        "--latency-p99",
        type=positive,
        default=1.5e-3,
        metavar="S",
        help="largest 99th percentile of the latency for exit code 0",
    ),
    option(
        "--cpu",
        type=positive,
        default=0.25,
        metavar="SHARE",
        help="largest share of one core for exit code 0",
    ),
    add_core_argument,
    help="timing of the servo loop over CAN, against an emulated hand",
    description="Measure period and latency of the servo loop against an emulated hand in another "
    "process, with the driver on one core and the other cores busy. Exit code 0 only if every limit "
    "is kept.",
)


def run(args: argparse.Namespace) -> int:
    """Run the measurement.

    Returns:
        0 if every limit was kept, otherwise 1.
    """
    cores = os.sched_getaffinity(0)
    with one_core(args.core) as core:
        from dexstack.bench.hand import time_hand

        others = "the others idle" if args.idle else "the others busy"
        note(f"driver on core {core}, {others}, {args.seconds:g} s")
        m = time_hand(args.seconds, sorted(cores - {core}) or [core], side=args.hand, busy=not args.idle)
    period, latency = times(m.period), times(m.latency)
    missed = m.lost + m.incomplete
    load = {"mean": sum(m.load) / len(m.load), "max": max(m.load)}
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
        "load_average": load,
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
        [name, *(f"{1e3 * results[key][k]:.3f}" for k in ("p50", "p99", "max")), f"p99 {1e3 * limit:g}"]
        for name, key, limit in (
            ("period [ms]", "period_s", args.period_p99),
            ("frame to torque [ms]", "latency_s", args.latency_p99),
        )
    ]
    columns = ("", "p50", "p99", "max", "limit")
    failed = [name for name, ok in kept.items() if not ok]
    publish(
        args,
        "bench hand",
        results,
        table(f"Servo loop over CAN, {m.sets} sets, core {core}", columns, rows),
        f"{results['rate_hz']:.1f} Hz; {missed} sets missed, {m.skipped} skipped; "
        f"driver and guard {100 * m.cpu_share:.1f} % of one core (limit {100 * args.cpu:g}), "
        f"emulated hand {100 * m.emulator_cpu_share:.1f} %; "
        f"real-time scheduling {'on' if m.realtime else 'refused'}",
        f"load average {load['mean']:.1f}, at most {load['max']:.1f}" + f"; fault: {m.fault}" * bool(m.fault),
        f"not kept: {', '.join(failed)}" if failed else "every limit kept",
    )
    return 0 if results["passed"] else 1
