"""Hidden plants: rates are pooled and judged, what is kept is not done again, and one small plant
goes through."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from dexstack.tasks.base import World
from experiments.identification import hidden, recover


def plant(seed, trials, planner="gauss_newton", folder="", *, missed=0):
    return {
        "seed": seed,
        "trials": trials,
        "succeeded": {hidden.BELIEVED: 1, hidden.IDENTIFIED: trials, hidden.LEARNED: trials - missed},
    }


@pytest.mark.parametrize(("missed", "code"), [(0, 0), (1, 1)])
def test_the_check_requires_both_success_rates_after_identification(missed, code, monkeypatch, outcome):
    monkeypatch.setattr(
        hidden,
        "in_processes",
        lambda f, jobs, *columns: (plant(*row, missed=missed) for row in zip(*columns, strict=True)),
    )
    argv = "--plants", "2", "--trials", "10"
    assert hidden.main(argv) == 1, "two plants show nothing"
    monkeypatch.setattr(hidden, "PLANTS", 2)
    found, results = outcome(hidden.main, *argv)
    rates = results["rates"]
    assert (
        found == code and rates[hidden.BELIEVED]["succeeded"] == 2 and rates[hidden.IDENTIFIED]["rate"] == 1.0
    )
    low, high = rates[hidden.LEARNED]["interval"]
    assert low < rates[hidden.LEARNED]["rate"] == 1.0 - missed / 10 <= high


def test_a_plant_is_identified_once_for_all_planners(monkeypatch, tmp_path):
    recording, calls = {"t": np.arange(3.0), "q": np.ones((3, 2))}, []
    fit = SimpleNamespace(
        told_world=lambda: World(mass=2.0), delay=0.03, unknowns=[], told=[], before=9.0, after=1.0
    )
    monkeypatch.setattr(recover, "recorded", lambda *_: (recording, 4))
    monkeypatch.setattr(hidden, "identify", lambda *args, **_: calls.append(args) or fit)
    first, again = (hidden.fitted(7, str(tmp_path)) for _ in range(2))
    assert len(calls) == 1 and first[1] == again[1] and again[1]["found"]["mass"] == 2.0
    assert set(again[0]) == {"t", "q"} and all(
        (again[0][name] == recording[name]).all() for name in recording
    )


@pytest.mark.slow
def test_one_plant_runs_from_recording_to_trials(monkeypatch, tmp_path):
    """The planners share its recording and fit."""
    monkeypatch.setattr(recover, "TRIALS", 2)
    monkeypatch.setattr(recover, "SECONDS", 3.0)
    monkeypatch.setattr("dexstack.tasks.palm_turn.PalmTurn.seconds", lambda task: 0.2)
    for planner in ("gauss_newton", "sampling"):
        result = hidden.improved(300, 1, planner, str(tmp_path))
        kept = json.loads((tmp_path / f"plant-{planner}-300-1.json").read_text())
        assert set(result["succeeded"]) == set(hidden.COLUMNS) and kept == result
