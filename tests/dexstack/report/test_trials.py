"""Plots of trials."""

import numpy as np
from matplotlib.figure import Figure

from dexstack.report.trials import write_heat_map


def test_a_cell_without_trials_stays_empty(monkeypatch, tmp_path):
    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **_: figures.append(figure))
    share = np.array([[1.0, np.nan], [0.955, 0.0]])
    write_heat_map(tmp_path / "map.png", share, ["a", "b"], ["x", "y"], "success")
    (axes,) = figures[0].axes
    assert [text.get_text() for text in axes.texts] == ["100", "", "96", "0"]
