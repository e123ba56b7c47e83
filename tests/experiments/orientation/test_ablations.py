"""Ablations: every row's parameters exist and differ from the first row's, counts are pooled, and
what is kept is not run again."""

from types import SimpleNamespace

import pytest

from dexstack.graph.settings import Spec, read_settings
from experiments.orientation import ablations


@pytest.mark.parametrize("row", ablations.ROWS)
def test_every_row_differs_from_the_first_in_what_it_says(row):
    as_it_is, changed = (
        read_settings(Spec("reorient", overrides=tuple(ablations.ROWS[r].items())))
        for r in (ablations.AS_IT_IS, row)
    )
    values = [
        {k: v for block in settings.values() for k, v in vars(block).items()}
        for settings in (as_it_is, changed)
    ]
    differ = {k for k in values[0].keys() & values[1].keys() if values[0][k] != values[1][k]}
    assert differ >= set(ablations.ROWS[row])


def test_counts_are_pooled(monkeypatch, outcome):
    def runs(cells, run, trials, seed, *, jobs):
        for cell in cells:
            for k in range(trials):
                goals = 12 if cell.name == ablations.AS_IT_IS else 30
                dropped = cell.name == better and k == 5
                yield SimpleNamespace(
                    cell=cell.name,
                    seed=seed + k,
                    reached_at=(0.0,) * goals,
                    seconds=60.0,
                    dropped=dropped,
                    stalls=1,
                    wall_s=30.0,
                )

    better = list(ablations.ROWS)[1]
    monkeypatch.setattr(ablations, "run_trials", runs)
    code, results = outcome(ablations.main, "--runs", 10, "--only", 1)
    first, second = results["rows"]
    assert first["wall_s_per_s"] == 0.5
    assert code == 0, "faster, but it drops more"
    assert first["goals"] == 120 and first["goals_per_minute"] == 12.0 and second["drops"] == 1
    low, high = first["goals_per_minute_interval"]
    assert low == pytest.approx(9.95, abs=0.01) and high == pytest.approx(
        14.35, abs=0.01
    )  # 99.5 and 143.5 of a count of 120
    better = ""
    assert outcome(ablations.main, "--runs", 10, "--only", 1)[0] == 1


@pytest.mark.slow
def test_one_run_goes_through(tmp_path, outcome):
    asked = ["--runs", "1", "--seconds", "0.5", "--only", "15", "--keep", str(tmp_path / "kept")]
    rows = outcome(ablations.main, *asked)[1]["rows"]
    assert [row["runs"] for row in rows] == [1, 1] and rows[0]["minutes"] == pytest.approx(
        0.5 / 60, abs=0.02 / 60
    )
    assert len(list((tmp_path / "kept").glob("*.npz"))) == 2
    assert ablations.main([*asked, "--seed", "1"]) == 2
