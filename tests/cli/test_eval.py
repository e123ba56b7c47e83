"""``dexstack eval allegro``: arguments, repeatability, the JSON object, the exit code."""

import json
import re

import numpy as np
import pytest

from dexstack.cli.eval import allegro as command
from dexstack.cli.main import main
from dexstack.report.statistics import errors

SHORT = ["eval", "allegro", "--trials", "2", "--seconds", "0.5", "--seed", "3", "--period", "0.05", "--goal-yaw", "90", "-45"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("eval")


@pytest.fixture(scope="module")
def short(folder):
    """Exit code and JSON object of two trials too short to reach anything."""
    status = main([*SHORT, "--results", str(folder / "one"), "--json", str(folder / "one.json")])
    return status, json.loads((folder / "one.json").read_text())


@pytest.mark.slow
def test_the_json_object_is_the_contracts(short, folder):
    status, document = short
    assert status == 1 and document["command"] == "eval allegro" and document["seed"] == 3
    r = document["results"]
    assert r["success_rate"] == 0.0 and r["trials"] == 2 and r["reached"] == 0 and r["dropped"] == 0
    assert r["period_s"] == 0.05 and r["rate_hz"] == pytest.approx(20, rel=0.15)
    assert set(r["solve_s"]) == {"p50", "p99", "mean", "n"} and r["solve_s"]["n"] == 20 and r["solve_s"]["p50"] > 0
    assert [round(np.degrees(g["goal_yaw_rad"])) for g in r["goals"]] == [90, -45]
    assert [t["seed"] for t in r["each"]] == [3, 4]
    assert r["orientation_error_rad"] == pytest.approx(errors(t["orientation_error_rad"] for t in r["each"]))
    assert r["position_error_m"]["max"] < 0.08 and r["bad_solves"] == 0
    assert (folder / "one" / "trials.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_same_seeds_give_the_same_trials_whatever_the_number_of_processes(short, folder):
    assert main([*SHORT, "--jobs", "2", "--require", "0", "--results", str(folder / "two"), "--json", str(folder / "two.json")]) == 0
    again = json.loads((folder / "two.json").read_text())["results"]
    assert again["each"] == short[1]["results"]["each"]


@pytest.mark.slow
def test_the_table_says_what_was_asked_for(folder, capfd):
    """Without --json the table goes to stdout, progress to stderr."""
    argv = ["eval", "allegro", "--trials", "1", "--seconds", "0.2", "--latency", "measured", "--results", str(folder / "three")]
    assert main(argv) == 1
    out, err = capfd.readouterr()
    assert "+45°" in out and "paper" in out and "0 % succeeded, fewer than the 100 % asked for" in out
    assert "trial 1/1: +45° not reached, 0 stalls" in err


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--trials", "0"], "whole number above 0"),
        (["--trials", "many"], "whole number above 0"),
        (["--seed", "-1"], "0 or more"),
        (["--seconds", "nan"], "number above 0"),
        (["--goal-yaw", "270"], r"degrees in \[-180, 180\]"),
        (["--latency", "soon"], "'measured', or seconds"),
        (["--require", "2"], r"number in \[0, 1\]"),
        (["--plant", "ode"], "invalid choice"),
    ],
)
def test_unusable_arguments_are_refused_by_name(argv, complaint, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["eval", "allegro", *argv])
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert argv[0] in err
    assert re.search(complaint, err)


def test_parameters_out_of_range_are_refused_before_anything_is_built(capsys, monkeypatch):
    monkeypatch.setattr(command, "_outcomes", lambda *_: pytest.fail("trials were started"))
    assert main(["eval", "allegro", "--period", "5"]) == 2
    assert "'pose_period' must lie in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "complaint"), [(["--model", "nope"], "dual"), (["--object", "duck"], "cube"), (["--hand", "top"], "right")]
)
def test_unknown_names_are_answered_with_the_known_ones(argv, complaint, capsys, monkeypatch):
    monkeypatch.setattr(command, "_outcomes", lambda *_: pytest.fail("trials were started"))
    assert main(["eval", "allegro", "--trials", "1", *argv]) == 2
    err = capsys.readouterr().err
    assert argv[1] in err and complaint in err and "Traceback" not in err
