"""``dexstack bench hydroelastic`` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dexstack.cli.main import main

REFERENCE = str(Path(__file__).parent / "drake.json")


def test_reference_without_drake_checks_the_answers_and_says_what_it_skipped(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("experiments.hydroelastic.surfaces.drake_version", lambda: None)
    file = tmp_path / "out.json"
    assert main(["bench", "hydroelastic", "--reference", REFERENCE, "--rounds", "1", "--json", str(file)]) == 0
    assert "skipped" in capsys.readouterr().out
    results = json.loads(file.read_text())["results"]
    assert results["checks"]["force"] == {**results["checks"]["force"], "checked": 5, "failed": 0}
    assert results["ratio"] is None and results["passed"]


def test_closed_forms_are_met_and_drawn(tmp_path) -> None:
    picture = tmp_path / "picture.png"
    assert main(["bench", "hydroelastic", "--convergence", "--picture", str(picture)]) == 0
    assert picture.stat().st_size > 1000


@pytest.mark.slow
def test_sinusoids_are_compared_with_the_paper_where_the_paper_does(tmp_path, capsys) -> None:
    picture, file = tmp_path / "picture.png", tmp_path / "out.json"
    assert main(["bench", "hydroelastic", "--sinusoid", "--picture", str(picture), "--json", str(file)]) == 0
    results = json.loads(file.read_text())["results"]
    assert picture.stat().st_size > 1000 and results["flat_error"] < 1e-9
    assert abs(results["under_at_depth"]) < 0.23 and 0.0 < results["within_from_depth"] <= 0.2
    assert "over our finite elements" in capsys.readouterr().out


def test_random_poses_are_checked_and_paths_drawn(tmp_path) -> None:
    picture, file = tmp_path / "paths.png", tmp_path / "out.json"
    assert main(["bench", "hydroelastic", "--fuzz", "30", "--picture", str(picture), "--json", str(file)]) == 0
    assert picture.stat().st_size > 10000
    assert json.loads(file.read_text())["results"]["checks"]["continuous"]["checked"] == 30


@pytest.mark.parametrize("arguments", [["--reference", "none.json"], ["--fuzz", "0"]])
def test_bad_input_is_one_sentence(arguments, capsys) -> None:
    assert main(["bench", "hydroelastic", *arguments]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
