"""Hidden worlds: drawn within their ranges, the same for the same seed; errors and intervals are
counted, by plant."""

import json

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
    times = {"seconds": 50.0 if case.plant == "mujoco" else 60.0, "cpu_s": 40.0, "before": 2.0, "after": 0.1}
    row = {
        "seed": case.seed,
        "plant": case.plant,
        "by": recover.rollouts_of(case.through),
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
def test_errors_and_intervals_are_counted(error, code, monkeypatch, tmp_path):
    monkeypatch.setattr(
        recover,
        "in_processes",
        lambda function, jobs, *columns: (found(*row, error) for row in zip(*columns, strict=True)),
    )
    file = tmp_path / "out.json"
    argv = [
        "--cases",
        "10",
        "--plants",
        "mujoco",
        "lcp",
        "--through",
        "own",
        "mujoco",
        "--peers",
        "4",
        "--json",
        str(file),
    ]
    assert recover.main(argv) == 1, "ten cases show too little"
    monkeypatch.setattr(recover, "CASES", 10)
    assert recover.main(argv) == code
    results = json.loads(file.read_text())["results"]
    rows = {(r["plant"], r["by"], r["name"]): r for r in results["rows"]}
    assert len(rows) == 4 * len(recover.LIMITS) and results["cpu_ratio"] == 2.0
    fits = {(f["plant"], f["by"]): (f["fits"], f["longest_s"]) for f in results["fits"]}
    ours, theirs = "rollouts of mujoco", "rollouts of lcp"
    assert fits == {
        ("mujoco", ours): (10, 50.0),
        ("mujoco", PEER): (4, 99.0),
        ("lcp", theirs): (10, 60.0),
        ("lcp", ours): (10, 60.0),
    }
    mass, peers = rows["lcp", theirs, "mass"], rows["mujoco", PEER, "mass"]
    assert mass["within"] == (10 if code == 0 else 0) and mass["covered"] == 9 and mass["of"] == 10
    assert peers["covered"] == 0 and peers["of"] == 4, (
        "the peer takes part in four of MuJoCo's and in none of lcp's"
    )


def test_a_case_that_is_kept_is_not_done_again(monkeypatch, tmp_path):
    monkeypatch.setattr(recover, "recovered", lambda case: {"seed": case.seed})
    assert recover.kept(Case(3, "lcp", "lcp", False), str(tmp_path)) == {"seed": 3}
    monkeypatch.setattr(recover, "recovered", lambda case: pytest.fail("it runs"))
    assert recover.kept(Case(3, "lcp", "lcp", False), str(tmp_path)) == {"seed": 3}
    with pytest.raises(pytest.fail.Exception):
        recover.kept(Case(3, "lcp", "mujoco", False), str(tmp_path))
