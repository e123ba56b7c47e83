"""A box and a stack of five at rest: substeps, drift, energy."""

from __future__ import annotations

import sys
import time

import numpy as np

from dexengines.lcp import record
from experiments.harness import Findings, experiment
from experiments.lcp import systems
from experiments.lcp.check import SubstepCheck

STEPS = (0.002, 0.01)
"""Time steps [s]."""


def rest(seconds: float = 10.0) -> Findings:
    """Simulate a box and a stack of five at rest."""
    results, lines, passed = {}, [], True
    for count in (1, 5):
        for dt in STEPS:
            system = systems.stack(count, dt=dt)
            check, start, energy, gain = SubstepCheck(system), system.q.copy(), system.energy(), -np.inf
            steps = round(seconds / dt)
            drift, seconds_stepping = np.empty(steps), 0.0
            for k in range(steps):
                begin = time.process_time()
                system.step()
                seconds_stepping += time.process_time() - begin
                check.after_step()
                drift[k] = np.abs(system.q - start).max()
                gain = max(gain, system.energy() - energy)
            c = system.counts
            substeps = c[record.SUBSTEPS] / steps
            name = f"{'box' if count == 1 else f'stack of {count}'}, {1e3 * dt:g} ms"
            good = substeps <= 1.01 and drift.max() <= 1e-9 and gain <= 1e-12 and check.smallest > 0.0
            good = good and not (c[record.UNSOLVED] or c[record.OVERLAPS])
            passed = passed and bool(good)
            results[name] = {
                "steps": steps,
                "substeps_per_step": float(substeps),
                "drift_m": float(drift.max()),
                "energy_gain_J": float(gain),
                "step_s": seconds_stepping / steps,
                "warm_starts": int(c[record.WARM]),
                "intersections": {
                    "checked": check.checked,
                    "failed": int(check.smallest <= 0.0),
                    "worst": check.smallest,
                },
            }
            lines.append(
                f"{name}: {substeps:.4f} substeps per step, drift {drift.max():.1e} m, energy at most "
                f"{gain:.1e} J above the start, {1e6 * seconds_stepping / steps:.0f} µs per step"
            )
    return Findings({"runs": results, "passed": passed}, None, lines)


main = experiment(__spec__.name, __doc__, lambda args: rest())


if __name__ == "__main__":
    sys.exit(main())
