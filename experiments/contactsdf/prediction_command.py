"""``dexstack bench prediction``: one-step prediction of every model on rollouts held out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dexstack.cli import arguments
from dexstack.cli.output import add_json_argument, note, publish, table

JUDGED = "predictor, learned"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``bench prediction``."""
    p = subparsers.add_parser(
        "prediction",
        help="one-step prediction of every model",
        description="Rollouts of the planner on the MuJoCo plant, replanned every model step, teach every model; others score it. Errors "
        "of one step, as a share of those of 'the object stays where it is'. Exit code 0 only if the learned predictor keeps --require.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument("--object", default="cube", help="name of an object, or the path of an object's YAML")
    p.add_argument("--hand", default="right", help="right, left, or the path of a hand's YAML")
    p.add_argument("--params", action="append", default=[], metavar="FILE", help="ROS 2 parameter file that wins over config/allegro.yaml")
    p.add_argument("--steps", type=arguments.positive_int, default=1000, metavar="N", help="transitions that teach")
    p.add_argument("--test-steps", type=arguments.positive_int, default=600, metavar="N", help="transitions that score")
    p.add_argument("--require", type=arguments.rate, default=0.6, metavar="SHARE", help="largest share, in position and in orientation")
    p.add_argument("--seed", type=arguments.natural, default=0, metavar="S")
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Run the study.

    Returns:
        0 when the learned predictor's errors are at most the required share, otherwise 1.
    """
    import numpy as np

    from dexstack.learning.on_policy import PredictionError, relative
    from dexstack.process.compilation import use_compilation_cache
    from dexstack.sim.loop import LoopSpec
    from experiments.contactsdf.prediction import study_prediction

    use_compilation_cache()
    spec = LoopSpec(args.object, args.hand, tuple(str(Path(f).absolute()) for f in args.params))
    study = study_prediction(spec, steps=args.steps, test_steps=args.test_steps, seed=args.seed, say=note)
    base = study.rows[0].error
    fields = PredictionError._fields
    shares = {row.name: relative(row.error, base) for row in study.rows}
    medians = {row.name: {f: float(np.median(getattr(row.error, f)) / np.median(getattr(base, f))) for f in fields} for row in study.rows}
    judged = shares[JUDGED]
    passed = max(judged["position"], judged["orientation"]) <= args.require
    results: dict[str, Any] = {
        "object": args.object,
        "train": study.train,
        "test": study.test,
        "required": args.require,
        "passed": passed,
        "stays": {"position_m": base.position.mean(), "orientation_rad": base.orientation.mean(), "joints_rad": base.joints.mean()},
        "models": [
            {"name": row.name, "relative": shares[row.name], "relative_median": medians[row.name], "theta": row.theta} for row in study.rows
        ],
    }
    percent = lambda share: f"{100 * share:.0f}"  # noqa: E731
    rows = [[r.name, *(percent(shares[r.name][f]) for f in fields), *(percent(medians[r.name][f]) for f in fields[:2])] for r in study.rows]
    publish(
        args,
        "bench prediction",
        results,
        table(
            f"{args.object}: error one step ({study.test} held-out transitions) as % of 'stays', after {study.train} to learn from",
            ("predictor", "position", "rotation", "joints", "position, median", "rotation, median"),
            rows,
        ),
        f"'stays' is off by {1e3 * base.position.mean():.2f} mm, {base.orientation.mean():.4f} rad, joints {base.joints.mean():.3f} rad",
        f"{JUDGED}: {percent(judged['position'])} % and {percent(judged['orientation'])} %, "
        + ("within" if passed else "more than")
        + f" the {100 * args.require:g} % asked for",
        seed=args.seed,
    )
    return 0 if passed else 1
