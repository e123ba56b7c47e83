"""``dexstack demo soft``: what soft contact must show."""

from __future__ import annotations

import argparse

from experiments.scenes_command import add_engine, run_check

CHECKS = {
    "isosurfaces": "soft distance of a box in the plane for growing smoothing, few and many points, wrong normals",
    "force-map": "force between two spheres as one slides past, MuJoCo's beside; derivatives out of contact",
    "push": "a sphere pushes a T through five open-loop sequences: where it ends, against MuJoCo",
    "growth": "time and memory for more points and more bodies, with patches and in the dense formulation",
    "palm": "Allegro hand with an object on the palm for 60 s: stable, real-time factor",
}


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``demo soft``."""
    add_engine(subparsers, "soft", "soft contact", CHECKS)


def run(args: argparse.Namespace) -> int:
    """Run the check; 0 when its figures were reached, otherwise 1."""
    from experiments.soft import growth as soft_growth
    from experiments.soft import pushing as soft

    checks = soft_growth if args.check == "growth" else soft
    return run_check(args, "soft", CHECKS, getattr(checks, args.check.replace("-", "_")))
