"""The fault matrix and the fuzzing, a few rows and frames of each."""

from __future__ import annotations

import contextlib
import json

import pytest

from dexstack.model.hand import load_hand
from tests.acceptance import faults
from tests.acceptance.fuzz import fuzz_commands, fuzz_hand
from tests.acceptance.hand_faults import hand_rows
from tests.acceptance.hand_rig import Outcome


def run(path, *argv) -> tuple[int, dict]:
    """Run the matrix; return the exit code and the results."""
    code = faults.main([*argv, "--json", str(path / "out.json")])
    return code, json.loads((path / "out.json").read_text())["results"]


def test_the_matrix_has_at_least_40_faults_without_a_graph():
    assert len(hand_rows()) >= 40


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
def test_an_outcome_passes_only_in_a_safe_state_in_time(ended, seconds, kept, off, passed):
    assert Outcome("x", ended, seconds, 0.1, kept, off).passed == passed


def test_one_fault_and_its_page(tmp_path):
    page = tmp_path / "page.md"
    code, results = run(tmp_path, "--only", "leaps by 0.5", "--page", str(page))
    assert code == 0 and (results["checked"], results["failed"]) == (1, 0)
    (row,) = results["faults"]
    assert {"fault", "ended_in", "seconds", "limit_s"} <= set(row)
    assert row["ended_in"] == "fault" and results["worst_s"] == row["seconds"]
    assert "| an encoder leaps by 0.5 rad | FAULT |" in page.read_text()


@pytest.mark.slow
def test_faults_of_a_graph(tmp_path):
    pytest.importorskip("rclpy")
    chosen = {"mpc hangs": "hold", "hand is killed": "ready", "the same pixels come": "hold"}
    code, results = run(tmp_path, "--only", *chosen)
    assert len(results["faults"]) == len(chosen)
    if not results["moves_without_fault"]:
        assert code == 1 and {row["ended_in"] for row in results["faults"]} == {"not judged"}
        pytest.skip("this machine is too slow: without a fault the hand stands still, too")
    for row in results["faults"]:
        wanted = next(end for text, end in chosen.items() if text in row["fault"])
        assert row["ended_in"] == wanted and row["torque_kept"] and row["stayed_off"], row


def test_a_graph_that_stands_still_without_a_fault_is_not_judged(monkeypatch, tmp_path):
    graph_faults = pytest.importorskip(
        "tests.acceptance.graph_faults", reason="needs ROS 2", exc_type=ImportError
    )
    monkeypatch.setattr(graph_faults, "graph", contextlib.nullcontext)  # any use of the graph fails
    monkeypatch.setattr(graph_faults, "moves_on", lambda g: False)
    code, results = run(tmp_path, "--only", "mpc hangs", "contacts is lost")
    assert code == 1 and (results["checked"], results["failed"]) == (2, 2)
    assert {row["ended_in"] for row in results["faults"]} == {"not judged"}


def test_a_text_in_no_name_is_refused(capsys):
    assert faults.main(["--only", "leaps", "gremlins"]) == 2
    assert "no fault has 'gremlins' in its name" in capsys.readouterr().err


def test_a_failure_is_marked_in_the_page():
    row = {
        "fault": "x",
        "ended_in": "enabled",
        "seconds": float("nan"),
        "limit_s": 0.1,
        "torque_kept": False,
        "stayed_off": False,
    }
    text = faults.page({"checked": 1, "failed": 1, "worst_s": 0.0, "faults": [row]})
    assert "| x | ENABLED | **never** | 100 | **no** | **yes** |" in text


def test_fuzzed_commands_never_exceed_a_limit():
    result = fuzz_commands(load_hand("right"), 4_000, seed=1)
    assert result.checked == 4_000 and result.failed == 0 and 0.9 < result.worst <= 1.0
    assert result.refused > 1_000 and result.taken > 500, "the fuzzing reached both sides of the limits"


def test_fuzzed_frames_and_faults_never_exceed_a_limit_or_enable_the_hand():
    result = fuzz_hand(load_hand("right"), 2000, seed=3)
    assert result.checked >= 2000 and (result.over_limit, result.without_consent) == (0, 0)
    assert result.trips > 3 and result.enabled > 20 and result.faults > 10, "the fuzzing found faults"
