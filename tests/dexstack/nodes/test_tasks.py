"""Every task in a real graph, a user's own among them, and combinations that cannot run."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from harness import NODES, wait_until

from dexstack.cli import main as cli
from tests.acceptance.probe import put_from

BALLS = {*NODES, "servo"} - {"hand"}
OWN_TASK = '''"""Turn the cube a little, then back."""
from dataclasses import dataclass

from dexstack.config import param
from dexstack.tasks.palm_turn import PalmParams, PalmTurn


@dataclass(frozen=True)
class Params(PalmParams):
    """Parameters of the task."""

    there: float = param(0.5, "first turn [rad]", -1.0, 1.0)


class ThereAndBack(PalmTurn):
    """The cost of a turn on the palm towards two goals, one after the other."""

    name = "there_and_back"
    Params = Params
    opening_yaw = None

    def goals(self, k, seed):
        yield self.at_yaw(self.params.there)
        yield self.at_yaw(0.0)


TASK = ThereAndBack
'''


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("mock", "--task", "three_ball"),
            "an emulated hand on a bus needs a hand, and the robot of the task 'three_ball'",
        ),
        (
            ("hardware", "--task", "three_ball"),
            "this mode needs a hand, and the robot of the task 'three_ball'",
        ),
        (("sim", "--task", "three_ball", "--perception", "camera"), "perception by camera needs a hand"),
        (("sim", "--task", "three_balls"), "unknown task 'three_balls'; did you mean 'three_ball'?"),
        (("sim", "--task", "nowhere.py"), "there is no task file"),
        (("sim", "--object", "teapot"), "unknown object 'teapot'"),
        (("sim", "--goal-yaw", "ninety"), "'goal_yaw' must be a number, got 'ninety'"),
        (("sim", "orientaton_weight: 5.0"), "'orientaton_weight'"),
        (("sim", "horizon: 0"), "'horizon'"),
        (("sim", "horizon: many"), "'horizon'"),
    ],
)
def test_what_cannot_run_is_refused_in_one_sentence_before_any_node_starts(
    arguments, sentence, tmp_path, monkeypatch, capsys
):
    if ":" in arguments[-1]:  # a file with this parameter
        (tmp_path / "p.yaml").write_text(f"mpc: {{ros__parameters: {{{arguments[-1]}}}}}")
        arguments = (*arguments[:-1], "--params", str(tmp_path / "p.yaml"))
    started: list[object] = []
    monkeypatch.setattr("dexstack.cli.up.Supervisor", lambda *a, **k: started.append(a))
    assert cli.main(["up", *arguments, "--results", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1 and "Traceback" not in said
    assert not started and not (tmp_path / "run").exists()


@pytest.mark.slow
def test_three_balls_run_in_the_graph_and_can_be_drawn_again(start, probe, tmp_path, capsys):
    run = start("--task", "three_ball", "--seed", "1", "--json", "-")
    wait_until(lambda: probe.phase() == "running" and set(probe.reports) >= BALLS, 180, "the rollout")
    wait_until(
        lambda: probe.values("mpc").get("realtime") in ("True", "False"),
        60,
        "the report of a planner that plans",
    )
    assert "hand" not in probe.reports
    assert run.wait(600) == 0, run.err
    results = json.loads(run.out)["results"]
    assert (
        results["reached"]
        and results["restarts"] == {}
        and results["task"] == "three_ball"
        and results["goals_reached"] == 1
    )
    with np.load(run.folder / "recording.npz") as data:
        assert data["q"].shape[1:] == (9,) and np.isfinite(data["q"][5:]).all()
        assert np.abs(np.diff(data["goal_WO"], axis=0)).max() == 0.0, "one target"
    film = tmp_path / "again.gif"
    assert cli.main(["replay", str(run.folder), "--film", str(film)]) == 0
    assert "three_ball with cube: reached" in capsys.readouterr().out
    assert film.stat().st_size > 1000 and (run.folder / "run.png").stat().st_size > 1000


@pytest.mark.slow
def test_a_stream_of_goals_goes_on_in_one_rollout_until_somebody_sets_another(start, probe):
    run = start("--task", "continuous", "--seconds", "600", "--json", "-")
    wait_until(
        lambda: probe.states and probe.states[-1]["goals_reached"] >= 1, 400, "the first goal to be reached"
    )
    running = [s for s in probe.states if s["phase"] == "running"]
    assert {s["attempt"] for s in running} == {1}, "the next goal is one of the same rollout"
    assert probe.states[-1]["goal_yaw"] == pytest.approx(math.pi) or probe.states[-1]["goals_reached"] > 1
    yaw = probe.states[-1]["yaw"] + 0.3 - 2 * math.pi * (probe.states[-1]["yaw"] + 0.3 > math.pi)
    result = put_from(probe.node, "task", "goal_yaw", yaw)
    assert result.successful, result.reason
    wait_until(lambda: probe.states[-1]["attempt"] == 2, 60, "a rollout towards it")
    assert probe.states[-1]["goal_yaw"] == pytest.approx(yaw) and probe.states[-1]["goals_reached"] == 0
    assert run.wait(400) == 0, run.err  # one goal ends the rollout, as a stream does not
    results = json.loads(run.out)["results"]
    assert (
        results["reached"]
        and results["attempt"] == 2
        and results["goal_yaw"] == pytest.approx(yaw)
        and results["restarts"] == {}
    )


@pytest.mark.slow
def test_a_task_of_ones_own_runs_in_the_graph(start, probe, tmp_path: Path):
    file = tmp_path / "there_and_back.py"
    file.write_text(OWN_TASK)
    file.with_suffix(".yaml").write_text(
        "task: {ros__parameters: {there: 0.3}}\nmpc: {ros__parameters: {horizon: 4}}\n"
    )
    run = start("--task", str(file), "--seconds", "120", "--json", "-")
    assert run.wait(900) == 0, run.err
    results = json.loads(run.out)["results"]
    assert results["reached"] and results["goals_reached"] == 2 and results["task"] == str(file)
    asked = list(dict.fromkeys(s["goal"] for s in probe.states))
    assert asked == ["+17°", "+0°"], "0.3 rad, as the file beside the task says, then back"
    assert {s["attempt"] for s in probe.states} == {1}
