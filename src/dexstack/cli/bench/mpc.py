"""``dexstack bench mpc``: time of contact detection and MPC solve."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dexstack.cli import arguments
from dexstack.cli.cores import one_core
from dexstack.cli.output import add_json_argument, note, publish, table
from dexstack.errors import ConfigError
from dexstack.report.statistics import errors, times

if TYPE_CHECKING:
    from dexstack.bench.mpc import Baseline


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``bench mpc``."""
    p = subparsers.add_parser(
        "mpc",
        help="time of an MPC solve",
        description="Processor and wall time of contact detection and MPC solve, on one core, on states of the closed loop. "
        "Exit code 0 only if the solve's processor time keeps both limits, and with --baseline also that of the ratio.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument("--object", default="cube", help="name of an object, or the path of an object's YAML")
    p.add_argument("--hand", default="right", help="right, left, or the path of a hand's YAML")
    p.add_argument("--model", help="time-stepping model of the planner (default: the parameter files')")
    p.add_argument("--params", action="append", default=[], metavar="FILE", help="ROS 2 parameter file that wins over config/allegro.yaml")
    arguments.add_set_argument(p)
    p.add_argument("--solves", type=int, default=1000, metavar="N", help="solves that count")
    p.add_argument("--min-contacts", type=int, default=8, metavar="N", help="a state counts from this many active contacts on")
    p.add_argument("--p50", type=float, default=2e-3, metavar="S", help="largest median for exit code 0")
    p.add_argument("--p99", type=float, default=3e-3, metavar="S", help="largest 99th percentile for exit code 0")
    p.add_argument(
        "--baseline",
        type=int,
        nargs="?",
        const=50,
        default=0,
        metavar="N",
        help="solve N of the problems (50 if N is not given) by CasADi and IPOPT too; needs the extra [baseline]",
    )
    p.add_argument("--ratio", type=float, default=40.0, metavar="R", help="least ratio of IPOPT's median time to ours for exit code 0")
    p.add_argument("--core", type=int, metavar="K", help="core to run on (default: the last one this process may use)")
    p.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the trials that supply the states")
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Run the measurement.

    Returns:
        0 when the limits were kept, otherwise 1.
    """
    if args.solves < 1 or args.seed < 0 or args.baseline < 0:
        raise ConfigError("--solves must be at least 1, --seed and --baseline not negative")
    with one_core(args.core) as core:
        from dexstack.bench.mpc import time_mpc
        from dexstack.sim.loop import LoopSpec

        note(f"core {core}: compiling the controller, then {args.solves} solves on states of the closed loop")
        overrides: tuple[tuple[str, Any], ...] = (*args.settings, *((("model", args.model),) if args.model else ()))
        spec = LoopSpec(args.object, args.hand, tuple(str(Path(f).absolute()) for f in args.params), overrides)
        m = time_mpc(spec, solves=args.solves, min_contacts=args.min_contacts, seed=args.seed, baseline=args.baseline)

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
    compared = _compared(m.baseline)
    if compared:
        results["baseline"] = compared
        passed = passed and min(c["ratio"] for c in compared if "ratio" in c) >= args.ratio
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
    publish(
        args,
        "bench mpc",
        results,
        table(
            f"MPC, {args.object}, horizon {m.horizon}, {m.variables} variables, up to {m.rows} rows, core {core}",
            ("ms", "p50", "p99", "mean", "n"),
            rows,
        ),
        *_baseline_table(compared),
        f"{c['n']} states, {c['counted']} counted (at least {args.min_contacts} active contacts; mean {c['mean']:.1f}, "
        f"most {c['max']:.0f}); compiled in {m.compile_s:.1f} s; {', '.join(f'{n} {name}' for name, n in m.statuses.items())}",
        f"solve p50 {1e3 * solve['p50']:.2f} ms (limit {1e3 * args.p50:g}), p99 {1e3 * solve['p99']:.2f} ms (limit {1e3 * args.p99:g}): "
        + ("kept" if solve["p50"] <= args.p50 and solve["p99"] <= args.p99 else "not kept"),
        seed=args.seed,
    )
    return 0 if passed else 1


def _compared(baseline: Sequence[Baseline]) -> list[dict[str, Any]]:
    """One entry per solver; the peers' say how many times the first solver's median time they took."""
    entries: list[dict[str, Any]] = []
    for b in baseline:
        entry: dict[str, Any] = {"solver": b.name, "solve_s": times(b.cpu), "cost": errors(b.cost), "solved": b.solved}
        if b.name.startswith("IPOPT"):
            ours, peer = entries[0]["solve_s"]["p50"], entry["solve_s"]["p50"]
            entry |= {"ours_s": ours, "peer_s": peer, "ratio": peer / ours, "peer": f"casadi {version('casadi')}"}
        entries.append(entry)
    return entries


def _baseline_table(entries: Sequence[dict[str, Any]]) -> list[Any]:
    rows = [
        (
            e["solver"],
            *(f"{1e3 * e['solve_s'][k]:.2f}" for k in ("p50", "p99")),
            f"{e['ratio']:.0f}×" if "ratio" in e else "",
            f"{e['cost']['median']:.3f}",
            f"{e['solved']}/{e['solve_s']['n']}",
        )
        for e in entries
    ]
    head = ("solver", "p50 [ms]", "p99 [ms]", "over ours", "median cost, own model", "solved")
    return [table("The same problems, processor time", head, rows)] if rows else []
