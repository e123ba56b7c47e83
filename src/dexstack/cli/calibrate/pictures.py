"""Source of the pictures, shared by several calibrations."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dexstack.cli.arguments import natural
from dexstack.cli.options import option, options

if TYPE_CHECKING:
    from dexstack.perception.sources import PictureSet


add_source_arguments = options(
    option(
        "--source",
        default="realsense",
        help="realsense, sim, or a folder of pictures with camera.yaml",
    ),
    option("--serial", default="", help="serial number of the RealSense (default: the first one found)"),
    option(
        "--resolution", default="640x480", choices=("640x480", "1280x720"), help="resolution of the RealSense"
    ),
    option("--wait", type=float, default=0.1, metavar="S", help="time between two pictures of the RealSense"),
    option("--seed", type=natural, default=0, metavar="S", help="seed of the noise, for --source sim"),
)
"""Add ``--source`` and its options, and ``--seed``."""


def take(args: argparse.Namespace, simulate: Callable[[], PictureSet]) -> PictureSet:
    """Take the pictures.

    Raises:
        ConfigError: there is no such source, or it has no pictures.
    """
    import cv2

    from dexstack.errors import ConfigError
    from dexstack.perception.camera_params import RealSenseParams
    from dexstack.perception.sources import read_folder, take_realsense

    cv2.setNumThreads(1)
    if args.source == "sim":
        return simulate()
    if args.source == "realsense":
        width, height = map(int, args.resolution.split("x"))
        return take_realsense(RealSenseParams(args.serial, width, height), args.pictures, args.wait)
    if not Path(args.source).is_dir():
        raise ConfigError(f"--source must be realsense, sim or an existing folder, got '{args.source}'")
    return read_folder(Path(args.source))
