"""``dexstack calibrate sheet``: tags to print."""

from __future__ import annotations

import argparse
from pathlib import Path

from dexstack.cli.output import add_json_argument, publish


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``calibrate sheet``."""
    p = subparsers.add_parser(
        "sheet",
        help="tags to print, true to scale",
        description="Writes the tags of an object, or of the hand's base, as a PDF to print at 100 %%.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument("--object", default="cube", help="name of an object, the path of an object's YAML, or base for the hand's base")
    p.add_argument("--paper", default="a4", choices=("a4", "letter"), help="size of the paper")
    p.add_argument("--output", type=Path, metavar="FILE", help="the PDF (default: tags-OBJECT.pdf)")
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Write it; 0."""
    from dexstack.perception import require_camera

    require_camera()
    from dexstack.perception.bundle import base_bundle, object_bundle
    from dexstack.perception.sheet import write_sheet

    bundle = base_bundle() if args.object == "base" else object_bundle(args.object)
    path = args.output or Path(f"tags-{bundle.name}.pdf")
    pages = write_sheet(path, bundle, args.paper)
    results = {"file": str(path), "pages": pages, "tags": {t: tag.edge for t, tag in bundle.tags.items()}}
    publish(args, "calibrate sheet", results, f"{len(bundle.tags)} tags on {pages} page{'s' * (pages > 1)}: {path}; print at 100 %")
    return 0
