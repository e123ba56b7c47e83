"""``dexstack object check``: check an object and show its properties."""

from __future__ import annotations

import argparse

from dexstack.cli.output import note, publish


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``object check``."""
    p = subparsers.add_parser(
        "check",
        help="check an object and show its properties",
        description="Load an object as every task does, and show its size, mass, inertia, convex parts with "
        "their error, and resting "
        "poses. Exit code 2 if it cannot be used.",
    )
    p.add_argument("object", metavar="NAME|YAML", help="name of an object, or the path of an object's YAML")


def run(args: argparse.Namespace) -> int:
    """Check the object; return 0."""
    from dexstack.cli.object.facts import facts, views
    from dexstack.model.objects import load_object
    from dexstack.onboarding.add_object import inspect

    obj = load_object(args.object)
    report = inspect(obj, note)
    publish(args, "object check", facts(obj, report), *views(obj, report))
    return 0
