"""``dexstack demo lcp``: checks of the lcp engine that involve motion."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path

from dexstack.cli.output import add_json_argument, note, publish
from dexstack.errors import ConfigError

CHECKS = {
    "balls": "one ball is aimed so that another ends at a point: error in continuous time, iterations, time of the derivative",
    "prisms": "prisms of 3 to 8 sides slide to rest: deceleration",
    "cubes": "a cube slides into another: momentum and friction",
    "bounce": "height after an elastic bounce against height before it: slope −1",
    "plate": "a gripper lifts plates of 20 and 2 mm with 1 and 10 N",
    "bowling": "a ball at 10 m/s into ten pins",
    "palm": "Allegro hand with an object on the palm for 60 s: stable, real-time factor",
}


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``demo lcp``."""
    p = subparsers.add_parser(
        "lcp",
        help="rigid contact without intersection: " + ", ".join(CHECKS),
        description="Run one check and draw it; coal checks distances at every sub-step. Exit code 0 only if its figures were reached.",
        epilog="; ".join(f"{name}: {doc}" for name, doc in CHECKS.items()),
    )
    p.add_argument("check", choices=list(CHECKS), help="what to run")
    p.add_argument("--results", type=Path, help="folder for the picture (default: a new one in results/)")
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Run the check.

    Returns:
        0 when its figures were reached, otherwise 1.
    """
    from dexstack.demo import lcp

    note(f"{args.check}: {CHECKS[args.check]}")
    check = getattr(lcp, args.check)()
    folder = args.results or Path("results") / f"demo-lcp-{args.check}-{datetime.now():%Y%m%d-%H%M%S}"
    path = folder / f"{args.check}.png"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check.figure.savefig(path, dpi=110)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
    verdict = "reached" if check.results["passed"] else "not reached"
    publish(args, f"demo lcp {args.check}", {**check.results, "plot": str(path)}, *check.lines, f"{verdict}; picture in {path}")
    return 0 if check.results["passed"] else 1
