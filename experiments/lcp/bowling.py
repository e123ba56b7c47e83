"""A ball at 10 m/s into ten pins: no intersection at any substep, no energy gained."""

from __future__ import annotations

import sys

import numpy as np

from experiments.harness import BLUE, GREY, PINK, Outcome, experiment
from experiments.lcp import systems
from experiments.lcp.check import contact_results, panel, sound, watched


def bowling(steps: int = 100) -> Outcome:
    """Simulate a ball at 10 m/s into ten pins."""
    system = systems.bowling()
    energy = [system.energy()]
    q, _, check = watched(system, steps, lambda k: energy.append(system.energy()))
    energy.append(system.energy())
    pins = q[-1, 7:].reshape(10, 7)
    fallen = int(np.sum(1.0 - 2.0 * (pins[:, 4] ** 2 + pins[:, 5] ** 2) < np.cos(np.radians(45.0))))
    gain = float(np.max(np.array(energy) - np.minimum.accumulate(energy)) / energy[0])
    results = {
        **contact_results(system, check),
        "fallen": fallen,
        "energy_gain": gain,
        "energy_left": energy[-1] / energy[0],
        "passed": bool(sound(system, check) and fallen > 0 and max(energy) <= energy[0] * (1.0 + 1e-9)),
    }
    figure, ax = panel(7.5, 3.6)
    ax.plot(q[:, 0], q[:, 1], "-", color=PINK, label="ball")
    for i in range(10):
        ax.plot(
            q[:, 7 * (i + 1)], q[:, 7 * (i + 1) + 1], "-", color=BLUE, lw=1, label="pins" if i == 0 else None
        )
        ax.plot(*q[0, 7 * (i + 1) : 7 * (i + 1) + 2], "o", color=GREY, ms=4)
    ax.set(
        aspect="equal",
        xlabel="x [m]",
        ylabel="y [m]",
        title=f"{fallen} of 10 pins fallen after {0.01 * steps:g} s; smallest gap {check.smallest:.1e} m",
    )
    ax.legend(fontsize=8)
    lines = [
        f"{fallen} pins fall; {check.checked} configurations checked, "
        f"smallest distance {check.smallest:.1e} m",
        f"energy: {100 * energy[-1] / energy[0]:.1f} % left, never above the start; "
        f"largest rise within the run {100 * gain:.2g} %",
    ]
    return Outcome(results, figure, lines)


main = experiment(__spec__.name, __doc__, lambda args: bowling())


if __name__ == "__main__":
    sys.exit(main())
