"""Experiments on single contact surfaces, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dexengines.hydroelastic.surface import Workspace
from dexstack.errors import ConfigError
from experiments.hydroelastic import convergence, sinusoid, surfaces

REFERENCE = str(Path(__file__).parent / "drake.json")


def test_reference_without_drake_checks_the_answers_and_reports_what_it_skipped(
    capsys, monkeypatch, outcome
) -> None:
    monkeypatch.setattr("experiments.hydroelastic.surfaces.drake_version", lambda: None)
    code, results = outcome(surfaces.main, "--reference", REFERENCE, "--rounds", 1)
    assert code == 0 and "skipped" in capsys.readouterr().out
    assert results["checks"]["force"] == {**results["checks"]["force"], "checked": 5, "failed": 0}
    assert (results["checked"], results["failed"]) == (
        sum(c["checked"] for c in results["checks"].values()),
        0,
    )
    assert results["worst"] == max(c["worst"] for c in results["checks"].values()) < 1e-9
    assert results["ratio"] is None and results["passed"]


def test_closed_forms_are_met() -> None:
    assert convergence.main([]) == 0


@pytest.mark.slow
def test_sinusoids_meet_their_closed_form_and_the_papers_figure_is_not_reproduced(
    tmp_path, capsys, outcome
) -> None:
    picture = tmp_path / "picture.png"
    code, results = outcome(sinusoid.main, "--picture", picture)
    assert code == 0 and picture.stat().st_size > 1000 and results["flat_error"] < 1e-9
    assert (
        results["under_at_depth"] < 0.0 < results["published_under_at_depth"]
        and not results["figure_reproduced"]
    )
    assert "not reproduced" in capsys.readouterr().out


def test_bad_input_is_one_sentence(capsys) -> None:
    assert surfaces.main(["--reference", "none.json"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_wrong_answer_fails_the_check(tmp_path) -> None:
    data = json.loads(Path(REFERENCE).read_text())
    data["cases"] = data["cases"][1:]
    data["cases"][0]["poses"][1]["polygon"]["force_on_A_W"][2] *= 1 + 1e-8
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps(data))
    checks = surfaces.check_answers(surfaces.read_reference(file), Workspace())
    assert checks["force"].failed == 1 and checks["torque"].failed == 0
    file.write_text("{}")
    with pytest.raises(ConfigError, match="cases"):
        surfaces.read_reference(file)
    with pytest.raises(ConfigError, match="there is no"):
        surfaces.read_reference(tmp_path / "none.json")
