"""Derivatives of real tosses in the lcp engine, against differences in wall time.

The loss of a toss is the squared distance of the cube's centre at its last sample from the recorded one,
in widths. Its derivatives by friction, restitution and the six velocities at the start come from one
sweep back over the tape of the rollout, and from central differences. Motions with impacts consist of
smooth pieces: where a step of the differences changes a decision, the two differ, and neither is wrong.

Friction and restitution are then fitted to :data:`FITTED` tosses by the same method (L-BFGS-B, within
the bounds of :mod:`.toss_simulators`, from :data:`START`) with either gradient.

Required, before the first run: the gradient of all tosses is :data:`FASTER` times as fast as
differences; both agree within :data:`AGREE` in :data:`SHARE` of the tosses; the fit by derivatives ends
with at most :data:`WORSE` times the loss of that by differences, in less time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from scipy.optimize import OptimizeResult, minimize

from dexengines import load
from dexengines.lcp import gradient, record
from dexengines.lcp.system import LcpSystem
from dexstack.cli import arguments
from dexstack.cli.output import table
from experiments.engines.toss_data import WIDTH, Toss, read_tosses
from experiments.engines.toss_simulators import COMMON, OPTIONS, OWN, SUBSTEPS, described
from experiments.harness import Findings, experiment

FITTED, START = 30, (0.12, 0.3)
"""Tosses; friction and restitution at the start."""
FASTER, AGREE, SHARE, WORSE = 3.0, 0.01, 0.5, 1.05
STEP = 1e-6
"""Of the differences."""
UNKNOWNS = 8
"""Of one toss: friction, restitution, velocities at the start."""
WRT = ("v", "friction", "restitution")
BOUNDS = [
    next((u.low, u.high) for u in (*COMMON, *OWN["lcp"]) if u.name == n) for n in ("friction", "restitution")
]


class Ends:
    """Where tosses end in one system, of which friction and restitution change."""

    def __init__(self, system: LcpSystem, tosses: Sequence[Toss]) -> None:
        self.system, self.tosses = system, tosses
        self._steps = [np.zeros((SUBSTEPS * (len(toss.q) - 1), 6)) for toss in tosses]
        self.runs = 0

    def loss(self, k: int, x: np.ndarray) -> tuple[float, gradient.Rollout, np.ndarray]:
        """Return the loss of toss k, its rollout, and how far off it ends (3,) in widths.

        Args:
            x: (UNKNOWNS,) friction, restitution and changes of the velocity at the start.
        """
        system, toss = self.system, self.tosses[k]
        system.forget()
        system.q[:], system.v[:] = toss.q[0], toss.v + x[2:]
        own = system.parameters
        system.parameters = record.Parameters(
            own.mass, np.full_like(own.friction, x[0]), np.full_like(own.restitution, x[1])
        )
        run = gradient.rollout(system, self._steps[k])
        self.runs += 1
        off = (run.q[-1, :3] - toss.q[-1, :3]) / WIDTH
        return float(off @ off), run, off

    def swept(self, k: int, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Return loss and gradient (UNKNOWNS,) by the sweep."""
        loss, run, off = self.loss(k, x)
        cotangent = np.zeros(13)
        cotangent[:3] = 2.0 * off / WIDTH
        found = gradient.vjp(self.system, run, cotangent, WRT)
        return loss, np.array([found["friction"].sum(), found["restitution"].sum(), *found["v"]])

    def differenced(self, k: int, x: np.ndarray, count: int = UNKNOWNS) -> tuple[float, np.ndarray]:
        """Return loss and gradient by central differences of the first ``count`` unknowns."""
        steps = STEP * np.eye(UNKNOWNS)[:count]
        slopes = [(self.loss(k, x + s)[0] - self.loss(k, x - s)[0]) / (2.0 * STEP) for s in steps]
        return self.loss(k, x)[0], np.array(slopes)


def fit(
    ends: Ends, one: Callable[[int, np.ndarray], tuple[float, np.ndarray]]
) -> tuple[OptimizeResult, float]:
    """Return the fit of friction and restitution, and its wall time [s]."""

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        found = [one(k, np.append(x, np.zeros(UNKNOWNS - 2))) for k in range(len(ends.tosses))]
        losses, slopes = zip(*found, strict=True)
        return float(np.mean(losses)), np.mean(slopes, axis=0)[:2]

    begin = time.perf_counter()
    return minimize(objective, START, jac=True, method="L-BFGS-B", bounds=BOUNDS), time.perf_counter() - begin


def make(args: argparse.Namespace) -> Findings:
    """Compare gradients, then fits."""
    tosses, _ = read_tosses(args.data)
    order = np.random.default_rng(args.seed).permutation(len(tosses))
    values = {u.name: u.start for u in (*COMMON, *OWN["lcp"])}
    model = mujoco.MjModel.from_xml_string(described(values, ""))
    scene = load(model, "lcp", materials={"default": {"restitution": START[1]}}, **OPTIONS["lcp"])
    ends, x = Ends(scene.system, [tosses[k] for k in order[: args.tosses]]), np.array([*START, *np.zeros(6)])
    ends.swept(0, x)  # compiles
    rows: list[dict[str, Any]] = []
    slopes = []
    for name, one in (("derivatives", ends.swept), ("differences", ends.differenced)):
        begin = time.perf_counter()
        slopes.append(np.array([one(k, x)[1] for k in range(len(ends.tosses))]))
        rows.append({"name": name, "gradient_s": time.perf_counter() - begin})
    off = np.linalg.norm(slopes[0] - slopes[1], axis=1) / np.linalg.norm(slopes[1], axis=1)
    for row, one in zip(rows, (ends.swept, lambda k, x: ends.differenced(k, x, 2)), strict=True):
        ends.runs = 0
        found, seconds = fit(ends, one)
        row |= {"fit_s": seconds, "rollouts": ends.runs, "loss": float(found.fun)}
        row |= {"friction": float(found.x[0]), "restitution": float(found.x[1])}
    swept, differenced = rows
    met = {
        "faster": differenced["gradient_s"] >= FASTER * swept["gradient_s"],
        "agree": float(np.mean(off <= AGREE)) >= SHARE,
        "fit": swept["loss"] <= WORSE * differenced["loss"] and swept["fit_s"] < differenced["fit_s"],
    }
    at_start = float(np.mean([ends.loss(k, x)[0] for k in range(len(ends.tosses))]))
    results = {
        "tosses": len(ends.tosses),
        "rows": rows,
        "times_faster": differenced["gradient_s"] / swept["gradient_s"],
        "agreeing": float(np.mean(off <= AGREE)),
        "off_median": float(np.median(off)),
        "loss_at_start": at_start,
        "met": met,
        "passed": all(met.values()),
    }
    view = table("Tosses in lcp", list(swept), [list(row.values()) for row in rows])
    return Findings(
        results, lines=[view, f"agree within {AGREE:.0%}: {results['agreeing']:.0%}"], seed=args.seed
    )


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, metavar="FILE", help="file of tosses")
    parser.add_argument("--tosses", type=arguments.positive_int, default=FITTED, help="number of tosses")
    parser.add_argument("--seed", type=int, default=3, help="of the choice of tosses")


main = experiment("experiments.engines.toss_gradients", __doc__, make, arguments=_arguments)


if __name__ == "__main__":
    sys.exit(main())
