"""Judgement and continuation of the week's rollouts, and two real ones."""

import contextlib
import json

import pytest

from tests.acceptance import week


def rows(memory, **changes):
    """Make one rollout for each memory figure of a process [KiB]."""
    one = {"phase": "reached", "killed": "", "came_back": True, "seconds": 2.0, "bring_up": 1}
    made = [one | {"memory_kib": {"mpc": [1, kib]}} for kib in memory]
    for k, change in changes.items():
        made[int(k[1:])] |= change
    return made


CLEAN = [{"exit_code": 0, "orphans": 0, "shared_memory_left": 0, "ports_left": 3}]


def test_growth_is_measured_per_process_after_it_has_settled():
    (grown,) = week.growth(rows([500, 900, 1000, 1010, 1040]), 2)
    assert grown == {
        "node": "mpc",
        "rollouts": 3,
        "from_mib": pytest.approx(1000 / 1024),
        "growth": pytest.approx(0.04),
    }
    again = {f"r{k}": {"memory_kib": {"mpc": [2, m]}} for k, m in enumerate((400, 450, 460, 470), 3)}
    killed = rows([500, 900, 1000, 0, 0, 0, 0], **again)
    assert [g["growth"] for g in week.growth(killed, 1)] == [
        pytest.approx(1000 / 900 - 1),
        pytest.approx(470 / 450 - 1),
    ]
    assert week.growth(rows([1, 2]), 2) == []


def test_each_failure_fails_the_week():
    good = rows([1000] * 20)
    assert week.judged(good, CLEAN, 5)["passed"]
    bad = {
        "a leak": (rows([1000] * 10 + [1060] * 10), CLEAN),
        "the last fails": (rows([1000] * 20, r19={"phase": "timeout"}), CLEAN),
        "it gets worse": (rows([1000] * 20, **{f"r{k}": {"phase": "dropped"} for k in (12, 14)}), CLEAN),
        "a node stays away": (rows([1000] * 20, r9={"killed": "mpc", "came_back": False}), CLEAN),
        "an orphan": (good, [CLEAN[0] | {"orphans": 1}]),
        "memory is left": (good, [CLEAN[0] | {"shared_memory_left": 2}]),
        "nothing was measured": (rows([1000] * 5), CLEAN),
    }
    assert [what for what, (these, left) in bad.items() if week.judged(these, left, 5)["passed"]] == []


def test_an_interrupted_run_continues(tmp_path, monkeypatch):
    asked = []

    class Graph:
        def rollout(self, victim):
            asked.append(victim)
            if len(asked) == 5:
                raise KeyboardInterrupt
            return rows([1000])[0] | {"killed": victim}

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
