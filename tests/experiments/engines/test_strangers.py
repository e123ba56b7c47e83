"""Scenes with closed-form truth: claims, verdicts, and runs that resume."""

import dataclasses

import pytest

from experiments.engines import strangers
from experiments.engines.strangers_scenes import CLAIMS, MOST, SCENES


def test_claims_cover_enough_scenes():
    assert len(SCENES) >= 60
    for engine, least in MOST.items():
        assert len(CLAIMS[engine]) >= least


def test_wrong_figures_count_and_kept_rows_are_not_run_again(tmp_path, monkeypatch, outcome):
    kept = tmp_path / "rows.jsonl"
    argv = ["--engines", "mujoco", "--scenes", "slide", "bullet", "elastic", "--keep", str(kept)]
    code, results = outcome(strangers.main, *argv)
    slide, bullet, elastic = results["rows"]
    assert code == 1 and slide["verdict"] == "right"
    assert slide["figure"] == pytest.approx(0.127, rel=0.03)
    assert (bullet["verdict"], bullet["claimed"]) == ("wrong, said", False)
    assert "ignores the restitution" in elastic["said"]
    (engine,) = results["engines"]
    assert (engine["claimed"], engine["right"], results["silent"]) == (1, 1, 0)
    monkeypatch.setitem(SCENES, "slide", dataclasses.replace(SCENES["slide"], truth=1.0))
    _, again = outcome(strangers.main, *argv)
    assert again["rows"] == results["rows"] and len(kept.read_text().splitlines()) == 3
    _, wrong = outcome(strangers.main, *argv[:4])
    assert wrong["rows"][0]["verdict"] == "wrong, silent" and wrong["silent"] == 1
