"""``dexstack hand export``: a hand's files for ros2_control and MoveIt."""

from __future__ import annotations

import argparse
from pathlib import Path

from dexstack.cli.output import publish


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``hand export``."""
    p = subparsers.add_parser(
        "export",
        help="a hand's files for ros2_control and MoveIt",
        description="Write, from the hand's YAML and URDF: the URDF with a ros2_control system on the "
        "hand's topics, its controller, and "
        "MoveIt's SRDF, joint limits and controllers.",
    )
    p.add_argument(
        "hand",
        nargs="?",
        default="right",
        metavar="HAND",
        help="right, left, or the path of a hand's YAML (default: right)",
    )
    p.add_argument(
        "-o", "--output", type=Path, metavar="FOLDER", help="output folder (default: the hand's name)"
    )
    p.add_argument(
        "--names",
        choices=("own", "vendor"),
        default="own",
        help="joint names: own as in the hand's URDF, vendor: ah_joint00 … of the Allegro hand's maker, for "
        "a graph whose hand node has the parameter vendor_names (default: own)",
    )
    p.add_argument("--namespace", default="", help="namespace of the hand's graph")


def run(args: argparse.Namespace) -> int:
    """Write the files; return 0."""
    from dexstack.cli.hand.ros_files import files
    from dexstack.errors import writing
    from dexstack.model.hand import load_hand

    hand = load_hand(args.hand)
    folder = args.output or Path(hand.name)
    texts = files(hand, args.namespace, args.names == "vendor")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text)
    results = {"hand": hand.name, "folder": str(folder), "files": list(texts)}
    publish(args, "hand export", results, f"{', '.join(texts)} in {folder}")
    return 0
