"""Everyday things: the sums leave out what was told beforehand, and an interrupted run continues."""

import pytest

from experiments.objects import everyday, searches

GOOD = {"refused": None, "told": None, "trials": 2, "succeeded": 2, "dropped": 0}
ROWS = {
    "can": GOOD,
    "plate": {"refused": None, "told": "out of reach"},
    "bread": GOOD | {"succeeded": 1},
    "lemon": {"refused": "not closed", "told": None},
}


@pytest.fixture
def turned(monkeypatch):
    asked = []
    monkeypatch.setattr(
        everyday, "turn_thing", lambda name, args: asked.append(name) or {"name": name} | ROWS[name]
    )
    return asked


def test_thirty_things_of_different_meshes():
    assert len(everyday.THINGS) == 30 == len({thing[:3] for thing in everyday.THINGS.values()})


@pytest.mark.parametrize(
    ("names", "passed", "rate"),
    [(("can", "plate"), True, 1.0), (("can", "bread"), False, 0.75), (("can", "lemon"), False, 1.0)],
)
def test_every_thing_counts_that_was_not_told_beforehand(names, passed, rate, turned, tmp_path, outcome):
    code, results = outcome(everyday.main, "--data", str(tmp_path), "--trials", "2", "--only", *names)
    assert (code == 0) is passed and results["success_rate"] == rate
    assert results["told"] == sum(ROWS[name]["told"] is not None for name in names)


def test_a_run_that_is_over_time_continues(turned, tmp_path, outcome):
    argv = ["--data", str(tmp_path), "--trials", "2", "--only", "can", "bread"]
    code, results = outcome(everyday.main, *argv, "--minutes", "1e-9")
    assert code == 1 and (results["tried"], results["of"], turned) == (0, 2, [])
    outcome(everyday.main, *argv)
    _, results = outcome(everyday.main, *argv)
    assert results["tried"] == 2 and sorted(turned) == ["bread", "can"]


def test_a_search_of_more_parts_has_fewer_samples():
    samples = [searches.samples_in_time(parts) for parts in range(1, 40)]
    assert samples[0] == 32 and samples[15] == 10 and samples[-1] == 8
    assert samples == sorted(samples, reverse=True)
