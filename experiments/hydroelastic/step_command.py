"""``dexstack bench hydroelastic-step``: time of a whole hydroelastic step beside Drake's SAP."""

from __future__ import annotations

import argparse
from typing import Any

from dexstack.cli import arguments
from dexstack.cli.cores import one_core
from dexstack.cli.output import add_json_argument, note, publish, table
from dexstack.report.statistics import times


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``bench hydroelastic-step``."""
    p = subparsers.add_parser(
        "hydroelastic-step",
        help="time of a whole hydroelastic step beside Drake's",
        description="Processor time of one 1 ms step (contact surfaces, convex solve, integration) of a gripper that holds a bar, beside "
        "Drake's SAP on the same meshes, in turns on one core. Exit code 0 only if every step was solved and the ratio to Drake was kept.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument("--scheme", default="lagged", choices=["lagged", "sap"], help="how ours makes friction convex")
    p.add_argument("--sizes", type=arguments.positive, nargs="+", metavar="M", help="mesh sizes of the fingers (default: 48 to 486 faces)")
    p.add_argument("--force", type=arguments.positive, default=10.0, metavar="N", help="grip force for --sizes")
    p.add_argument("--steps", type=arguments.positive_int, default=1000, metavar="N", help="steps that count, per size and engine")
    p.add_argument("--ratio", type=arguments.positive, default=0.12, help="largest share of Drake's time for exit code 0")
    p.add_argument("--no-peer", action="store_true", help="without Drake")
    p.add_argument("--core", type=int, metavar="K", help="core to run on (default: the last one this process may use)")
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Run the measurement.

    Returns:
        0 when every step was solved and the ratio was kept, otherwise 1.
    """
    with one_core(args.core) as core:
        import numpy as np

        from experiments.hydroelastic.step import LEVELS, peer_version, schemes, time_steps

        chosen = [(size, args.force) for size in args.sizes] if args.sizes else LEVELS
        note(f"core {core}: {len(chosen)} levels, {args.steps} steps each; the first step compiles or loads the kernels")
        levels = time_steps(chosen, args.steps, schemes()[args.scheme], with_peer=not args.no_peer)

    rows: list[list[Any]] = []
    results: dict[str, Any] = {"core": core, "scheme": args.scheme, "peer": {"name": "Drake SAP", "version": peer_version()}, "levels": []}
    for level in levels:
        ours = float(np.median(level.ours))
        peer = float(np.median(level.peer)) if level.peer.size else None
        results["levels"].append(
            {
                "size_m": level.size,
                "grip_N": level.force,
                "faces": level.faces,
                "peer_faces": level.peer_faces,
                "step_s": times(level.ours),
                "ours_s": ours,
                "peer_s": peer,
                "ratio": peer / ours if peer else None,
                "newton_iterations": level.iterations,
                "worst_residual": level.worst_residual,
                "unsolved": level.unsolved,
                "height_difference_m": level.height_difference,
            }
        )
        share = ours / peer if peer else None
        rows.append(
            [
                1e3 * level.size,
                level.force,
                level.faces,
                1e6 * ours,
                1e6 * peer if peer else None,
                share,
                level.iterations,
                level.worst_residual,
            ]
        )
    worst = max((row[5] for row in rows if row[5] is not None), default=None)
    solved = all(level.unsolved == 0 for level in levels)
    kept = worst is None or worst <= args.ratio
    results.update(worst_share=worst, passed=solved and kept)
    verdict = "every step solved" if solved else "some steps were not solved"
    if worst is not None:
        verdict += f"; at most {worst:.3f} of Drake's time (limit {args.ratio:g}): {'kept' if kept else 'not kept'}"
    columns = ("mesh [mm]", "grip [N]", "faces", "ours [µs]", "Drake [µs]", "share", "Newton", "residual")
    publish(args, "bench hydroelastic-step", results, table(f"one step of the gripper, core {core}", columns, rows), verdict)
    return 0 if results["passed"] else 1
