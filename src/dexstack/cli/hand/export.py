"""``dexstack hand export``: a hand's files for ros2_control and MoveIt."""

from __future__ import annotations

import argparse
from pathlib import Path

from dexstack.cli.options import command, option
from dexstack.cli.output import publish

add_parser = command(
    "export",
    option(
        "hand",
        nargs="?",
        default="right",
        metavar="HAND",
        help="right, left, or the path of a hand's YAML (default: right)",
    ),
    option("-o", "--output", type=Path, metavar="FOLDER", help="output folder (default: the hand's name)"),
    option(
        "--names",
        choices=("own", "vendor"),
        default="own",
        help="joint names: own as in the hand's URDF, vendor: ah_joint00 … of the Allegro hand's maker, for "
        "a graph whose hand node has the parameter vendor_names (default: own)",
    ),
    option("--namespace", default="", help="namespace of the hand's graph"),
    help="a hand's files for ros2_control and MoveIt",
    description="Write, from the hand's YAML and URDF: the URDF with a ros2_control system on the "
    "hand's topics, its controller, and "
    "MoveIt's SRDF, joint limits and controllers.",
)


def run(args: argparse.Namespace) -> int:
    """Write the files; return 0."""
    from dexstack.cli.hand.ros_files import files
    from dexstack.files import write_text
    from dexstack.model.hand import load_hand

    hand = load_hand(args.hand)
    folder = args.output or Path(hand.name)
    texts = files(hand, args.namespace, args.names == "vendor")
    for name, text in texts.items():
        write_text(folder / name, text)
    results = {"hand": hand.name, "folder": str(folder), "files": list(texts)}
    publish(args, "hand export", results, f"{', '.join(texts)} in {folder}")
    return 0
