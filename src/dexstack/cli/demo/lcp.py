"""``dexstack demo lcp``: checks of the lcp engine that involve motion."""

from __future__ import annotations

import argparse

from dexstack.cli.demo.engine import add_engine, run_check

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
    add_engine(
        subparsers,
        "lcp",
        "rigid contact without intersection",
        CHECKS,
        "Run one check and draw it; coal checks distances at every sub-step.",
    )


def run(args: argparse.Namespace) -> int:
    """Run the check; 0 when its figures were reached, otherwise 1."""
    from dexstack.demo import lcp

    return run_check(args, "lcp", CHECKS, getattr(lcp, args.check))
