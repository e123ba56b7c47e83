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
    def case(seed, folder):
        rows = [{"name": n, "error": 0.01 * error if n == "delay" else error, "covered": seed > 100} for n in recover.LIMITS]
        times = {"seconds": 50.0, "cpu_s": 40.0}
        other = {"seconds": 99.0, "cpu_s": 80.0, "unknowns": [{**row, "error": 2.0, "covered": False} for row in rows]}
        return {"seed": seed, "succeeded": 4, **times, "before": 2.0, "after": 0.1, "unknowns": rows, "sysid": other}

    monkeypatch.setattr(recover, "in_processes", lambda function, jobs, *columns: map(case, *columns))
    file = tmp_path / "out.json"
    assert recover.main(["--cases", "10", "--json", str(file)]) == 1, "ten cases show too little"
    monkeypatch.setattr(recover, "CASES", 10)
    assert recover.main(["--cases", "10", "--json", str(file)]) == code
    results = json.loads(file.read_text())["results"]
    mass = results["unknowns"][0]
    assert results["cpu_ratio"] == 2.0 and results["sysid"]["unknowns"][0]["covered"] == 0 and results["sysid"]["longest_s"] == 99.0
    assert mass["within"] == (10 if code == 0 else 0) and mass["covered"] == 9 and mass["of"] == 10


def test_a_case_that_is_kept_is_not_done_again(monkeypatch, tmp_path):
    monkeypatch.setattr(recover, "recovered", lambda seed: {"seed": seed})
    assert recover.kept(3, str(tmp_path)) == {"seed": 3}
    monkeypatch.setattr(recover, "recovered", lambda seed: pytest.fail("it runs"))
    assert recover.kept(3, str(tmp_path)) == {"seed": 3}
