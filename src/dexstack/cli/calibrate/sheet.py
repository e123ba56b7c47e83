"""``dexstack calibrate sheet``: tags to print."""

from __future__ import annotations

import argparse
from pathlib import Path

from dexstack.cli.options import command, option
from dexstack.cli.output import publish

add_parser = command(
    "sheet",
    option("--object", default="cube", help="name of an object, path of its YAML file, base or fingertips"),
    option("--paper", default="a4", choices=("a4", "letter"), help="paper size"),
    option(
        "--output",
        type=Path,
        metavar="FILE",
        help="the PDF, or a drawing for OpenSCAD (default: tags-OBJECT.pdf)",
    ),
    help="tags to print, true to scale",
    description="Write the tags of an object, of the hand's base, or of its fingertips as a PDF to print "
    "at 100 %%; with --output FILE.scad, write a drawing of the part they are glued on (plate or cap).",
)


def run(args: argparse.Namespace) -> int:
    """Write the file; return 0."""
    from dexstack.perception import require_camera

    require_camera()
    from dexstack.files import write_text
    from dexstack.model.hand import load_hand
    from dexstack.perception.bundle import base_bundle, object_bundle
    from dexstack.perception.drawing import cap, plate
    from dexstack.perception.hand_eye import fingertip_bundle
    from dexstack.perception.sheet import write_sheet

    hand = load_hand("right")
    bundle = {"base": base_bundle, "fingertips": lambda: fingertip_bundle(hand)}.get(
        args.object, lambda: object_bundle(args.object)
    )()
    path = args.output or Path(f"tags-{bundle.name}.pdf")
    if path.suffix == ".scad":
        first = next(iter(bundle.tags.values()))
        write_text(path, cap(first, hand.fingertip_radius) if args.object == "fingertips" else plate(bundle))
        publish(args, "calibrate sheet", {"file": str(path)}, f"part for the tags: {path}")
        return 0
    pages = write_sheet(path, bundle, args.paper)
    results = {"file": str(path), "pages": pages, "tags": {t: tag.edge for t, tag in bundle.tags.items()}}
    publish(
        args,
        "calibrate sheet",
        results,
        f"{len(bundle.tags)} tags on {pages} page{'s' * (pages > 1)}: {path}; print at 100 %",
    )
    return 0
