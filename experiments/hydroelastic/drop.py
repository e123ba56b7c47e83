"""Undamped bounces keep their energy under error control: a ball that falls straight, a dumbbell
that tumbles in a bowl."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dexengines.hydroelastic.system import HydroelasticSystem
from experiments.harness import BLUE, GREY, PINK, Outcome, run
from experiments.hydroelastic import systems
from experiments.hydroelastic.continuous import ContinuousSystem


def energy_between_bounces(
    system: HydroelasticSystem, bounces: int, *, method: str = "Radau", rtol: float = 1e-6
) -> np.ndarray:
    """(bounces + 1, 2) times [s] and energies [J] while nothing touches, before the first bounce
    and after every one."""
    motion = ContinuousSystem(system)
    motion.place(motion.state)
    rows, touching = [(0.0, motion.energy())], False
    for t, y in motion.run(1e6, method=method, rtol=rtol, atol=1e-2 * rtol, max_step=2e-3):
        motion.rate(t, y)
        if motion.faces:
            touching = True
        elif touching:
            touching = False
            rows.append((t, motion.energy()))
            if len(rows) > bounces:
                break
    return np.array(rows)


def drop(bounces: int = 100, method: str = "Radau") -> Outcome:
    """A ball that falls straight, and a dumbbell that tumbles in a bowl: without damping and
    friction neither gains nor loses energy."""
    figure = Figure(figsize=(8.0, 3.8), layout="constrained")
    ax = figure.subplots()
    results: dict[str, Any] = {"method": method, "bounces": bounces}
    lines, worst = [], 0.0
    for name, make, colour in (("ball", systems.ball, BLUE), ("dumbbell", systems.dumbbell, PINK)):
        start = time.process_time()
        rows = energy_between_bounces(make(), bounces, method=method)
        drift = np.abs(rows[:, 1] / rows[0, 1] - 1.0)
        ax.semilogy(np.arange(1, len(rows)), np.maximum(drift[1:], 1e-16), color=colour, label=name)
        results[name] = {"bounces": len(rows) - 1, "seconds": rows[-1, 0], "worst_drift": drift.max()}
        worst = max(worst, float(drift.max()))
        cpu = time.process_time() - start
        lines.append(
            f"{name}: {len(rows) - 1} bounces in {rows[-1, 0]:.1f} s, energy within {drift.max():.1e}; {cpu:.0f} s of processor time"
        )
    ax.axhline(1e-3, color=GREY, ls="--", label="limit")
    ax.set(
        xlabel="bounces",
        ylabel="|E/E₀ − 1| in flight",
        title=f"error-controlled {method}, no damping, no friction",
    )
    ax.legend()
    results["passed"] = bool(worst < 1e-3)
    return Outcome(results, figure, lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, lambda args: drop(), argv)


if __name__ == "__main__":
    sys.exit(main())
