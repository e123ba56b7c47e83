"""A small part of each rig: fault matrix, fuzzing, week and pose estimator, and how they judge."""

from __future__ import annotations

import contextlib
import json
import os

import numpy as np
import pytest

from dexstack.model.hand import load_hand
from tests.acceptance import faults, pose_estimator, week
from tests.acceptance.film import Film
from tests.acceptance.fuzz import fuzz_commands, fuzz_hand, fuzz_publishers
from tests.acceptance.hand_faults import hand_rows
from tests.acceptance.hand_rig import FaultResult
from tests.acceptance.pose_estimator import WARM_UP, judge_node


def matrix(path, *argv) -> tuple[int, dict]:
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
        ("fault", -0.1, True, True, False),
        ("fault", float("nan"), True, True, False),
        ("fault", 0.05, False, True, False),
        ("ready", 0.05, True, False, False),
    ],
)
def test_an_outcome_passes_only_in_a_safe_state_in_time(ended, seconds, kept, off, passed):
    assert FaultResult("x", ended, seconds, 0.1, kept, off).passed == passed


def test_one_fault_and_its_page(tmp_path):
    page = tmp_path / "page.md"
    code, results = matrix(tmp_path, "--only", "leaps by 0.5", "--page", str(page))
    assert code == 0 and (results["checked"], results["failed"]) == (2, 0)
    row, leap = results["faults"]
    assert {"fault", "ended_in", "seconds", "limit_s"} <= set(row)
    assert row["ended_in"] == leap["ended_in"] == "fault", "of an Allegro and of a LEAP hand"
    assert results["worst_s"] == max(row["seconds"], leap["seconds"])
    assert "| an encoder leaps by 0.5 rad | FAULT |" in page.read_text()


@pytest.mark.slow
@pytest.mark.skipif((os.cpu_count() or 1) < 4, reason="a graph in real time beside other tests: four cores")
def test_faults_of_a_graph(tmp_path):
    pytest.importorskip("rclpy")
    chosen = {"mpc hangs": "hold", "hand is killed": "ready"}
    code, results = matrix(tmp_path, "--perception", "truth", "--only", *chosen)
    assert len(results["faults"]) == len(chosen)
    if not results["moves_without_fault"]:
        assert code == 1 and not results["passed"]
        pytest.skip("this machine is too slow: the hand stands still before a fault")
    for row in results["faults"]:
        wanted = next(end for text, end in chosen.items() if text in row["fault"])
        assert row["ended_in"] == wanted and row["torque_kept"] and row["stayed_off"], row


def test_a_graph_that_stands_still_without_a_fault_is_not_judged(monkeypatch, tmp_path):
    graph_faults = pytest.importorskip(
        "tests.acceptance.graph_faults", reason="needs ROS 2", exc_type=ImportError
    )
    monkeypatch.setattr(graph_faults, "graph", contextlib.nullcontext)  # any use of the graph fails
    monkeypatch.setattr(graph_faults, "moves_on", lambda g: False)
    code, results = matrix(tmp_path, "--only", "mpc hangs", "contacts is lost")
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


def test_of_three_publishers_only_the_owner_s_commands_are_taken():
    result = fuzz_publishers(load_hand("right"), 12_000, seed=2)
    assert 12_000 <= result.checked == result.taken + result.refused
    assert (result.displaced, result.starved, result.over_limit, result.without_consent) == (0, 0, 0, 0)
    assert min(result.taken, result.refused) > 500 and min(result.handovers, result.expired) > 5


def rollouts(memory, **changes):
    """Make one rollout for each memory figure of a process [KiB]."""
    one = {"phase": "reached", "killed": "", "came_back": True, "seconds": 2.0, "bring_up": 1}
    made = [one | {"memory_kib": {"mpc": [1, kib]}} for kib in memory]
    for k, change in changes.items():
        made[int(k[1:])] |= change
    return made


CLEAN = [{"exit_code": 0, "orphans": 0, "shared_memory_left": 0, "ports_left": 3}]


def test_growth_is_measured_per_process_after_it_has_settled():
    (grown,) = week.growth(rollouts([500, 900, 1000, 1010, 1040]), 2)
    assert grown == {
        "node": "mpc",
        "rollouts": 3,
        "from_mib": pytest.approx(1000 / 1024),
        "growth": pytest.approx(0.04),
    }
    again = {f"r{k}": {"memory_kib": {"mpc": [2, m]}} for k, m in enumerate((400, 450, 460, 470), 3)}
    killed = rollouts([500, 900, 1000, 0, 0, 0, 0], **again)
    assert [g["growth"] for g in week.growth(killed, 1)] == [
        pytest.approx(1000 / 900 - 1),
        pytest.approx(470 / 450 - 1),
    ]
    assert week.growth(rollouts([1, 2]), 2) == []


