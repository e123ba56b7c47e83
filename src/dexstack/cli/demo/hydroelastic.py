"""``dexstack demo hydroelastic``: checks of the hydroelastic engine that involve motion."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path

from dexstack.cli.output import add_json_argument, note, publish
from dexstack.errors import ConfigError

CHECKS = {
    "coin": "a coin slides and spins to rest: one ratio of the two from every start; order of the error in step and mesh",
    "grip": "a bar held off its centre: holds in a tight grip, turns in a loose one; point contact beside it",
    "drop": "undamped bounces keep their energy under error control",
    "scaling": "time of geometry and solver against the number of faces; polygons against triangles",
    "palm": "Allegro hand with an object on the palm for 60 s: stable, real-time factor",
}


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``demo hydroelastic``."""
    p = subparsers.add_parser(
        "hydroelastic",
        help="pressure field contact: " + ", ".join(CHECKS),
        description="Run one check and draw it. Exit code 0 only if its figures were reached.",
        epilog="; ".join(f"{name}: {doc}" for name, doc in CHECKS.items()),
    )
    p.add_argument("check", choices=list(CHECKS), help="what to run")
    p.add_argument("--scheme", default="lagged", choices=["lagged", "sap"], help="how friction is made convex (default: lagged)")
    p.add_argument("--results", type=Path, help="folder for the picture (default: a new one in results/)")
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Run the check.

    Returns:
        0 when its figures were reached, otherwise 1.
    """
    from dexstack.demo import hydroelastic, hydroelastic_speed

    note(f"{args.check}: {CHECKS[args.check]}")
    module = hydroelastic_speed if args.check in ("scaling", "palm") else hydroelastic
    make = getattr(module, args.check)
    check = make() if args.check == "drop" else make(scheme=args.scheme)
    folder = args.results or Path("results") / f"demo-hydroelastic-{args.check}-{datetime.now():%Y%m%d-%H%M%S}"
    path = folder / f"{args.check}.png"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check.figure.savefig(path, dpi=110)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
    verdict = "reached" if check.results["passed"] else "not reached"
    publish(args, f"demo hydroelastic {args.check}", {**check.results, "plot": str(path)}, *check.lines, f"{verdict}; picture in {path}")
    return 0 if check.results["passed"] else 1
