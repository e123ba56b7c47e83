"""A ball at 10 m/s into ten pins: no intersection at any substep, no energy gained."""

from __future__ import annotations

import sys

import numpy as np

from experiments.harness import Findings, experiment
from experiments.lcp import systems
from experiments.lcp.check import contact_results, sound, watched


def bowling(steps: int = 100) -> Findings:
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
    lines = [
        f"{fallen} pins fall; {check.checked} configurations checked, "
        f"smallest distance {check.smallest:.1e} m",
        f"energy: {100 * energy[-1] / energy[0]:.1f} % left, never above the start; "
        f"largest rise within the run {100 * gain:.2g} %",
    ]
    return Findings(results, None, lines)


main = experiment(__spec__.name, __doc__, lambda args: bowling())


if __name__ == "__main__":
    sys.exit(main())
