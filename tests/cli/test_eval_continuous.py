"""``dexstack eval continuous``: the JSON object, the picture, the exit code."""

import json

import pytest

from dexstack.cli.main import main


@pytest.mark.slow
def test_a_run_too_short_for_three_goals_fails_and_says_how_far_it_came(tmp_path):
    argv = ["eval", "continuous", "--seconds", "3", "--results", str(tmp_path), "--json", str(tmp_path / "out.json")]
    assert main(argv) == 1
    r = json.loads((tmp_path / "out.json").read_text())["results"]
    assert 1 <= r["reached"] == len(r["reached_at_s"]) < 3 and r["dropped"] == 0 and not r["passed"]
    assert 1.2 < r["turned_rad"] and r["position_error_m"]["max"] < 0.05
    assert (tmp_path / "continuous.png").read_bytes().startswith(b"\x89PNG")


def test_bad_arguments_are_refused(capsys):
    assert main(["eval", "continuous", "--object", "nothing"]) == 2
    assert "unknown object 'nothing'" in capsys.readouterr().err
