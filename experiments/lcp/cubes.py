"""A cube slides into another: friction before and after, momentum in the impact, both at rest in
the end."""

from __future__ import annotations

import sys

import numpy as np

from experiments.harness import Findings, experiment
from experiments.lcp import systems
from experiments.lcp.check import contact_results, sound, watched


def cubes(steps: int = 150) -> Findings:
    """Simulate a cube that slides into another, until both rest."""
    system = systems.two_cubes()
    _, v, check = watched(system, steps)
    speed = v[:, [0, 6]]
    total = speed.sum(axis=1)
    hit = int(np.argmax(speed[:, 1] > 1e-3))
    sliding = np.diff(total)
    before = np.abs(sliding[: hit - 1] + 0.0144).max()
    both = (speed[1:] > 0.0145).all(axis=1) & (np.arange(1, steps + 1) > hit + 1)
    after = np.abs(sliding[both] + 0.0288).max(initial=0.0 if both.any() else np.inf)
    rest = float(np.abs(v[-1]).max())
    impulse = float(abs(sliding[hit - 1] + 0.0144))
    results = {
        "hit_step": hit,
        "friction_error_before": float(before),
        "friction_error_after": float(after),
        "momentum_error_at_impact": impulse,
        "speed_at_end": rest,
        **contact_results(system, check),
        "passed": bool(
            before <= 1e-9 and after <= 1e-9 and rest < 1e-9 and impulse <= 0.0145 and sound(system, check)
        ),
    }
    lines = [
        f"deceleration within {before:.1e} m/s per step before the impact, {after:.1e} after it; at rest "
        f"at the end within {rest:.1e} m/s",
        f"sum of speeds over the step of the impact: {impulse:.1e} m/s besides one cube's friction; "
        f"smallest gap {check.smallest:.1e} m",
    ]
    return Findings(results, None, lines)


main = experiment(__spec__.name, __doc__, lambda args: cubes())


if __name__ == "__main__":
    sys.exit(main())
