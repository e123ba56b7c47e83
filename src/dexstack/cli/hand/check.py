"""``dexstack hand check``: whether a hand is fit for manipulation."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish, table
from dexstack.plants import PLANTS

add_parser = command(
    "check",
    option("hand", metavar="NAME|FILE", help="name, a hand's YAML, or a URDF or MJCF"),
    option("--plants", nargs="*", choices=list(PLANTS), default=list(PLANTS), help="plants to compare"),
    help="check a hand: inertias, limits, contacts, reach, strength, servo",
    description="Check a hand, packaged, added or straight from a robot file: inertias, limits, "
    "coupling, self-contact, reach of the fingertips, largest mass to turn, and the servo's response to "
    "a step in every plant against that of the linear model. Exit code 1 if something is implausible.",
)


def run(args: argparse.Namespace) -> int:
    """Check the hand.

    Returns:
        0 if nothing is implausible, otherwise 1.
    """
    from dexstack.model.hand import load_hand
    from dexstack.onboarding.add_hand import add_hand
    from dexstack.onboarding.hand_check import check_hand

    notes: tuple[str, ...] = ()
    if Path(args.hand).suffix.lower() in (".urdf", ".xml", ".mjcf"):
        with tempfile.TemporaryDirectory(prefix="dexstack-") as folder:
            added = add_hand(args.hand, folder, progress=note)
            hand, notes = added.hand, added.notes
            found = check_hand(hand, args.plants, note)
    else:
        found = check_hand(load_hand(args.hand), args.plants, note)
    results = found.figures | {"notes": list(notes)}
    publish(args, "hand check", results, *_views(results))
    return 1 if found.findings else 0


def _views(r: dict[str, Any]) -> list[Any]:
    rows = [
        [
            name,
            j["lower"],
            j["upper"],
            j["effort"],
            *(x["deviation"][k] * 100 for x in r["responses"].values()),
        ]
        for k, (name, j) in enumerate(r["joints"].items())
    ]
    columns = ["joint", "lower [rad]", "upper [rad]", "effort [N m]"]
    columns += [f"{name} [% of a step]" for name in r["responses"]]
    tips = [
        [name, 1e3 * reach, force, None if name not in r["thumb_gap_m"] else 1e3 * r["thumb_gap_m"][name]]
        for (name, reach), force in zip(r["reach_m"].items(), r["tip_force_n"], strict=True)
    ]
    bent = r["self_contacts"]["bent"]
    lines = [f"{follower} follows {leader}" for follower, leader in r["followers"].items()]
    lines.append(f"{r['mass_kg']:.3g} kg; turns a cube of {r['heaviest_kg']:.2g} kg at most")
    if bent:
        lines.append(f"links that meet at a joint's limit: {', '.join(' and '.join(p) for p in bent)}")
    return [
        table(f"{r['name']}, a {r['side']} hand", columns, rows),
        table("fingertips", ["tip", "reach [mm]", "force [N]", "gap to the thumb [mm]"], tips),
        *lines,
        *r["notes"],
        *(f"implausible: {finding}" for finding in r["findings"]),
    ]
