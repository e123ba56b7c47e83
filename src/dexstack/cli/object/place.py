"""``dexstack object place``: find the best place in the hand and planner for an object by trials."""

from __future__ import annotations

import argparse
from pathlib import Path

from dexstack.cli.arguments import natural, positive_int
from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish, table

add_parser = command(
    "place",
    option("object", type=Path, metavar="YAML", help="the object's YAML, which is changed"),
    option(
        "--trials",
        type=positive_int,
        default=4,
        metavar="N",
        help="trials of every place with each planner (default: 4)",
    ),
    option(
        "--seed", type=natural, default=40000, metavar="S", help="seed of the start's noise (default: 40000)"
    ),
    option("--jobs", type=positive_int, default=1, metavar="N", help="number of processes (default: 1)"),
    option("--dry", action="store_true", help="change nothing"),
    help="find the best place in the hand and planner for an object by trials",
    description="Turn an object by 90° in both directions in simulation, first from its file's start, "
    "then from others: the hand's "
    "other pose, back, forth, and turned by a quarter; from each with both planners. Stop at the first "
    "with which all trials "
    "succeed, and write the best into the file. A place takes one or two minutes. Exit code 1 if no "
    "trial succeeds.",
)


def run(args: argparse.Namespace) -> int:
    """Run the search; return 0, or 1 if no trial succeeded."""
    from dexstack.onboarding.place_search import best, describe, move, try_places

    tried = try_places(args.object, args.trials, args.seed, jobs=args.jobs, progress=note)
    chosen = best(tried)
    number = next(k for k, t in enumerate(tried) if t is chosen)
    changes = number > 0 and chosen.succeeded > 0
    if changes and not args.dry:
        move(args.object, chosen.start)
    rows = [
        (describe(t.start), t.succeeded, args.trials, t.dropped, t.error, "←" if t is chosen else "")
        for t in tried
    ]
    places = [
        {
            "pose_WO": t.start.pose_WO,
            "hand_pose": t.start.hand_pose,
            "planner": t.start.planner,
            "succeeded": t.succeeded,
            "dropped": t.dropped,
            "error_rad": t.error,
        }
        for t in tried
    ]
    if not chosen.succeeded:
        said = (
            f"the hand turns {args.object.stem} from no place of {len(tried)}: it is too large, too heavy "
            "or too round"
        )
    else:
        said = (
            f"{args.object} is {'changed' if changes and not args.dry else 'unchanged'}: "
            f"{describe(chosen.start)}"
        )
    results = {"trials": args.trials, "chosen": number, "changed": changes and not args.dry, "places": places}
    view = table(args.object.stem, ("place", "succeeded", "of", "dropped", "error [rad]", "best"), rows)
    publish(args, "object place", results, view, said)
    return 0 if chosen.succeeded else 1
