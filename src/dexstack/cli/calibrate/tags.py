"""``dexstack calibrate tags``: where an object's tags really are, from pictures of it."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from dexstack.cli.arguments import natural, positive_int
from dexstack.cli.calibrate.pictures import add_source_arguments, take
from dexstack.cli.output import add_json_argument, publish, table

LARGEST_MISS = 0.5
"""Root mean square residual [px] beyond which the pictures contradict each other."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``calibrate tags``."""
    p = subparsers.add_parser(
        "tags",
        help="where an object's tags really are",
        description="Learns how the tags of an object lie to each other from pictures that show it from all sides, two tags or more at a "
        f"time (turn it by hand before the camera). Exit code 0 only if all corners fit within {LARGEST_MISS:g} px.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add_source_arguments(p)
    p.add_argument(
        "--object",
        default="cube",
        help="name of an object, or the path of an object's YAML; its tags.yaml says about where they are",
    )
    p.add_argument(
        "--anchor",
        type=natural,
        metavar="TAG",
        help="tag that is exactly where tags.yaml says (default: the best fit of all)",
    )
    p.add_argument("--pictures", type=positive_int, default=60, metavar="N", help="how many to take")
    p.add_argument(
        "--output", type=Path, default=Path("tags.yaml"), metavar="FILE", help="where the result goes"
    )
    p.add_argument(
        "--seed", type=natural, default=0, metavar="S", help="seed of poses and noise, for --source sim"
    )
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Learn and write.

    Returns:
        0 when that was done and the result can be trusted, otherwise 1.
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
    layout = learn_layout(
        [detector.detect(picture) for picture in recording.pictures], nominal, recording.camera, args.anchor
    )
    save_bundle(
        args.output,
        layout.bundle,
        f"Tags of '{nominal.name}', learned from {layout.pictures} pictures by dexstack calibrate tags.",
    )
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
    publish(
        args,
        "calibrate tags",
        results,
        table(
            f"Tags of {nominal.name}, from where they were said to be",
            ("tag", "moved [mm]", "turned [deg]"),
            rows,
        ),
        f"{layout.pictures} pictures, corners fit within {layout.residual:.3f} px; written to {args.output}"
        + (f"; never seen with another one: {', '.join(map(str, unseen))}" if unseen else ""),
        seed=args.seed,
    )
    return 0 if passed else 1
