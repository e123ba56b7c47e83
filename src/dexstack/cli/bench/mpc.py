"""``dexstack bench mpc``: time of contact detection and MPC solve."""

from __future__ import annotations

import argparse
from typing import Any

from dexstack.cli import arguments
from dexstack.cli.cores import add_core_argument, one_core
from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish, table
from dexstack.report.statistics import errors, times

add_parser = command(
    "mpc",
    arguments.add_scene_arguments,
    arguments.add_planner_arguments,
    option(
        "--solves", type=arguments.positive_int, default=1000, metavar="N", help="number of counted solves"
    ),
    option(
        "--min-contacts",
        type=int,
        default=8,
        metavar="N",
        help="count only states with at least this many active contacts",
    ),
    option("--p50", type=float, default=2e-3, metavar="S", help="largest median for exit code 0"),
    option("--p99", type=float, default=3e-3, metavar="S", help="largest 99th percentile for exit code 0"),
    option(
        "--seed",
        type=arguments.natural,
        default=0,
        metavar="S",
        help="seed of the trials that supply the states",
    ),
    add_core_argument,
    help="time of an MPC solve",
    description="Measure processor and wall time of contact detection and MPC solve, on one core, on "
    "states of the closed loop. Exit code 0 only if the processor time of the solve keeps both limits.",
)


def run(args: argparse.Namespace) -> int:
    """Run the measurement.

    Returns:
        0 if both limits were kept, otherwise 1.
    """
    with one_core(args.core) as core:
        from dexstack.bench.mpc import time_mpc

        note(f"core {core}: compiling the controller, then {args.solves} solves on states of the closed loop")
        spec = arguments.spec_of(args, "palm_turn")
        m = time_mpc(spec, solves=args.solves, min_contacts=args.min_contacts, seed=args.seed)

    results: dict[str, Any] = {
        "core": core,
        "object": args.object,
        "horizon": m.horizon,
        "variables": m.variables,
        "rows": m.rows,
        "solve_s": times(m.solve_cpu),
        "solve_wall_s": times(m.solve_wall),
        "detect_s": times(m.detect_cpu),
        "detect_wall_s": times(m.detect_wall),
        "detect_and_solve_s": times(m.detect_cpu + m.solve_cpu),
        "detect_and_solve_wall_s": times(m.detect_wall + m.solve_wall),
        "compile_s": m.compile_s,
        "contacts": {**errors(m.contacts), "min_counted": args.min_contacts, "counted": m.solve_cpu.size},
        "statuses": m.statuses,
        "limits_s": {"p50": args.p50, "p99": args.p99},
    }
    solve = results["solve_s"]
    passed = solve["p50"] <= args.p50 and solve["p99"] <= args.p99
    results["passed"] = passed

    def row(name: str, key: str) -> list[Any]:
        t = results[key]
        return [name, *(f"{1e3 * t[k]:.2f}" for k in ("p50", "p99", "mean")), t["n"]]

    rows = [
        row("solve, processor", "solve_s"),
        row("solve, wall", "solve_wall_s"),
        row("detection, processor", "detect_s"),
        row("detection and solve, processor", "detect_and_solve_s"),
        row("detection and solve, wall", "detect_and_solve_wall_s"),
    ]
    c = results["contacts"]
    size = f"horizon {m.horizon}, {m.variables} variables, up to {m.rows} rows"
    publish(
        args,
        "bench mpc",
        results,
        table(f"MPC, {args.object}, {size}, core {core}", ("ms", "p50", "p99", "mean", "n"), rows),
        f"{c['n']} states, {c['counted']} counted (at least {args.min_contacts} active contacts; "
        f"mean {c['mean']:.1f}, most {c['max']:.0f}); compiled in {m.compile_s:.1f} s; "
        f"{', '.join(f'{n} {name}' for name, n in m.statuses.items())}",
        f"solve p50 {1e3 * solve['p50']:.2f} ms (limit {1e3 * args.p50:g}), "
        f"p99 {1e3 * solve['p99']:.2f} ms (limit {1e3 * args.p99:g}): {'kept' if passed else 'not kept'}",
        seed=args.seed,
    )
    return 0 if passed else 1
