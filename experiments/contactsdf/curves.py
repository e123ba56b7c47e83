"""Learning curves of D-SDF for the three-ball cube: success and held-out loss against environment steps,
from an uninformed start, as in the paper's Figure 4.

Rollouts of 100 steps with the current θ and updates of θ alternate, with the weights and contact set of
``config/paper/three_ball.yaml``. After every update, trials of the task are run with θ; their number is
that of the paper's table. Bands are 95 % intervals of Student's t over the seeds.

Required: at least 80 % of the last trials of all seeds succeed, and the held-out loss fell with every
seed.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from dexstack.cli.output import note, table
from dexstack.config import share_dir
from dexstack.graph.settings import Spec
from dexstack.learning.on_policy import Point, evaluate, learn_on_policy, uninformed_theta
from dexstack.report.learning import interval
from dexstack.report.statistics import wilson
from dexstack.sim.loop import Loop
from dexstack.trials.sweep import loop_of
from experiments.harness import BLUE, PINK, Findings, experiment

TRIALS = 7
"""Trials of the paper's table: five turns and two flips."""
REQUIRED = 0.8
EVALUATION = 500_000
"""Offset of the seeds of evaluation trials."""


def curve(loop: Loop, seed: int, steps: int, every: int) -> list[Point]:
    """Return the points of one learning curve."""

    def score(theta: Any) -> list[Any]:
        return evaluate(loop, theta, TRIALS, EVALUATION + seed, loop.task.seconds())

    points = []
    for point, _, _ in learn_on_policy(
        loop, uninformed_theta(loop), steps=steps, every=every, seed=1000 * seed, score_with=score
    ):
        points.append(point)
        succeeded = sum(trial.succeeded for trial in point.trials)
        note(
            f"seed {seed}, {point.steps} steps: held out {point.held_out:.4g}, {succeeded} of {TRIALS} trials"
        )
    return points


def drawn(curves: list[list[Point]]) -> Any:
    """Return the figure: success and held-out loss of every seed, with mean and band."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.8), layout="constrained")
    axes = figure.subplots(2, 1, sharex=True)
    steps = np.mean([[p.steps for p in points] for points in curves], axis=0)
    for ax, label, values in (
        (axes[0], "success rate", np.array([[p.success_rate for p in points] for points in curves])),
        (axes[1], "held-out loss", np.array([[p.held_out for p in points] for points in curves])),
    ):
        mean, half = interval(values)
        ax.plot(steps, values.T, color=BLUE, lw=0.7, alpha=0.4)
        ax.plot(steps, mean, color=PINK, marker="o")
        if np.isfinite(half).all():
            ax.fill_between(steps, mean - half, mean + half, color=PINK, alpha=0.2)
        ax.set_ylabel(label)
        ax.grid(alpha=0.3)
    axes[0].set_ylim(0.0, 1.0)
    axes[1].set_yscale("log")
    axes[1].set_xlabel("environment steps")
    return figure


def make(args: argparse.Namespace) -> Findings:
    """Learn with every seed."""
    files = (str(share_dir() / "config" / "paper" / "three_ball.yaml"),)
    loop = loop_of(Spec("three_ball", "cube", files=files))
    curves: list[list[Point]] = []
    try:
        for k in range(args.seeds):
            curves.append(curve(loop, args.seed + k, args.steps, args.every))
    except KeyboardInterrupt:
        if not curves:
            raise
        note(f"interrupted: the results have {len(curves)} of {args.seeds} seeds")
    last = [trial.succeeded for points in curves for trial in points[-1].trials]
    fell = [points[-1].held_out < points[0].held_out for points in curves]
    rows = [
        [args.seed + k, p.steps, p.held_out, f"{sum(t.succeeded for t in p.trials)} of {TRIALS}"]
        for k, points in enumerate(curves)
        for p in points
    ]
    results = {
        "passed": bool(np.mean(last) >= REQUIRED and all(fell) and len(curves) == args.seeds),
        "seeds": len(curves),
        "trials_per_point": TRIALS,
        "final_success_rate": float(np.mean(last)),
        "final_success_interval": wilson(sum(last), len(last)),
        "loss_fell": sum(fell),
        "curves": [
            {
                "seed": args.seed + k,
                "points": [
                    {
                        "steps": p.steps,
                        "held_out_loss": p.held_out,
                        "success_rate": p.success_rate,
                        "orientation_error_rad": float(np.mean([t.orientation_error for t in p.trials])),
                        "position_error_m": float(np.mean([t.position_error for t in p.trials])),
                        "theta": p.theta._asdict(),
                    }
                    for p in points
                ],
            }
            for k, points in enumerate(curves)
        ],
    }
    view = table("three balls, cube, D-SDF", ("seed", "steps", "held-out loss", "success"), rows)
    return Findings(results, drawn(curves), [view], args.seed)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the experiment's arguments."""
    parser.add_argument("--seeds", type=int, default=5, help="number of repetitions")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=2400, help="environment steps of 0.1 s")
    parser.add_argument("--every", type=int, default=400, help="steps per update: four rollouts")


main = experiment("experiments.contactsdf.curves", __doc__, make, arguments=arguments)

if __name__ == "__main__":
    sys.exit(main())
