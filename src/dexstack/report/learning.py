"""Plot of learning: performance on the task against environment steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from dexstack.report.figure import save_figure


def interval(values: np.ndarray, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean (P,) of values (R, P) over R repetitions and half the width (P,) of its Student-t
    interval; NaN for one repetition."""
    R = len(values)
    mean = values.mean(axis=0)
    if R < 2:
        return mean, np.full(mean.shape, np.nan)
    return mean, stats.t.ppf((1 + level) / 2, R - 1) * values.std(axis=0, ddof=1) / np.sqrt(R)


def write_learning_plot(path: Path, steps: np.ndarray, curves: Mapping[str, np.ndarray], title: str) -> Path:
    """Draw each quantity against environment steps as a PNG: every repetition, and the mean with its 95 %
    interval.

    Args:
        steps: (P,) environment steps.
        curves: by axis label, (R, P) values of R repetitions.

    Raises:
        ConfigError: the file cannot be written.
    """
    figure = Figure(figsize=(7.0, 2.4 * len(curves)), layout="constrained")
    axes = figure.subplots(len(curves), 1, sharex=True, squeeze=False)[:, 0]
    for ax, (label, values) in zip(axes, curves.items(), strict=True):
        mean, half = interval(values)
        ax.plot(steps, values.T, color="#1f5fa8", lw=0.7, alpha=0.4)
        ax.plot(steps, mean, color="#d61e82", marker="o", label=f"mean of {len(values)}, 95 % interval")
        if np.isfinite(half).all():
            ax.fill_between(steps, mean - half, mean + half, color="#d61e82", alpha=0.2)
        ax.set(ylabel=label, ylim=(0.0, None))
        ax.grid(alpha=0.3)
    axes[0].set_title(title, fontsize="medium", loc="left")
    axes[0].legend(fontsize="small")
    axes[-1].set_xlabel("environment steps")
    return save_figure(figure, path)
