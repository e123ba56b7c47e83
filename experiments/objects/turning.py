"""Quarter turns of the bodies of the zoo in a hand, each from its best place.

Every body of :mod:`.zoo` is imported like a user's file, `dexstack object place` finds place and planner
by trials, with separate seeds, and `dexstack eval palm_turn` turns it by +90° and −90° in alternation.
All parameters are defaults, except the number of samples of a search, see
:mod:`experiments.objects.searches`. Rotations about an axis of full rotational symmetry do not count. A
body with such an axis upright is at its goal from the start: it is in the table but not in the sums.
Required: 97 % of all trials succeed, 85 % with each body, at most 1 % are dropped, and the mean
orientation error over bodies is at most 0.08 rad.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.cli.arguments import natural, positive_int
from dexstack.cli.output import commit, table
from dexstack.errors import ConfigError
from dexstack.geometry.rotations import rotate
from dexstack.model.objects import load_object
from dexstack.onboarding.place_search import best, move, try_places
from dexstack.report.statistics import wilson
from dexstack.trials.keep import claim
from experiments.harness import Findings, experiment, kept_json
from experiments.objects.searches import search_settings
from experiments.objects.zoo import BODIES, add_body
from experiments.quarter_turns import quarter_turns

SEED, PLACING_SEED, PLACING_TRIALS = 20000, 40000, 6
UPRIGHT = np.cos(0.2)
"""Cosine of the largest angle of an upright axis to the vertical: a turn about the vertical moves it by
less than the tolerance of a goal."""
SUCCESS, SUCCESS_EACH, DROPPED, ERROR = 0.97, 0.85, 0.01, 0.08


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=positive_int, default=20, metavar="N", help="with each body")
    parser.add_argument(
        "--seed",
        type=natural,
        default=0,
        metavar="S",
        help="of the bodies; trial k starts with seed 20000 + k",
    )
    parser.add_argument(
        "--as-added", action="store_true", help="from the place of the rule, without trying others"
    )
    parser.add_argument(
        "--jobs",
        type=positive_int,
        default=1,
        metavar="N",
        help="bodies that are turned at the same time",
    )
    parser.add_argument(
        "--only", nargs="+", default=[], choices=BODIES, metavar="NAME", help=f"of {', '.join(BODIES)}"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="keep objects, rows and films of the worst trials, and go on there",
    )


def _make(args: argparse.Namespace) -> Findings:
    names = [name for name in BODIES if not args.only or name in args.only]
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(args.jobs) as pool:
        folder = args.keep or Path(scratch)
        if args.keep:
            plan = {name: getattr(args, name) for name in ("trials", "seed", "as_added")}
            claim(folder, plan | {"commit": commit()}, "turns")
        rows = list(pool.map(lambda name: _row(name, args, folder), names))
    told = [row for row in rows if row["told_apart"]]
    turned = [row for row in told if row["refused"] is None]
    trials, succeeded, dropped = (
        sum(row.get(key, 0) for row in told) for key in ("trials", "succeeded", "dropped")
    )
    error = float(np.mean([row["error_rad"] for row in turned])) if turned else float("nan")
    results = {
        "objects": rows,
        "trials": trials,
        "success_rate": succeeded / trials if trials else 0.0,
        "success_interval": wilson(succeeded, trials),
        "dropped": dropped,
        "error_rad": error,
    }
    enough = all(row["refused"] is None and row["succeeded"] >= SUCCESS_EACH * row["trials"] for row in told)
    results["passed"] = (
        bool(told)
        and enough
        and succeeded >= SUCCESS * trials
        and dropped <= DROPPED * trials
        and error <= ERROR
    )
    columns = (
        "name",
        "family",
        "told_apart",
        "parts",
        "hand_pose",
        "planner",
        "tried",
        "succeeded",
        "trials",
        "dropped",
        "stalls",
        "error_rad",
        "solve_p99_ms",
        "refused",
    )
    view = table("turned by a quarter", columns, [[row.get(c) for c in columns] for row in rows])
    line = (
        f"{succeeded} of {trials} turned ({100 * results['success_rate']:.0f} %), {dropped} dropped, "
        f"{error:.3f} rad"
    )
    return Findings(results, lines=[view, line], seed=args.seed)


def _row(name: str, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the row of a body, kept or new; the rest of an interrupted run is removed."""

    def turned() -> dict[str, Any]:
        shutil.rmtree(folder / name, ignore_errors=True)
        return turn_object(name, args, folder)

    return kept_json(folder / name / "row.json", turned)


def turn_object(name: str, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Import a body, turn it in trials, and return its row."""
    family, _ = BODIES[name]
    row: dict[str, Any] = {"name": name, "family": family, "refused": None, "told_apart": True}
    try:
        added = add_body(name, args.seed, folder)
        planning = dict(search_settings(len(added.obj.parts)))
        tried = (
            [] if args.as_added else try_places(added.yaml, PLACING_TRIALS, PLACING_SEED, overrides=planning)
        )
    except ConfigError as error:
        return row | {"refused": str(error)}
    if tried:
        move(added.yaml, best(tried).start)
    axes = (
        rotate(added.obj.start("allegro").pose_WO[3:], axis.ahat_B[None])[0]
        for axis in added.obj.symmetry.axes
    )
    row["told_apart"] = not any(abs(ahat_W[2]) > UPRIGHT for ahat_W in axes)
    start = load_object(added.yaml).start("allegro")
    row |= {
        "tried": len(tried),
        "parts": len(added.obj.parts),
        "size_mm": 1e3 * added.obj.size,
        "mass_kg": added.obj.mass,
        "hand_pose": start.hand_pose,
        "planner": start.planner,
    }
    what = ["--object", str(added.yaml), *(["--films"] if args.keep else [])]
    for key, value in planning.items():
        what += ["--set", f"{key}={value}"]
    return row | quarter_turns(name, what, args.trials, SEED, folder / name / "run")


main = experiment("experiments.objects.turning", __doc__, _make, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
