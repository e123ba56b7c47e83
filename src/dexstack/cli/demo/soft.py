"""``dexstack demo soft``: what soft contact must show."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path

from dexstack.cli.output import add_json_argument, note, publish
from dexstack.errors import ConfigError

CHECKS = {
    "isosurfaces": "soft distance of a box in the plane for growing smoothing, few and many points, wrong normals",
    "force-map": "force between two spheres as one slides past, MuJoCo's beside; derivatives out of contact",
    "push": "a sphere pushes a T through five open-loop sequences: where it ends, against MuJoCo",
    "palm": "Allegro hand with an object on the palm for 60 s: stable, real-time factor",
}


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``demo soft``."""
    p = subparsers.add_parser(
        "soft",
        help="soft contact: " + ", ".join(CHECKS),
        description="Run one check and draw it. Exit code 0 only if its figures were reached.",
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
    from dexstack.demo import soft

    note(f"{args.check}: {CHECKS[args.check]}")
    check = getattr(soft, args.check.replace("-", "_"))()
    folder = args.results or Path("results") / f"demo-soft-{args.check}-{datetime.now():%Y%m%d-%H%M%S}"
    path = folder / f"{args.check}.png"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check.figure.savefig(path, dpi=110)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
    verdict = "reached" if check.results["passed"] else "not reached"
    publish(args, f"demo soft {args.check}", {**check.results, "plot": str(path)}, *check.lines, f"{verdict}; picture in {path}")
    return 0 if check.results["passed"] else 1
