"""Plots of many trials: errors against time, success rates, and goals reached in a row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from dexstack.report.figure import save_figure
from dexstack.report.plot import LABELS

COLOURS = ("#1f5fa8", "#d61e82", "#3a9d5d", "#c77700", "#6b4ea0", "#7a7a7a")

PUBLISHED = {
    "Shadow hand, OpenAI: median 42, capped at 50": 42.0,
    "Allegro, DeXtreme: median 14": 14.0,
    "LEAP, DROP: mean 21 to 34": 27.5,
}
"""Published results on hardware: cube, tolerance 0.4 rad."""


def write_trials_plot(
    path: Path,
    curves: Sequence[tuple[str, bool, np.ndarray, np.ndarray, np.ndarray]],
    tolerance: float,
    title: str,
) -> Path:
    """Draw orientation and position error of every trial against time, as a PNG.

    Args:
        path: the file; its folder is created.
        curves: per trial a label (trials of one label share a colour), whether it succeeded (dashed
            if not), times (K,) [s], orientation errors (K,) [rad] and position errors (K,) [m].
        tolerance: orientation error that counts as reached [rad].
        title: title of the plot.

    Raises:
        ConfigError: the file cannot be written.
    """
    figure = Figure(figsize=(8.0, 5.4), layout="constrained")
    turn, shift = figure.subplots(2, 1, sharex=True)
    turn.axhspan(0.0, tolerance, color="#3a9d5d", alpha=0.2, label=f"reached: below {tolerance:g} rad")
    colours: dict[str, str] = {}
    for label, succeeded, t, orientation, position in curves:
        known = label in colours
        colour = colours.setdefault(label, COLOURS[len(colours) % len(COLOURS)])
        style = {"color": colour, "lw": 1.0, "alpha": 0.8, "ls": "-" if succeeded else "--"}
        turn.plot(t, orientation, label=None if known else label, **style)
        shift.plot(t, 1e3 * np.asarray(position), **style)
    turn.set_title(title, fontsize="medium", loc="left")
    turn.legend(loc="upper right", fontsize="small")
    for ax, label in zip((turn, shift), LABELS[1:], strict=False):
        ax.set(ylabel=label, ylim=(0.0, None))
        ax.grid(alpha=0.3)
    shift.set_xlabel("time [s]   (dashed: failed)")
    return save_figure(figure, path)


def write_heat_map(
    path: Path, share: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str
) -> Path:
    """Draw success rates (R, C) in [0, 1] as a PNG; NaN: no trials.

    Raises:
        ConfigError: the file cannot be written.
    """
    figure = Figure(figsize=(2.6 + 0.8 * len(columns), 1.2 + 0.36 * len(rows)), layout="constrained")
    ax = figure.subplots()
    ax.imshow(share, cmap="RdYlGn", vmin=0.0, vmax=1.0, aspect="auto")
    for (i, j), value in np.ndenumerate(share):
        label = f"{100 * value:.0f}" if np.isfinite(value) else ""
        ax.text(j, i, label, ha="center", va="center", fontsize="small")
    ax.set(xticks=range(len(columns)), xticklabels=columns, yticks=range(len(rows)), yticklabels=rows)
    ax.set_title(f"{title} [%]", fontsize="medium", loc="left")
    return save_figure(figure, path)


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
    ax.set(xlabel="goals in a row", ylabel="share of trials with at least as many", ylim=(0.0, 1.05))
    ax.grid(alpha=0.3)
    ax.legend(loc="upper right", fontsize="small")
    return save_figure(figure, path)
