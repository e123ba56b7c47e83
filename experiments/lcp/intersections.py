"""Distances by coal at every sub-step of every experiment of this folder that moves bodies."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure

from experiments.harness import GREY, PINK, Outcome, run
from experiments.lcp.balls import balls
from experiments.lcp.bounce import bounce
from experiments.lcp.bowling import bowling
from experiments.lcp.ccd import ccd
from experiments.lcp.cubes import cubes
from experiments.lcp.cylinder import cylinder
from experiments.lcp.plate import plate
from experiments.lcp.prisms import prisms
from experiments.lcp.rest import rest
from experiments.lcp.tumble import tumble

CHECKS: dict[str, Callable[[], Outcome]] = {
    f.__name__: f for f in (balls, prisms, cubes, bounce, plate, bowling, rest, tumble, cylinder, ccd)
}


def _counted(results: dict) -> list[tuple[int, int, float]]:
    """Every ``intersections`` entry of nested results: configurations checked, failed, smallest distance."""
    found = []
    for key, value in results.items():
        if key == "intersections":
            found.append((value["checked"], value["failed"], value["worst"]))
        elif isinstance(value, dict):
            found += _counted(value)
    return found


def intersections() -> Outcome:
    """Run every check and see what coal says of each sub-step."""
    results, lines, worst = {}, [], []
    for name, make in CHECKS.items():
        counted = _counted(make().results)
        checked, failed, smallest = sum(c[0] for c in counted), sum(c[1] for c in counted), min(c[2] for c in counted)
        results[name] = {"checked": checked, "failed": failed, "worst": smallest}
        lines.append(f"{name}: {checked} configurations, smallest distance {smallest:.1e} m")
        worst.append(smallest)
    figure = Figure(figsize=(6.5, 3.4), layout="constrained")
    ax = figure.subplots()
    ax.barh(list(CHECKS), np.maximum(worst, 1e-18), color=[GREY if w > 0.0 else PINK for w in worst])
    ax.set(xscale="log", xlabel="smallest distance [m]", title="distances at every sub-step, by coal")
    return Outcome({"checks": results, "passed": not any(r["failed"] for r in results.values())}, figure, lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, lambda args: intersections(), argv)


if __name__ == "__main__":
    sys.exit(main())
