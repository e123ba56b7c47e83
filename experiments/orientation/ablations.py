"""Ablations of the planner on the task reorient.

Every row runs on the plant of ``experiments/heavier_smoother.yaml``, unknown to the planner, with pose
noise of 1 mm and 0.6°, from the same seeds, until the object is dropped or the time is over. A row
leaves out a part of the first, or chooses it as in other work. Goals per minute
have Garwood's interval of a Poisson count, drops per goal Wilson's interval. Required: no row has more
goals per minute than the first, beyond the intervals, without more drops.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scipy.stats import chi2

from dexstack.cli.arguments import natural, positive, positive_int
from dexstack.cli.output import commit, note, table
from dexstack.graph.settings import Spec
from dexstack.report.statistics import wilson
from dexstack.tasks.base import read_world
from dexstack.trials.keep import claim
from dexstack.trials.sweep import Cell, Run, run_trials
from experiments.harness import Findings, experiment

if TYPE_CHECKING:
    from dexstack.sim.trial import Trial

WORLD = Path(__file__).parents[1] / "heavier_smoother.yaml"
NOISE = {"pose_noise_position": 0.001, "pose_noise_rotation": 0.0105}
AS_IT_IS = "as it is"
ROWS: dict[str, dict[str, Any]] = {
    AS_IT_IS: {},
    "no detours": {"supervisor": "none"},
    "no fine perturbations near the goal": {"sampling_near": 0.0},
    "all fingers perturbed at a time": {"sampling_share": 1.0},
    "the best plan, not the weighed mean (predictive sampling)": {"sampling_temperature": 1e-6},
    "every rollout to the end of the horizon": {"sampling_halvings": 0},
    "half as many plans": {"sampling_plans": 16},
    "fingertips weigh as in palm_turn": {"contact_weight": 3.0},
    "the place weighs the same everywhere": {"position_length": 1e6},
    "commands as far ahead as 0.48 rad": {"u_max": 0.48},
    "commands as far ahead as 0.3 rad": {"u_max": 0.3},
    "horizon of half a second": {"horizon": 5},
    "searches 0.04 s late": {"sampling_delay": 0.04},
    "searches 0.04 s late, every rollout to the end": {"sampling_delay": 0.04, "sampling_halvings": 0},
    "searches 0.1 s late": {"sampling_delay": 0.1},
    "the default planner": {"planner": "gauss_newton"},
    "no learned value": {"sampling_value_weight": 0.0},
}
"""Parameters in which every row differs from the first."""


def judged(row: str, runs: Sequence[Trial]) -> dict[str, Any]:
    """Return a row of the table."""
    goals, drops, minutes = (
        sum(len(o.reached_at) for o in runs),
        sum(o.dropped for o in runs),
        sum(o.seconds for o in runs) / 60.0,
    )
    low, high = chi2.ppf(0.025, 2 * goals) / 2 if goals else 0.0, chi2.ppf(0.975, 2 * goals + 2) / 2
    return {
        "name": row,
        "parameters": ROWS[row],
        "runs": len(runs),
        "goals": goals,
        "minutes": minutes,
        "goals_per_minute": goals / minutes,
        "goals_per_minute_interval": [low / minutes, high / minutes],
        "drops": drops,
        "drops_per_goal": wilson(drops, goals + drops),
        "detours": sum(o.stalls for o in runs),
        "wall_s_per_s": sum(o.wall_s for o in runs) / (60.0 * minutes),
    }


def ablate(args: argparse.Namespace) -> Findings:
    """Run all rows."""
    names = [row for k, row in enumerate(ROWS) if not args.only or k in args.only or k == 0]
    always = {**NOISE, "tolerance": args.tolerance, "sampling_threads": 1}
    specs = [
        Spec("reorient", overrides=tuple({**always, **ROWS[row]}.items()), world=read_world(WORLD))
        for row in names
    ]
    if args.keep:
        plan = {
            "rows": [asdict(spec) for spec in specs],
            "seconds": args.seconds,
            "seed": args.seed,
            "commit": commit(),
        }
        claim(args.keep, plan, "runs")
    chosen = Run(args.seconds, keep=str(args.keep.absolute()) if args.keep else "")
    runs: list[Trial] = []
    for o in run_trials(
        [Cell(*cell) for cell in zip(names, specs, strict=True)], chosen, args.runs, args.seed, jobs=args.jobs
    ):
        runs.append(o)
        note(
            f"{o.cell or AS_IT_IS}, seed {o.seed}: {len(o.reached_at)} reached in {o.seconds:.0f} s"
            + (", dropped" if o.dropped else "")
        )
    rows = [judged(row, runs[k * args.runs : (k + 1) * args.runs]) for k, row in enumerate(names)]
    first = rows[0]
    better = [
        r["name"]
        for r in rows[1:]
        if r["goals_per_minute_interval"][0] > first["goals_per_minute"] and r["drops"] <= first["drops"]
    ]
    lines = [
        table(
            "any orientation, one change per row",
            ("", "runs", "goals", "a minute", "drops", "per goal", "detours"),
            map(_shown, rows),
        )
    ]
    lines += [f"better than unchanged: {', '.join(better)}"] if better else []
    return Findings({"rows": rows, "better": better, "passed": not better}, None, lines, args.seed)


def _shown(row: Mapping[str, Any]) -> list[Any]:
    (low, high), (few, many) = row["goals_per_minute_interval"], row["drops_per_goal"]
    rate, per_goal = f"{row['goals_per_minute']:.1f} ({low:.1f} … {high:.1f})", f"{few:.3f} … {many:.3f}"
    return [row["name"], row["runs"], row["goals"], rate, row["drops"], per_goal, row["detours"]]


def _arguments(p: argparse.ArgumentParser) -> None:
    known = "; ".join(f"{k} {row}" for k, row in enumerate(ROWS))
    p.add_argument("--runs", type=positive_int, default=20, metavar="N", help="number of runs of each row")
    p.add_argument("--seconds", type=positive, default=60.0, metavar="S", help="simulated time of a run")
    p.add_argument(
        "--tolerance",
        type=positive,
        default=0.4,
        metavar="RAD",
        help="orientation error at which a goal is reached",
    )
    p.add_argument(
        "--seed", type=natural, default=0, metavar="S", help="run k of every row has the seed S + k"
    )
    p.add_argument(
        "--only", type=natural, nargs="+", default=[], metavar="K", help=f"rows besides the first: {known}"
    )
    p.add_argument("--jobs", type=positive_int, default=1, metavar="N", help="number of processes")
    p.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="keep every run's result there, and resume an interrupted experiment",
    )


main = experiment("experiments.orientation.ablations", __doc__, ablate, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
