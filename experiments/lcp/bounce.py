"""Height after an elastic bounce against the height before it: slope −1, the paper's figure 2."""

from __future__ import annotations

import sys

import numpy as np
from matplotlib.figure import Figure

from dexengines.lcp import gradient
from experiments.harness import BLUE, Findings, experiment
from experiments.lcp import systems
from experiments.lcp.check import SubstepCheck, contact_results


def bounce() -> Findings:
    """Draw the paper's figure 2: height after an elastic bounce against the height before it."""
    system = systems.bouncing_ball()
    heights, ends, slopes, check = np.linspace(0.1005, 0.1195, 39), [], [], SubstepCheck(system)
    for y in heights:
        system.forget()
        system.q[0], system.v[0] = y, -1.0
        rolled = gradient.rollout(system, np.zeros((2, 1)))
        check.after_step()
        ends.append(rolled.q[-1, 0])
        slopes.append(gradient.jacobian(system, rolled, ("q",))["q"][0, 0])
    error = float(np.abs(np.array(slopes) + 1.0).max())
    exact = float(np.abs(np.array(ends) - (0.2 + 0.02 - heights)).max())
    passed = error <= 1e-9 and exact <= 1e-9 and check.smallest > 0.0
    results = {
        "slope_error": error,
        "height_error_m": exact,
        **contact_results(system, check),
        "passed": bool(passed),
    }
    figure = Figure(figsize=(6.5, 3.8), layout="constrained")
    ax = figure.subplots()
    ax.plot(heights, ends, color=BLUE)
    ax.set(
        xlabel="height at the start [m]",
        ylabel="height after two steps [m]",
        title="∂y₂/∂y₀ = −1 through an impact",
    )
    return Findings(
        results,
        figure,
        [f"∂y₂/∂y₀ = −1 within {error:.1e} at {len(heights)} heights; y₂ itself within {exact:.1e} m"],
    )


main = experiment(__spec__.name, __doc__, lambda args: bounce())


if __name__ == "__main__":
    sys.exit(main())
