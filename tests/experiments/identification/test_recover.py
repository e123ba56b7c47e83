"""Hidden worlds: drawn within their ranges, the same for the same seed; errors and intervals are counted."""

import json

import pytest

from dexstack.trials.worlds import RANGES
from experiments.identification import recover


def test_worlds_are_drawn_within_their_ranges():
    for seed in range(50):
        world, delay = recover.hidden(seed)
        assert world.size == 1.0 and recover.DELAYS[0] <= delay <= recover.DELAYS[1]
        for name in recover.FIELDS:
            assert RANGES[name][0] <= getattr(world, name) <= RANGES[name][1]
    assert recover.hidden(7) == recover.hidden(7) != recover.hidden(8)


@pytest.mark.parametrize(("error", "code"), [(0.01, 0), (0.2, 1)])
def test_errors_and_intervals_are_counted(error, code, monkeypatch, tmp_path):
    def case(seed):
        rows = [{"name": n, "error": 0.01 * error if n == "delay" else error, "covered": seed > 100} for n in recover.LIMITS]
        return {"seed": seed, "succeeded": 4, "seconds": 50.0, "before": 2.0, "after": 0.1, "unknowns": rows}

    monkeypatch.setattr(recover, "in_processes", lambda function, jobs, seeds: map(case, seeds))
    file = tmp_path / "out.json"
    assert recover.main(["--cases", "10", "--json", str(file)]) == code
    results = json.loads(file.read_text())["results"]
    mass = results["unknowns"][0]
    assert mass["within"] == (10 if code == 0 else 0) and mass["covered"] == 9 and mass["of"] == 10
