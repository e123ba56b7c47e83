"""``dexstack bench faults``: a few rows of the matrix, the page made from the results, and the
fuzzing."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys

import pytest

from dexstack.bench.faults import Outcome, all_faults
from dexstack.cli.bench.faults import page
from dexstack.cli.main import main
from dexstack.hand.fuzz import fuzz_hand
from dexstack.model.hand import load_hand


def test_the_matrix_has_at_least_40_faults_each_with_a_time():
    assert len(all_faults()) >= 40


@pytest.mark.parametrize(
    ("ended", "seconds", "kept", "off", "passed"),
    [
        ("fault", 0.05, True, True, True),
        ("hold", 0.05, True, True, True),
        ("enabled", 0.05, True, True, False),
        ("fault", 0.2, True, True, False),
        ("fault", float("nan"), True, True, False),
        ("fault", 0.05, False, True, False),
        ("ready", 0.05, True, False, False),
    ],
)
def test_what_passes(ended, seconds, kept, off, passed):
    assert Outcome("x", ended, seconds, 0.1, kept, off).passed == passed


def test_some_faults_and_their_page(tmp_path):
    command = [
        sys.executable,
        "-m",
        "dexstack.cli.main",
        "bench",
        "faults",
        "--only",
        "leaps by 0.5",
        "--json",
        "-",
    ]
    done = subprocess.run([*command, "--page", str(tmp_path / "page.md")], capture_output=True, text=True)
    results = json.loads(done.stdout)["results"]
    assert done.returncode == 0 and (results["checked"], results["failed"]) == (1, 0), done.stderr
    (row,) = results["faults"]
    assert (
        {"fault", "ended_in", "seconds", "limit_s"} <= set(row)
        and row["ended_in"] == "fault"
        and results["worst_s"] == row["seconds"]
    )
    assert (tmp_path / "page.md").read_text() == page(
        results
    ) and "| an encoder leaps by 0.5 rad | FAULT |" in page(results)


@pytest.mark.slow
def test_faults_of_a_graph():
    pytest.importorskip("rclpy")
    faults = ["mpc hangs", "the same pixels come", "contacts is lost"]
    command = [sys.executable, "-m", "dexstack.cli.main", "bench", "faults", "--only", *faults, "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True)
    results = json.loads(done.stdout)["results"]
    assert len(results["faults"]) == len(faults)
    if not results["moves_without_fault"]:
        assert done.returncode == 1 and {row["ended_in"] for row in results["faults"]} == {"not judged"}
        pytest.skip(
            "this machine is too slow for a graph with simulated pictures: without a fault the hand stands still, too"
        )
    for row in results["faults"]:
        assert row["ended_in"] == "hold" and row["torque_kept"], (row, done.stderr)


def test_a_graph_that_stands_still_without_a_fault_judges_none(monkeypatch, capsys):
    graph_faults = pytest.importorskip(
        "dexstack.cli.bench.graph_faults", reason="needs ROS 2", exc_type=ImportError
    )
    monkeypatch.setattr(graph_faults, "graph", contextlib.nullcontext)  # whoever asks it for anything fails
    monkeypatch.setattr(graph_faults, "moves_on", lambda g: False)
    assert main(["bench", "faults", "--only", "mpc hangs", "contacts is lost", "--json", "-"]) == 1
    results = json.loads(capsys.readouterr().out)["results"]
    assert (results["checked"], results["failed"]) == (2, 2)
    assert {row["ended_in"] for row in results["faults"]} == {"not judged"}


def test_a_text_in_no_name_is_refused(capsys):
    assert main(["bench", "faults", "--only", "leaps", "gremlins"]) == 2
    assert "no fault has 'gremlins' in its name" in capsys.readouterr().err


def test_a_failure_stays_in_the_page():
    row = {
        "fault": "x",
        "ended_in": "enabled",
        "seconds": float("nan"),
        "limit_s": 0.1,
        "torque_kept": False,
        "stayed_off": False,
    }
    text = page({"checked": 1, "failed": 1, "worst_s": 0.0, "faults": [row]})
    assert "| x | ENABLED | **never** | 100 | **no** | **yes** |" in text


def test_fuzzed_frames_commands_and_faults():
    """The full number: ``dexstack bench faults --fuzz 1000000``."""
    result = fuzz_hand(load_hand("right"), 2000, seed=3)
    assert result.checked >= 2000 and (result.over_limit, result.without_consent) == (0, 0)
    assert result.trips > 3 and result.enabled > 20 and result.faults > 10, "there was something to find"
