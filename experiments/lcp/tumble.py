"""Boxes that fall on each other: sub-steps and energy."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from dexengines.lcp import record
from dexengines.lcp.system import LcpSystem
from experiments.harness import BLUE, GREEN, PINK, Outcome, run
from experiments.lcp import systems
from experiments.lcp.check import SubstepCheck

TUMBLES = 10
"""Scenes per time step."""
STEPS = (0.002, 0.01)
"""Time steps [s]."""


def _tumbling(seed: int, dt: float) -> LcpSystem:
    system = systems.boxes(3, dt=dt)
    rng = np.random.default_rng(seed)
    for i in range(3):
        quat = rng.normal(size=4)
        system.q[7 * i : 7 * i + 7] = 0.0, 0.05 * i, 0.3 + 0.4 * i, *(quat / np.linalg.norm(quat))
    system.v[:] = rng.normal(size=18) * 2
    return system


def tumble(seconds: float = 1.5) -> Outcome:
    """Three boxes fall on the floor and on each other, from random poses with random spins."""
    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    ax = figure.subplots()
    results, lines, passed = {}, [], True
    for dt, colour in zip((*STEPS, 0.005), (BLUE, PINK, GREEN), strict=True):
        most, total, smallest, checked, gain, steps, unsolved = 0, 0, np.inf, 0, 0.0, round(seconds / dt), 0
        for seed in range(TUMBLES):
            system = _tumbling(seed, dt)
            check, energies = SubstepCheck(system), [system.energy()]
            for _ in range(steps):
                before = int(system.counts[record.SUBSTEPS])
                system.step()
                check.after_step()
                most = max(most, int(system.counts[record.SUBSTEPS]) - before)
                energies.append(system.energy())
            c = system.counts
            total, unsolved = total + int(c[record.SUBSTEPS]), unsolved + int(c[record.UNSOLVED])
            smallest, checked = min(smallest, check.smallest), checked + check.checked
            gain = max(gain, max(energies) - energies[0])
            label = f"{1e3 * dt:g} ms" if seed == 0 else None
            ax.plot(dt * np.arange(steps + 1), energies, color=colour, lw=0.8, alpha=0.5, label=label)
        passed = passed and unsolved == 0 and smallest > 0.0 and gain <= 1e-9
        results[f"{1e3 * dt:g} ms"] = {
            "steps": TUMBLES * steps,
            "substeps": total,
            "most_substeps": most,
            "unsolved": unsolved,
            "energy_gain_J": gain,
            "intersections": {"checked": checked, "failed": int(smallest <= 0.0), "worst": smallest},
        }
        lines.append(
            f"{1e3 * dt:g} ms: {total} sub-steps in {TUMBLES * steps} steps, at most {most} in one, "
            f"smallest distance {smallest:.1e} m, energy at most {gain:.1e} J above the start"
        )
    ax.set(xlabel="time [s]", ylabel="energy [J]", title=f"{TUMBLES} times three tumbling boxes")
    ax.legend()
    return Outcome({"runs": results, "passed": bool(passed)}, figure, lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, lambda args: tumble(), argv)


if __name__ == "__main__":
    sys.exit(main())
