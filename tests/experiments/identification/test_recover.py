"""Hidden worlds: drawn within their ranges, the same for the same seed; errors and intervals are
counted."""

import pytest

from dexstack.tasks.base import OFFSETS
from dexstack.tasks.worlds import RANGES
from experiments.identification import recover
from experiments.identification.recover import PEER, Case


def test_worlds_are_drawn_within_their_ranges():
    for seed in range(50):
        world, delay = recover.hidden(seed)
        assert world.size == 1.0 and recover.DELAYS[0] <= delay <= recover.DELAYS[1]
        for name in recover.FIELDS:
            assert RANGES[name][0] <= getattr(world, name) <= RANGES[name][1]
        assert all(0.0 < abs(getattr(world, name)) <= recover.OFFSET for name in OFFSETS)
    assert recover.hidden(7) == recover.hidden(7) != recover.hidden(8)


def found(case: Case, folder: str, error: float) -> dict:
    rows = [
        {"name": n, "error": 0.01 * error if limit < 0.01 else error, "covered": case.seed > 100}
        for n, limit in recover.LIMITS.items()
    ]
    times = {"seconds": 50.0, "cpu_s": 40.0, "before": 2.0, "after": 0.1}
    row = {
        "seed": case.seed,
        **times,
        "unknowns": rows,
    }
    if case.peer:
        row[PEER] = {
            "seconds": 99.0,
            "cpu_s": 80.0,
            "unknowns": [{**r, "error": 2.0, "covered": False} for r in rows],
        }
    return row


@pytest.mark.parametrize(("error", "code"), [(0.01, 0), (0.2, 1)])
def test_errors_and_intervals_are_counted(error, code, monkeypatch, outcome):
    monkeypatch.setattr(
        recover,
        "in_processes",
        lambda function, jobs, *columns: (found(*row, error) for row in zip(*columns, strict=True)),
    )
    argv = ["--cases", "10", "--peers", "4"]
    assert recover.main(argv) == 1, "ten cases show too little"
    monkeypatch.setattr(recover, "CASES", 10)
    found_code, results = outcome(recover.main, *argv)
    assert found_code == code
    rows = {(r["by"], r["name"]): r for r in results["rows"]}
    assert len(rows) == 2 * len(recover.LIMITS) and results["cpu_ratio"] == 2.0
    fits = {f["by"]: (f["fits"], f["longest_s"]) for f in results["fits"]}
    assert fits == {recover.OURS: (10, 50.0), PEER: (4, 99.0)}
    mass, peers = rows[recover.OURS, "mass"], rows[PEER, "mass"]
    assert mass["within"] == (10 if code == 0 else 0) and mass["covered"] == 9 and mass["of"] == 10
    assert peers["covered"] == 0 and peers["of"] == 4
