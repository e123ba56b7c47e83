"""``dexstack calibrate tags``: true poses of an object's tags, from pictures of it."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from dexstack.cli.arguments import OBJECT, natural, positive_int
from dexstack.cli.calibrate.pictures import add_source_arguments, take
from dexstack.cli.options import command, option
from dexstack.cli.output import publish, table

LARGEST_MISS = 0.5
"""Largest root mean square residual [px]."""


add_parser = command(
    "tags",
    add_source_arguments,
    option("--object", default="cube", help=f"{OBJECT}; its tags.yaml gives the approximate poses"),
    option(
        "--anchor",
        type=natural,
        metavar="TAG",
        help="tag that is exactly where tags.yaml says (default: best fit of all)",
    ),
    option("--pictures", type=positive_int, default=60, metavar="N", help="number of pictures"),
    option("--output", type=Path, default=Path("tags.yaml"), metavar="FILE", help="file for the result"),
    help="true poses of an object's tags",
    description="Fit the poses of the tags on an object to pictures that show it from all sides, two "
    "tags or more at a time (turn it by hand in front of the camera). Exit code 0 only if all corners "
    f"fit within {LARGEST_MISS:g} px.",
)


def run(args: argparse.Namespace) -> int:
    """Fit and write.

    Returns:
        0 if the result can be trusted, otherwise 1.
    """
    from dexstack.perception import require_camera

    require_camera()
    from dexstack.perception.bundle import object_bundle, save_bundle
    from dexstack.perception.layout import learn_layout
    from dexstack.perception.sources import simulated_object
    from dexstack.perception.tags import TagDetector

    nominal = object_bundle(args.object)
    recording = take(args, lambda: simulated_object(args.object, args.pictures, args.seed))
    detector = TagDetector(decimate=1.0)
    found = [detector.detect(picture) for picture in recording.pictures]
    layout = learn_layout(found, nominal, recording.camera, args.anchor)
    comment = f"Tags of '{nominal.name}', fitted to {layout.pictures} pictures by dexstack calibrate tags."
    save_bundle(args.output, layout.bundle, comment)
    unseen = sorted(set(nominal.tags) - set(layout.bundle.tags))
    passed = layout.residual <= LARGEST_MISS
    results: dict[str, Any] = {
        "pictures": layout.pictures,
        "residual_px": layout.residual,
        "moved": {t: {"position_m": p, "orientation_rad": o} for t, (p, o) in layout.moved.items()},
        "unseen": unseen,
        "file": str(args.output),
        "passed": passed,
    }
    rows = [(t, f"{1e3 * p:.2f}", f"{math.degrees(o):.2f}") for t, (p, o) in layout.moved.items()]
    missing = f"; never seen with another tag: {', '.join(map(str, unseen))}" if unseen else ""
    publish(
        args,
        "calibrate tags",
        results,
        table(f"Tags of {nominal.name} against tags.yaml", ("tag", "moved [mm]", "turned [deg]"), rows),
        f"{layout.pictures} pictures, residual {layout.residual:.3f} px; written to {args.output}{missing}",
        seed=args.seed,
    )
    return 0 if passed else 1