def test_each_failure_fails_the_week():
    good = rollouts([1000] * 20)
    assert week.judged(good, CLEAN, 5)["passed"]
    bad = {
        "a leak": (rollouts([1000] * 10 + [1060] * 10), CLEAN),
        "the last fails": (rollouts([1000] * 20, r19={"phase": "timeout"}), CLEAN),
        "it gets worse": (rollouts([1000] * 20, **{f"r{k}": {"phase": "dropped"} for k in (12, 14)}), CLEAN),
        "a node stays away": (rollouts([1000] * 20, r9={"killed": "mpc", "came_back": False}), CLEAN),
        "an orphan": (good, [CLEAN[0] | {"orphans": 1}]),
        "memory is left": (good, [CLEAN[0] | {"shared_memory_left": 2}]),
        "nothing was measured": (rollouts([1000] * 5), CLEAN),
    }
    assert [what for what, (these, left) in bad.items() if week.judged(these, left, 5)["passed"]] == []


def test_an_interrupted_run_continues(tmp_path, monkeypatch):
    asked = []

    class Graph:
        def rollout(self, victim):
            asked.append(victim)
            if len(asked) == 5:
                raise KeyboardInterrupt
            return rollouts([1000])[0] | {"killed": victim}

        def close(self):
            return CLEAN[0]

    @contextlib.contextmanager
    def bring_up(yaw):
        yield Graph()

    monkeypatch.setattr(week, "bring_up", bring_up)
    arguments = ["--rollouts", "12", "--settled", "2"]
    arguments += ["--kept", str(tmp_path / "kept"), "--json", str(tmp_path / "out.json")]
    assert week.main(arguments) == 130 and len((tmp_path / "kept").read_text().splitlines()) == 4
    assert week.main(arguments) == 0
    results = json.loads((tmp_path / "out.json").read_text())["results"]
    assert (results["rollouts"], results["bring_ups"], results["killed"]) == (12, 2, 1)
    assert asked[5:] == [""] * 5 + ["mpc"] + [""] * 2
    assert week.main(arguments) == 0 and len(asked) == 13, "nothing was left to do"


@pytest.mark.slow
@pytest.mark.flaky(reruns=2)  # in real time: another process may take the core
def test_two_rollouts_one_with_a_kill(tmp_path, monkeypatch):
    pytest.importorskip("rclpy")
    monkeypatch.setattr(week, "EVERY", 2)
    week.main(["--rollouts", "2", "--settled", "0", "--kept", str(tmp_path / "kept")])
    first, second, end = (json.loads(line) for line in (tmp_path / "kept").read_text().splitlines())
    assert first["killed"] == "" and first["phase"] in week.ENDED
    assert second["killed"] == "mpc" and second["came_back"]
    before, after = first["memory_kib"], second["memory_kib"]
    assert {"mpc", "hand", "simulator", "task", "console", "up"} <= set(before)
    assert before["mpc"][0] != after["mpc"][0] and before["hand"][0] == after["hand"][0]
    assert end["orphans"] == end["shared_memory_left"] == 0


N = 120


@pytest.fixture
def film() -> Film:
    """The object drifts by 1 mm from picture to picture, and is hidden in every tenth."""
    pose = np.tile([0.0, 0.0, 0.05, 1.0, 0.0, 0.0, 0.0], (N, 1))
    pose[:, 0] = 1e-3 * np.arange(N)
    pictures = np.zeros((N, 16, 20), np.uint8)
    return Film(5.0 + np.arange(N) / 30, np.zeros((N, 16)), pose, np.arange(N) % 10 == 9, np.eye(3), pictures)


def answer(film: Film, path, **changed) -> None:
    given = {
        "pose_WO": film.pose_WO.copy(),
        "covariance": np.tile(1e-6 * np.eye(6), (N, 1, 1)),
        "seconds": np.full(N, 0.004),
        "late": np.zeros(N),
        "processed": N,
        "solves": np.column_stack([film.t, np.full((N, 2), 0.002)]),
    }
    np.savez(path, **{**given, **changed})


def test_a_perfect_node_has_no_errors(film, tmp_path):
    answer(film, tmp_path / "r.npz")
    r = judge_node(film, tmp_path / "r.npz")
    counted = int((film.t - film.t[0] >= WARM_UP).sum())
    assert r.tracking.frames == counted == len(r.solves)
    assert r.dropped == r.unanswered == r.tracking.wrong_jumps == 0
    assert r.rate == pytest.approx(30.0, rel=0.05) and np.allclose(r.tracking.seconds, 0.004)
    assert r.tracking.occluded == len(r.tracking.predicted.shift) == counted // 10


def test_jumps_and_missing_poses_are_counted(film, tmp_path):
    pose = film.pose_WO.copy()
    pose[100, 1] += 0.02  # a jump that ends 20 mm off
    pose[105] = np.nan  # no pose
    answer(film, tmp_path / "r.npz", pose_WO=pose, processed=N - 3)
    r = judge_node(film, tmp_path / "r.npz")
    assert (r.tracking.wrong_jumps, r.unanswered, r.tracking.lost, r.dropped) == (1, 1, 1, 3)


def test_cores_that_cannot_be_used_are_refused(monkeypatch, capsys):
    assert pose_estimator.main(["--core", "4096"]) == 2 and "--core 4096" in capsys.readouterr().err
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    assert pose_estimator.main([]) == 2 and "need a core each" in capsys.readouterr().err
