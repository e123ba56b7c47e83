"""``dexstack object check``: whether an object can be used, and what it is."""

from __future__ import annotations

import argparse

from dexstack.cli.output import add_json_argument, note, publish


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``object check``."""
    p = subparsers.add_parser(
        "check",
        help="whether an object can be used, and what it is",
        description="Loads an object as every task does, and says its size, mass, inertia, convex parts with their error, and how it "
        "rests. Exit code 2 if it cannot be used.",
    )
    p.add_argument("object", metavar="NAME|YAML", help="name of an object, or the path of an object's YAML")
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Check it; 0."""
    from dexstack.cli.object.facts import facts, views
    from dexstack.model.objects import load_object
    from dexstack.onboarding.add_object import inspect

    obj = load_object(args.object)
    report = inspect(obj, note)
    publish(args, "object check", facts(obj, report), *views(obj, report))
    return 0
