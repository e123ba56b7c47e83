"""Prisms of 3 to 8 sides slide to rest: the deceleration is that of Coulomb friction, whatever the
sides and the heading."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from experiments.harness import BLUE, Outcome, run
from experiments.lcp import systems
from experiments.lcp.check import panel, sound, watched


def prisms(steps: int = 150) -> Outcome:
    """Prisms of 3 to 8 sides slide to rest."""
    figure, ax = panel()
    worst, rows, clean, smallest, checked = 0.0, [], True, np.inf, 0
    for sides in range(3, 9):
        for heading, directions in ((0.0, 2), (0.4, 2), (0.4, 3)):
            system = systems.sliding_prism(sides, heading, directions=directions)
            _, v, check = watched(system, steps)
            speed = np.linalg.norm(v[:, :2], axis=1)
            change = np.diff(speed)[speed[1:] > 0.0144]
            error = float(np.abs(change + 0.0144).max())
            worst, clean = max(worst, error), clean and sound(system, check)
            smallest, checked = min(smallest, check.smallest), checked + check.checked
            rows.append({"sides": sides, "heading_rad": heading, "directions": directions, "error": error})
            if heading == 0.0:
                ax.plot(
                    0.01 * np.arange(steps + 1),
                    speed,
                    color=BLUE,
                    alpha=0.2 + 0.1 * (sides - 3),
                    label=f"{sides} sides",
                )
    results = {
        "worst_error_m_s": worst,
        "runs": rows,
        "intersections": {"checked": checked, "failed": int(smallest <= 0.0), "worst": smallest},
        "passed": bool(worst <= 1e-9 and clean),
    }
    ax.set(xlabel="time [s]", ylabel="speed [m/s]", title="prisms slide to rest, μ 0.16, g 9")
    ax.legend(fontsize=8)
    lines = [
        f"3 … 8 sides, along an axis and across, 4 and 6 sides of the friction polygon: 0.0144 m/s per step within {worst:.1e}"
    ]
    return Outcome(results, figure, lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; its exit code."""
    return run(__spec__.name, __doc__, lambda args: prisms(), argv)


if __name__ == "__main__":
    sys.exit(main())
