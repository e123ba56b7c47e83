"""``dexstack demo hydroelastic``: checks of the hydroelastic engine that involve motion."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from experiments.scenes_command import add_engine, run_check

if TYPE_CHECKING:
    from experiments.checks import Check

CHECKS = {
    "coin": "a coin slides and spins to rest: one ratio of the two from every start; order of the error in step and mesh",
    "grip": "a spatula pinched beside its centre of mass: held by a tight grip, turns in a loose one, stops; point contact beside it",
    "drop": "undamped bounces keep their energy under error control",
    "thin": "a stiff ball goes through a soft sheet's mid-plane: where that is reported, the force it costs, what helps",
    "scaling": "time of geometry and solver against the number of faces; polygons against triangles",
    "solver": "optimality residual of the convex solver on every step of every scene, with both schemes",
    "palm": "Allegro hand with an object on the palm for 60 s: stable, real-time factor",
}

SCHEMELESS = ("drop", "thin", "solver")
"""Checks that do not ask which scheme is meant."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``demo hydroelastic``."""
    p = add_engine(subparsers, "hydroelastic", "pressure field contact", CHECKS)
    p.add_argument("--scheme", default="lagged", choices=["lagged", "sap"], help="how friction is made convex (default: lagged)")


def run(args: argparse.Namespace) -> int:
    """Run the check; 0 when its figures were reached, otherwise 1."""
    from experiments.hydroelastic import disk_drop as hydroelastic
    from experiments.hydroelastic import grip as hydroelastic_grip
    from experiments.hydroelastic import scaling as hydroelastic_speed
    from experiments.hydroelastic import solver as hydroelastic_solver
    from experiments.hydroelastic import thin as hydroelastic_thin

    check: Callable[..., Check] = {
        "coin": hydroelastic.coin,
        "grip": hydroelastic_grip.grip,
        "drop": hydroelastic.drop,
        "thin": hydroelastic_thin.thin,
        "scaling": hydroelastic_speed.scaling,
        "solver": hydroelastic_solver.solver,
        "palm": hydroelastic_speed.palm,
    }[args.check]
    return run_check(args, "hydroelastic", CHECKS, check if args.check in SCHEMELESS else functools.partial(check, scheme=args.scheme))
