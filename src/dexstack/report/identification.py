"""One picture of a fitted world: how far rollouts are from what was measured, and what became of every unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from dexstack.errors import writing

BELIEVED, FITTED = "#7a7a7a", "#1f5fa8"


class Moved(NamedTuple):
    """What became of one unknown, in standard deviations of what it may be beforehand."""

    name: str
    by: float
    half: float
    """Half the width of the 90 % interval."""
    told: bool


def write_identification_plot(
    path: Path, t: np.ndarray, curves: Mapping[str, tuple[np.ndarray, np.ndarray]], moved: Sequence[Moved]
) -> Path:
    """Draw residuals over the time from a window's start, and the unknowns, as a PNG.

    Args:
        t: (S,) [s].
        curves: by axis label, (S,) as believed and (S,) fitted.

    Raises:
        ConfigError: the file cannot be written.
    """
    figure = Figure(figsize=(10.0, 5.0), layout="constrained")
    axes = figure.subplot_mosaic([list(curves), ["unknowns"] * len(curves)])
    for label, (believed, fitted) in curves.items():
        axes[label].plot(t, believed, color=BELIEVED, label="as believed")
        axes[label].plot(t, fitted, color=FITTED, label="fitted")
        axes[label].set(xlabel="time [s]", ylabel=label, ylim=(0.0, None))
    axes[next(iter(curves))].legend()
    ax = axes["unknowns"]
    for k, m in enumerate(moved):
        ax.errorbar(m.by, k, xerr=m.half, fmt="o", color=FITTED if m.told else BELIEVED, capsize=4)
    ax.axvspan(-1.645, 1.645, color="0.93")
    ax.set(
        yticks=range(len(moved)),
        yticklabels=[m.name for m in moved],
        xlabel="from what was expected, in standard deviations of what it may be beforehand (grey: 90 % of that)",
    )
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)
    return path
