"""Streaks of the graph resume an interrupted run."""

import json

import pytest

from experiments.graph import streaks


def test_saved_runs_are_not_repeated(tmp_path, monkeypatch, outcome):
    made = []

    def once(args, seed):
        made.append(seed)
        row = {
            "seed": seed,
            "goals_reached": seed,
            "seconds": 60.0,
            "phase": "dropped",
            "rate_hz": 50.0,
            "real_time_factor": 1.0,
        }
        return row | {"trouble": []}

    monkeypatch.setattr(streaks, "streak", once)
    trials = tmp_path / "trials.json"
    trials.write_text(json.dumps({"results": {"consecutive": {"mean": 4.0}}}))
    files = {name: tmp_path / f"{name}.yaml" for name in ("world", "params")}
    for name, file in files.items():
        file.write_text(name)
    args = ["--trials", str(trials), "--keep", str(tmp_path / "kept"), "--seed", "3"]
    args += [x for name, file in files.items() for x in (f"--{name}", str(file))]
    for runs in (1, 2):
        code, results = outcome(streaks.main, *args, "--runs", runs)
        assert code == 0
    assert made == [3, 4] and results["consecutive"]["mean"] == pytest.approx(3.5)
    assert streaks.main([*args, "--runs", "2", "--real-time-factor", "0.5"]) == 2
    files["world"].write_text("another")
    assert streaks.main([*args, "--runs", "2"]) == 2
