"""Ablations: every row's parameters exist and differ from the first row's, counts are pooled, and what is kept is not done again."""

import json

import pytest

from dexstack.graph.settings import Spec, read_settings
from experiments.orientation import ablations


@pytest.mark.parametrize("row", ablations.ROWS)
def test_every_row_differs_from_the_first_in_what_it_says(row):
    as_it_is, changed = (read_settings(Spec("reorient", overrides=tuple(ablations.ROWS[r].items()))) for r in (ablations.AS_IT_IS, row))
    values = [{k: v for block in settings.values() for k, v in vars(block).items()} for settings in (as_it_is, changed)]
    differ = {k for k in values[0].keys() & values[1].keys() if values[0][k] != values[1][k]}
    assert differ >= set(ablations.ROWS[row])


def test_counts_are_pooled(tmp_path, monkeypatch):
    def runs(f, jobs, rows, seeds, *rest):
        for row, seed in zip(rows, seeds, strict=True):
            yield {"goals": 12 if row == ablations.AS_IT_IS else 30, "seconds": 60.0, "dropped": row == better and seed == 5, "detours": 1}

    file, better = tmp_path / "out.json", list(ablations.ROWS)[1]
    monkeypatch.setattr(ablations, "in_processes", runs)
    assert ablations.main(["--runs", "10", "--seed", "0", "--only", "1", "--json", str(file)]) == 0, "faster, but it drops more"
    first, second = json.loads(file.read_text())["results"]["rows"]
    assert first["goals"] == 120 and first["goals_per_minute"] == 12.0 and second["drops"] == 1
    low, high = first["goals_per_minute_interval"]
    assert low == pytest.approx(9.95, abs=0.01) and high == pytest.approx(14.35, abs=0.01)  # 99.49 and 143.5 of a count of 120
    better = ""
    assert ablations.main(["--runs", "10", "--seed", "0", "--only", "1", "--json", str(file), "--picture", str(tmp_path / "a.png")]) == 1
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_a_run_that_is_kept_is_not_done_again(monkeypatch, tmp_path):
    kept = {"goals": 3, "seconds": 60.0, "dropped": False, "detours": 0}
    (tmp_path / "1-7-60-0.4.json").write_text(json.dumps(kept))
    monkeypatch.setattr(ablations, "run_one", lambda *args: pytest.fail("it runs"))
    assert ablations.tried(list(ablations.ROWS)[1], 7, 60.0, 0.4, str(tmp_path)) == kept


@pytest.mark.slow
def test_one_run_goes_through(tmp_path):
    file = tmp_path / "out.json"
    ablations.main(["--runs", "1", "--seconds", "0.5", "--only", "12", "--json", str(file)])
    rows = json.loads(file.read_text())["results"]["rows"]
    assert [row["runs"] for row in rows] == [1, 1] and rows[0]["minutes"] == pytest.approx(0.5 / 60, abs=0.02 / 60)
