"""``dexstack calibrate camera``: pose of the camera, from the tags on the hand's base."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dexstack.cli.arguments import positive_int
from dexstack.cli.calibrate.pictures import add_source_arguments, take
from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish, table

LARGEST_MISS = 0.5
"""Largest root mean square reprojection error [px]."""
FOCAL = 0.02
"""Largest relative error of the focal length, beyond three σ."""


add_parser = command(
    "camera",
    add_source_arguments,
    option("--hand", default="right", choices=("right", "left"), help="side of the hand, for --source sim"),
    option(
        "--base",
        type=Path,
        help="tags of the hand's base in the palm frame (default: the plate of hardware/tags.md)",
    ),
    option("--pictures", type=positive_int, default=30, metavar="N", help="number of pictures"),
    option(
        "--output",
        type=Path,
        default=Path("camera_mount.yaml"),
        metavar="FILE",
        help="file for the result; a picture of the same name shows the corners",
    ),
    help="pose of the camera",
    description="Measure the camera's pose in the palm frame from pictures of the tags on the hand's "
    "base, check the intrinsics, draw the reprojected corners, and write the file that pose_estimator "
    f"reads. Exit code 0 only if all corners fit within {LARGEST_MISS:g} px and the intrinsics fit.",
)


def run(args: argparse.Namespace) -> int:
    """Measure, draw and write.

    Returns:
        0 if the result can be trusted, otherwise 1.
    """
    from dexstack.perception import require_camera

    require_camera()
    import numpy as np
    from PIL import Image

    from dexstack.errors import writing
    from dexstack.perception.bundle import base_bundle, load_bundle
    from dexstack.perception.calibration import calibrate_camera, reprojection_picture, save_mount
    from dexstack.perception.sources import simulated_hand
    from dexstack.perception.tags import TagDetector

    base = load_bundle(args.base) if args.base else base_bundle()
    recording = take(args, lambda: simulated_hand(args.hand, args.pictures, args.seed))
    detector = TagDetector(decimate=1.0)
    found = [detector.detect(picture) for picture in recording.pictures]
    c = calibrate_camera(found, base, recording.camera)
    save_mount(args.output, c, recording.camera)
    picture = args.output.with_suffix(".png")
    drawn = reprojection_picture(recording.pictures[-1], found[-1], base, recording.camera, c.X_PC.inverse)
    with writing(picture):
        Image.fromarray(drawn).save(picture)
    off = abs(c.focal_ratio - 1.0)
    doubt = off > FOCAL and off > 3.0 * c.focal_sigma
    results: dict[str, Any] = {
        "position": c.X_PC.p,
        "quaternion": c.X_PC.pose[3:],
        "reprojection_px": c.reprojection,
        "worst_px": c.worst,
        "spread_m": c.spread[:3],
        "spread_rad": c.spread[3:],
        "pictures": c.pictures,
        "tags": c.tags,
        "outliers": c.outliers,
        "focal_ratio": c.focal_ratio,
        "focal_ratio_sigma": c.focal_sigma,
        "file": str(args.output),
        "picture": str(picture),
    }
    spread = f"{1e3 * np.linalg.norm(c.spread[:3]):.2f}, {np.degrees(np.linalg.norm(c.spread[3:])):.3f}"
    rows = [
        ("position in the palm frame [m]", " ".join(f"{x:.4f}" for x in c.X_PC.p)),
        ("quaternion w x y z", " ".join(f"{x:.5f}" for x in c.X_PC.pose[3:])),
        ("spread between pictures [mm, deg]", spread),
        ("reprojection error [px]", f"{c.reprojection:.3f}, at most {c.worst:.3f}"),
        ("focal length, fitted / given", f"{c.focal_ratio:.4f} ± {c.focal_sigma:.4f}"),
    ]
    results["passed"] = passed = c.reprojection <= LARGEST_MISS and not doubt and not c.outliers
    if c.outliers:
        base_name = args.base or "the plate of hardware/tags.md"
        note(f"Tags {', '.join(map(str, c.outliers))} are not where {base_name} says, and were left out.")
    if c.reprojection > LARGEST_MISS:
        note("The corners do not fit: something moved between the pictures, or the tags are misplaced.")
    if doubt:
        note("The intrinsics do not fit the tags: check the scale of the print and the camera's calibration.")
    title = f"Camera from {c.pictures} pictures of the tags {', '.join(map(str, c.tags))}"
    view, line = table(title, ("", "value"), rows), f"written to {args.output}; picture {picture}"
    publish(args, "calibrate camera", results, view, line)
    return 0 if passed else 1
