"""A body of the zoo is turned, and what comes of it is counted."""

import numpy as np
import pytest

from experiments.objects import turning


@pytest.mark.slow
def test_a_body_is_turned_and_counted(tmp_path, monkeypatch, outcome):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, results = outcome(turning.main, "--only", "wedge", "--trials", "1", "--as-added")
    [row] = results["objects"]
    assert (row["trials"], results["trials"], row["refused"], row["tried"]) == (1, 1, None, 0)
    assert results["success_rate"] == row["succeeded"] and 0.0 <= row["error_rad"] <= 3.2
    assert results["passed"] == (
        row["succeeded"] == 1 and row["dropped"] == 0 and row["error_rad"] <= turning.ERROR
    ) and code == (not results["passed"])


def test_objects_that_cannot_be_turned_stay_in_the_table(monkeypatch, outcome):
    row = {"family": "part", "refused": "too large", "told_apart": True}
    monkeypatch.setattr(turning, "turn_object", lambda name, args, folder: {"name": name} | row)
    code, results = outcome(turning.main, "--only", "wedge", "gear")
    assert (
        code == 1
        and results["success_rate"] == 0.0
        and [row["refused"] for row in results["objects"]] == ["too large"] * 2
    )


def test_a_round_body_that_stands_upright_is_not_in_the_sums(monkeypatch, outcome):
    def turned(name, args, folder):
        row = {
            "name": name,
            "family": "part",
            "refused": None,
            "told_apart": name != "torus",
            "trials": 4,
            "dropped": 0,
            "error_rad": 0.05,
        }
        return row | {"succeeded": 4 if name == "gear" else 0}

    monkeypatch.setattr(turning, "turn_object", turned)
    code, results = outcome(turning.main, "--only", "torus", "gear")
    assert (
        code == 0
        and results["success_rate"] == 1.0
        and results["trials"] == 4
        and len(results["objects"]) == 2
    )


def test_kept_objects_are_not_repeated_and_unknown_objects_are_rejected(monkeypatch, tmp_path, capsys):
    turned = []
    row = {
        "family": "part",
        "refused": None,
        "told_apart": True,
        "trials": 4,
        "succeeded": 4,
        "dropped": 0,
        "error_rad": 0.05,
    }
    row["size_mm"] = np.ones(3)
    monkeypatch.setattr(
        turning, "turn_object", lambda name, args, folder: turned.append(name) or {"name": name} | row
    )
    asked = ["--trials", "4", "--keep", str(tmp_path / "kept")]
    assert (
        turning.main([*asked, "--only", "wedge"]) == 0
        and turning.main([*asked, "--only", "wedge", "gear"]) == 0
    )
    assert turned == ["wedge", "gear"]
    assert turning.main(["--trials", "5", "--keep", str(tmp_path / "kept")]) == 2
    with pytest.raises(SystemExit):
        turning.main(["--only", "wedg"])
    assert "invalid choice: 'wedg'" in capsys.readouterr().err
