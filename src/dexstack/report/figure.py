"""Files of Matplotlib figures."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from dexstack.errors import writing


def save_figure(figure: Figure, path: Path, dpi: int = 110) -> Path:
    """Write a figure as a PNG, creating its folder, and return the path.

    Raises:
        ConfigError: the file cannot be written.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=dpi)
    return path
