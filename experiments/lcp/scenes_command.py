"""``dexstack demo lcp``: checks of the lcp engine that involve motion."""

from __future__ import annotations

import argparse
import functools
from pathlib import Path

from experiments.scenes_command import add_engine, run_check

CHECKS = {
    "balls": "one ball is aimed so that another ends at a point: error in continuous time, iterations, time of the derivative",
    "prisms": "prisms of 3 to 8 sides slide to rest: deceleration",
    "cubes": "a cube slides into another: momentum and friction",
    "bounce": "height after an elastic bounce against height before it: slope −1",
    "plate": "a gripper lifts plates of 20 and 2 mm with 1 and 10 N",
    "bowling": "a ball at 10 m/s into ten pins",
    "rest": "a box and a stack of five for 10 s at 2 and 10 ms: sub-steps, drift, energy",
    "tumble": "boxes that fall on each other: sub-steps, energy",
    "cylinder": "a cylinder stands for 10 s, rolls and slides down a slope as the closed form says, three tumble",
    "ccd": "times of impact of boxes that turn while they fly, against ipctk's detection along curved paths and coal's distances",
    "palm": "Allegro hand with an object on the palm for 60 s: stable, real-time factor",
    "intersections": "all of these: distances by coal at every sub-step",
}


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``demo lcp``."""
    p = add_engine(
        subparsers,
        "lcp",
        "rigid contact without intersection",
        CHECKS,
        "Run one check and draw it; coal checks distances at every sub-step.",
    )
    p.add_argument("--nimble", type=Path, metavar="PYTHON", help="a Python that has nimblephysics: balls times its compiled part, too")


def run(args: argparse.Namespace) -> int:
    """Run the check; 0 when its figures were reached, otherwise 1."""
    from experiments.lcp import scenes as lcp

    make = functools.partial(lcp.balls, nimble=args.nimble) if args.check == "balls" else getattr(lcp, args.check)
    return run_check(args, "lcp", CHECKS, make)
