"""Plot and page of an identification: measured against predicted motion, and the fitted unknowns."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from scipy.spatial.transform import Rotation

from dexstack.report.figure import save_figure
from dexstack.report.run_page import chart, picture as embedded, write_charts

BELIEVED, FITTED = "#7a7a7a", "#1f5fa8"
NAMES = "measured", "as believed", "fitted"


class Moved(NamedTuple):
    """Change of one unknown, in standard deviations of its prior."""

    name: str
    by: float
    half: float
    """Half the width of the 90 % interval."""
    told: bool
    """True if the recording determines the unknown."""


def write_identification_plot(
    path: Path, t: np.ndarray, curves: Mapping[str, tuple[np.ndarray, np.ndarray]], moved: Sequence[Moved]
) -> Path:
    """Draw residuals over the time since a window's start, and the unknowns, as a PNG.

    Args:
        t: (S,) [s].
        curves: by axis label, (S,) of the prior and (S,) of the fit.

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
        xlabel="change from the prior mean in standard deviations of the prior (grey: 90 % interval)",
    )
    return save_figure(figure, path, dpi=120)


class Compared(NamedTuple):
    """W windows of S samples: joint angles [rad], then the object's pose."""

    t: np.ndarray
    """(W,) start of each window [s]."""
    start: np.ndarray
    """(W, N + 7) measured at the start, from which both predictions begin."""
    after: np.ndarray
    """(W, S) times of the samples since ``t`` [s]."""
    measured: np.ndarray
    """(W, S, N + 7)"""
    believed: np.ndarray
    fitted: np.ndarray

    def line(self, samples: np.ndarray) -> np.ndarray:
        """Return samples (W, S, N + 7) as rows (W (S + 2), N + 7): per window a gap, its start, its
        samples."""
        gap = np.full((len(self.t), 1, self.start.shape[1]), np.nan)
        return np.concatenate([gap, self.start[:, None], samples], axis=1).reshape(-1, self.start.shape[1])


def write_identification_page(
    path: Path,
    compared: Compared,
    joint_names: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    picture: Path,
    title: str,
) -> Path:
    """Write a self-contained HTML file: the table of unknowns, the plot, and measured against predicted
    joints and object.

    Args:
        rows: for each unknown ``name``, ``says``, ``unit``, ``expected``, ``value``, ``low``,
            ``high``, ``told``.
        picture: file of :func:`write_identification_plot`.

    Raises:
        ConfigError: the file cannot be written.
    """
    t = np.repeat(compared.t, compared.after.shape[1] + 2)
    t += np.concatenate([np.zeros((len(compared.t), 2)), compared.after], axis=1).ravel()
    lines = {
        name: compared.line(x)
        for name, x in zip(NAMES, (compared.measured, compared.believed, compared.fitted), strict=True)
    }
    n = len(joint_names)
    axes = {
        f"object's {axis} [mm]": {k: 1e3 * x[:, n + i] for k, x in lines.items()}
        for i, axis in enumerate("xyz")
    }
    turned = {k: _turns(compared.start[0, n + 3 :], x[:, n + 3 :]) for k, x in lines.items()}
    axes |= {
        f"object's turn since the first window, {axis} [rad]": {k: x[:, i] for k, x in turned.items()}
        for i, axis in enumerate("xyz")
    }
    axes |= {f"{name} [rad]": {k: x[:, i] for k, x in lines.items()} for i, name in enumerate(joint_names)}
    charts = [chart(label, t, curves, dashed=NAMES[1:2]) for label, curves in axes.items()]
    return write_charts(path, charts, title, _head(rows, picture))


def _turns(first: np.ndarray, quats: np.ndarray) -> np.ndarray:
    """Return rotation vectors (K, 3) in world axes from one orientation (4,) to others (K, 4) [rad]; NaN
    where not finite."""
    found, finite = np.full((len(quats), 3), np.nan), np.isfinite(quats).all(axis=1)
    since = (
        Rotation.from_quat(quats[finite], scalar_first=True)
        * Rotation.from_quat(first, scalar_first=True).inv()
    )
    found[finite] = since.as_rotvec()
    return found


def _head(rows: Sequence[Mapping[str, Any]], file: Path) -> str:
    columns = "unknown", "expected", "found", "90 % interval", "unit", "determined by the recording", ""
    cells = [
        [
            r["name"],
            f"{r['expected']:.3g}",
            f"{r['value']:.4g}",
            f"{r['low']:.3g} to {r['high']:.3g}",
            r["unit"],
            str(r["told"]),
            r["says"],
        ]
        for r in rows
    ]
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in row)}</tr>" for row in cells)
    head = "".join(f"<th align=left>{c}</th>" for c in columns)
    return (
        f'<table cellpadding="5"><tr>{head}</tr>{body}</table>'
        f"{embedded(file.read_bytes(), 'png', 'residuals and unknowns')}"
        "<p>Every window starts from the measured state.</p>"
    )
