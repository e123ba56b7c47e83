"""``dexstack object check``: check an object and show its properties."""

from __future__ import annotations

import argparse
from dataclasses import replace

from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish

add_parser = command(
    "check",
    option("object", metavar="NAME|YAML", help="name of an object, or the path of an object's YAML"),
    help="check an object and show its properties",
    description="Load an object as every task does, and show its size, mass, inertia, convex parts with "
    "their error, and resting "
    "poses. Exit code 2 if it cannot be used.",
)


def run(args: argparse.Namespace) -> int:
    """Check the object; return 0."""
    from dexstack.cli.object.facts import facts, views
    from dexstack.model.objects import load_object
    from dexstack.onboarding.add_object import inspect
    from dexstack.onboarding.turnable import obstacle_in_allegro

    obj = load_object(args.object)
    report = replace(inspect(obj, note), obstacle=obstacle_in_allegro(obj))
    publish(args, "object check", facts(obj, report), *views(obj, report))
    return 0
