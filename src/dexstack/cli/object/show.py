"""``dexstack object show``: draw an object."""

from __future__ import annotations

import argparse
from pathlib import Path

from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish

add_parser = command(
    "show",
    option("object", metavar="NAME|YAML", help="name of an object, or the path of an object's YAML"),
    option("-o", "--output", type=Path, metavar="FILE", help="the PNG (default: NAME.png)"),
    help="draw an object",
    description="Draw an object at its start in the hand, its convex parts in colours, and its resting "
    "poses.",
)


def run(args: argparse.Namespace) -> int:
    """Draw the object; return 0."""
    from dexstack.model.objects import load_object
    from dexstack.onboarding.add_object import inspect
    from dexstack.onboarding.object_picture import draw_object

    obj = load_object(args.object)
    path = draw_object(args.output or Path(f"{obj.name}.png"), obj, inspect(obj, note).rests)
    publish(args, "object show", {"picture": str(path)}, f"picture: {path}")
    return 0
