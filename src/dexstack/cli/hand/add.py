"""``dexstack hand add``: make a hand from a robot file."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from dexstack.cli.arguments import positive
from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish, table


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _direction(text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(word) for word in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != 3:
        raise argparse.ArgumentTypeError(
            f"must be three numbers separated by commas, e.g. 0,0,1, got '{text}'"
        )
    return numbers


add_parser = command(
    "add",
    option("file", type=Path, metavar="FILE", help="the URDF or MJCF"),
    option(
        "-o",
        "--to",
        type=Path,
        metavar="FOLDER",
        help="folder for NAME.yaml, NAME.urdf and a picture (default: NAME)",
    ),
    option("--name", help="name of the hand (default: the robot's name in the file)"),
    option(
        "--palm",
        metavar="LINK",
        help="the link that is fixed in the world (default: the last common ancestor of all fingers)",
    ),
    option(
        "--tips",
        type=_names,
        default=(),
        metavar="LINK,…",
        help="the last link of each finger, the thumb's last (default: all links without further joints)",
    ),
    option(
        "--up",
        type=_direction,
        metavar="X,Y,Z",
        help="direction out of the palm, palm frame (default: found from the fingertips' reach)",
    ),
    option(
        "--forward",
        type=_direction,
        metavar="X,Y,Z",
        help="direction of the fingers, palm frame (default: found from them)",
    ),
    option("--effort", type=positive, metavar="NM", help="torque limit of joints without one in the file"),
    option("--yes", action="store_true", help="replace existing files"),
    help="make a hand from a robot file",
    description="Read a URDF or MJCF, find palm and fingers, fit boxes, capsules and spheres to its "
    "meshes, mount it palm up, find a "
    "pose around a free space over the palm, and write a folder with a YAML for --hand.",
)


def run(args: argparse.Namespace) -> int:
    """Make the hand; return 0."""
    from dexstack.onboarding.add_hand import HandWishes, add_hand
    from dexstack.onboarding.object_picture import draw_hand

    wishes = HandWishes(args.name, args.palm, args.tips, args.up, args.forward, args.effort, args.yes)
    added = add_hand(args.file, args.to, wishes, note)
    hand = added.hand
    picture = draw_hand(added.yaml.with_suffix(".png"), hand)
    fits = [fit._asdict() for fit in added.draft.fits]
    results = {
        "hand": str(added.yaml),
        "picture": str(picture),
        "name": hand.name,
        "side": hand.side,
        "palm": hand.bodies[0].name,
        "tips": added.draft.tips,
        "tip_radius_m": hand.fingertip_radius,
        "joints": {
            name: [low, high]
            for name, low, high in zip(hand.joint_names, hand.lower, hand.upper, strict=True)
        },
        "poses": hand.poses,
        "fits": fits,
        "notes": added.notes,
    }
    rows = []
    for tip, count, last in zip(added.draft.tips, hand.chains, np.cumsum(hand.chains), strict=True):
        names, home = (x[last - count : last] for x in (hand.joint_names, hand.home))
        rows.append((tip, ", ".join(names), " ".join(f"{q:.2f}" for q in home)))
    title = f"{hand.name}, a {hand.side} hand on '{hand.bodies[0].name}'"
    views = [table(title, ("fingertip", "joints", "home [rad]"), rows)]
    if fits:
        shown = [(f["link"], f["meshes"], f["kind"], 1e3 * f["error"]) for f in fits]
        columns = ("link", "meshes", "shape", "distance from their convex hull [mm]")
        views.append(table("shapes of meshes", columns, shown))
    tail = f"{added.yaml}: look at {picture}, then dexstack eval palm_turn --hand {added.yaml} --object cube"
    publish(args, "hand add", results, *views, *added.notes, tail)
    return 0
