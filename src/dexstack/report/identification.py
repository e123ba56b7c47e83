"""One picture of a fitted world: how far rollouts are from what was measured, and what became of every unknown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from dexstack.errors import writing

if TYPE_CHECKING:
    from dexstack.identification.fit import Fit

BELIEVED, FITTED = "#7a7a7a", "#1f5fa8"


def write_identification_plot(path: Path, fit: Fit) -> Path:
    """Draw the residuals of joints, place and orientation over the time from a window's start, and the unknowns, as a PNG.

    Raises:
        ConfigError: the file cannot be written.
    """
    from dexstack.identification.rollouts import NOISE, differences

    n = fit.windows.measured.shape[-1] - 7
    figure = Figure(figsize=(10.0, 5.0), layout="constrained")
    axes = figure.subplot_mosaic([["joints", "place", "turn"], ["unknowns"] * 3])
    t = fit.windows.after.mean(axis=0)
    parts = {"joints": (slice(0, n), NOISE[0], "joints [rad]"), "place": (slice(n, n + 3), 1e3 * NOISE[1], "object's place [mm]")}
    parts["turn"] = (slice(n + 3, n + 6), NOISE[2], "object's orientation [rad]")
    for name, (which, unit, label) in parts.items():
        for predicted, colour, says in ((fit.believed, BELIEVED, "as believed"), (fit.predicted, FITTED, "fitted")):
            r = unit * differences(predicted, fit.windows.measured)[..., which]
            axes[name].plot(t, np.sqrt(np.mean(r**2, axis=(0, 2))), color=colour, label=says)
        axes[name].set(xlabel="time [s]", ylabel=label, ylim=(0.0, None))
    axes["joints"].legend()
    spread = np.sqrt(np.diag(fit.covariance))
    for k, (u, x, s, told) in enumerate(zip(fit.unknowns, fit.x, spread, fit.told, strict=True)):
        first = np.log(u.first) if u.positive else u.first
        ax = axes["unknowns"]
        ax.errorbar((x - first) / u.spread, k, xerr=1.645 * s / u.spread, fmt="o", color=FITTED if told else BELIEVED, capsize=4)
    axes["unknowns"].axvspan(-1.645, 1.645, color="0.93")
    axes["unknowns"].set(
        yticks=range(len(fit.unknowns)), yticklabels=[u.name for u in fit.unknowns],
        xlabel="from what was expected, in standard deviations of what it may be beforehand (grey: 90 % of that)",
    )  # fmt: skip
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)
    return path
