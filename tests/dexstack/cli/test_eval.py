"""``dexstack eval``: arguments, repeatability, JSON object, worlds, recordings, exit code."""

import json
import os
import signal
import subprocess
import sys

import pytest
from PIL import Image

from dexstack.cli.main import main
from dexstack.report.statistics import errors, wilson

QUICK = ["--set", "horizon=2", "--set", "iterations=1", "--seconds", "0.2"]
SHORT = ["eval", "palm_turn", "--trials", "2", "--seed", "3", "--goal-yaw", "90", "-45", *QUICK]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("eval")


@pytest.fixture(scope="module")
def here():
    """Run trials in this process, so that the controller is compiled once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "dexstack.trials.sweep.in_processes", lambda function, jobs, *columns: map(function, *columns)
        )
        yield


@pytest.fixture(scope="module")
def short(folder, here):
    """Exit code and JSON object of two recorded trials, too short to reach a goal."""
    recorded = ["--record", str(folder / "kept"), "--results", str(folder / "one")]
    status = main([*SHORT, *recorded, "--json", str(folder / "one.json")])
    return status, json.loads((folder / "one.json").read_text())


def test_the_json_object_keeps_its_contract(short, folder):
    status, document = short
    assert status == 1 and document["command"] == "eval palm_turn" and document["seed"] == 3
    r = document["results"]
    contract = {"success_rate", "success_interval", "orientation_error_rad", "position_error_m"}
    contract |= {"dropped", "stalls", "solve_s"}
    assert contract <= set(r)
    assert (r["task"], r["object"], r["plant"], r["supervisor"]) == ("palm_turn", "cube", "mujoco", "gait")
    assert r["trials"] == 2 and r["success_rate"] == 0.0
    assert r["success_interval"] == pytest.approx(wilson(0, 2))
    assert r["solve_s"]["n"] == 20 and r["solve_s"]["p99"] >= r["solve_s"]["p50"] > 0 and r["bad_solves"] == 0
    assert [(each["seed"], each["goal"]) for each in r["each"]] == [(3, "+90°"), (4, "-45°")]
    error = errors(each["orientation_error_rad"] for each in r["each"])
    assert r["orientation_error_rad"] == pytest.approx(error)
    assert set(r["kinds"]) == {"+90°", "-45°"} and r["published"][0]["orientation_rad"] == [0.08, 0.06]
    assert (folder / "one" / "trials.png").read_bytes().startswith(b"\x89PNG")


def test_saved_trials_are_not_run_again(short, folder, monkeypatch, capsys, outcome):
    """Two trials, then the same with a third, then another seed in the same folder."""
    from dexstack.trials import sweep

    kept, ran, loop_of = folder / "results kept", [], sweep.loop_of
    monkeypatch.setattr(sweep, "loop_of", lambda spec: (ran.append(spec), loop_of(spec))[1])
    asked = [*SHORT, "--keep", str(kept), "--results", str(folder / "goes on")]
    documents = [outcome(main, *asked, *more)[1] for more in ([], [], ["--trials", "3"])]
    assert len(ran) == 3 and [d["trials"] for d in documents] == [2, 2, 3]
    assert documents[0]["each"] == documents[1]["each"] == documents[2]["each"][:2]
    assert [e["orientation_error_rad"] for e in documents[0]["each"]] == [
        e["orientation_error_rad"] for e in short[1]["results"]["each"]
    ]
    assert documents[1]["solve_s"] == documents[0]["solve_s"]
    assert main([*asked, "--set", "u_max=0.1"]) == 2
    assert "holds trials of other numbers, parameters or code" in capsys.readouterr().err
    main([*asked, "--record", str(folder / "recorded afterwards")])
    assert len(ran) == 3 and len(list((folder / "recorded afterwards").glob("*/recording.npz"))) == 2
    whole = (kept / "trial-000.npz").read_bytes()
    for broken in (b"no archive", b"", whole[: len(whole) // 2]):
        (kept / "trial-000.npz").write_bytes(broken)
        assert main([*asked]) == 2 and "trial-000.npz" in capsys.readouterr().err


def test_films_show_the_best_trial_and_the_worst_of_every_outcome(folder, here, outcome):
    argv = ["eval", "palm_turn", "--trials", "3", "--goal-yaw", "0", "90", "180", *QUICK]
    argv += ["--films", "--require", "0"]
    code, results = outcome(main, *argv, "--results", folder / "films")
    assert code == 0 and set(results["films"]) == {"best", "worst-late"}
    for name, path in results["films"].items():
        assert path == str(folder / "films" / f"{name}.gif")
        with Image.open(path) as film:
            assert film.n_frames >= 2


@pytest.mark.slow
def test_each_world_has_a_cell_and_the_worst_one_counts(folder, here, outcome):
    worlds = ["mass=0.5,2", "friction=0.5+size=1.05", "latency=0.03"]
    argv = ["eval", "palm_turn", "--trials", "1", *QUICK, "--vary", *worlds, "--require", "0"]
    code, r = outcome(main, *argv, "--results", folder / "worlds")
    cells = ["as believed", "mass 0.5", "mass 2", "friction 0.5, size 1.05", "latency 0.03"]
    assert code == 0 and [c["cell"] for c in r["cells"]] == cells and [e["cell"] for e in r["each"]] == cells
    assert r["success_rate"] == min(c["success_rate"] for c in r["cells"])
    assert len({e["orientation_error_rad"] for e in r["each"]}) == len(cells)
    assert (folder / "worlds" / "worlds.png").read_bytes().startswith(b"\x89PNG")


def test_planner_and_supervisor_can_be_chosen(folder, here, outcome):
    argv = ["eval", "three_ball", "--trials", "1", *QUICK, "--planner", "sampling", "--supervisor", "none"]
    argv += ["--set", "sampling_plans=8", "--require", "0", "--results", str(folder / "s")]
    code, r = outcome(main, *argv)
    assert (code, r["planner"], r["supervisor"], r["task"]) == (0, "sampling", "none", "three_ball")
    assert r["bad_solves"] == 0


def test_a_stopped_evaluation_keeps_the_trials_it_has(short, folder, monkeypatch, capsys, outcome):
    def stopped(function, jobs, *columns):
        yield next(map(function, *columns))
        os.kill(os.getpid(), signal.SIGTERM)
        yield pytest.fail("it continues after SIGTERM")

    monkeypatch.setattr("dexstack.trials.sweep.in_processes", stopped)
    before = signal.getsignal(signal.SIGTERM)
    code, r = outcome(main, *SHORT, "--results", folder / "stopped")
    assert code == 130 and r["stopped"] and r["each"] == short[1]["results"]["each"][:1]
    assert "stopped after 1 of 2 trials" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.slow
def test_the_same_command_continues_after_sigterm(tmp_path):
    """It is stopped while its second trial runs, which then is the only one that is run."""
    kept, results = tmp_path / "kept", tmp_path / "results.json"
    argv = [sys.executable, "-m", "dexstack.cli.main", *SHORT, "--seconds", "4", "--keep", str(kept)]
    argv += ["--results", str(tmp_path / "plots"), "--require", "0", "--json", str(results)]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as command:
        for line in command.stderr:
            if line.startswith("trial 1/2"):
                command.terminate()
        assert command.wait() == 130
    first = json.loads(results.read_text())["results"]
    assert first["stopped"] and first["trials"] == 1
    assert [file.name for file in kept.glob("*.npz")] == ["trial-000.npz"]
    before = (kept / "trial-000.npz").stat().st_mtime_ns
    assert subprocess.run(argv, capture_output=True).returncode == 0
    second = json.loads(results.read_text())["results"]
    assert second["trials"] == 2 and not second["stopped"] and second["each"][:1] == first["each"]
    assert (kept / "trial-000.npz").stat().st_mtime_ns == before


def test_the_table_goes_to_stdout_and_progress_to_stderr(folder, here, capfd):
    argv = ["eval", "palm_turn", "--trials", "1", *QUICK]
    argv += ["--latency", "measured", "--results", str(folder / "three")]
    assert main(argv) == 1
    out, err = capfd.readouterr()
    assert "+45°" in out and "paper" in out and "0 % succeeded, fewer than the required 100 %" in out
    assert "trial 1/1: +45° not reached, 0 stalls" in err
