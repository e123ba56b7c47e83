"""Plot of the number of goals reached in a row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from dexstack.report.figure import save_figure

PUBLISHED = {
    "Shadow hand, OpenAI: median 42, capped at 50": 42.0,
    "Allegro, DeXtreme: median 14": 14.0,
    "LEAP, DROP: mean 21 to 34": 27.5,
}
"""Published results on hardware: cube, tolerance 0.4 rad."""


def write_survival(path: Path, counts: Sequence[int], title: str) -> Path:
    """Draw the share of trials that reached at least n goals, against n, as a PNG.

    Args:
        counts: number of goals reached in a row in each trial.

    Raises:
        ConfigError: the file cannot be written.
    """
    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    ax = figure.subplots()
    n = np.arange(max(counts, default=0) + 2)
    share = [np.mean(np.asarray(counts) >= k) for k in n]
    ax.step(
        n,
        share,
        where="mid",
        color="#1f5fa8",
        lw=2.0,
        label=f"here, {len(counts)} trials: mean {np.mean(counts):.1f}",
    )
    for (label, x), colour in zip(PUBLISHED.items(), ("#d61e82", "#3a9d5d", "#c77700"), strict=True):
        ax.axvline(x, color=colour, ls="--", lw=1.0, label=label)
    ax.set_title(title, fontsize="medium", loc="left")
    ax.set_xlabel("goals in a row")
    ax.set_ylabel("share of trials with at least as many")
    ax.set_ylim(0.0, 1.05)
    ax.grid(alpha=0.3)
    ax.legend(loc="upper right", fontsize="small")
    return save_figure(figure, path)
