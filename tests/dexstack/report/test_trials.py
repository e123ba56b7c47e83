"""Pictures of trials: a matrix shows what was tried, and nothing where nothing was."""

from __future__ import annotations

import numpy as np

from dexstack.report import trials


def test_a_cell_that_nobody_tried_stays_empty(monkeypatch, tmp_path):
    figures = []
    monkeypatch.setattr(trials, "_save", lambda figure, path: figures.append(figure) or path)
    trials.write_heat_map(
        tmp_path / "map.png", np.array([[1.0, np.nan], [0.955, 0.0]]), ["a", "b"], ["x", "y"], "success"
    )
    (axes,) = figures[0].axes
    assert [text.get_text() for text in axes.texts] == ["100", "", "96", "0"]
