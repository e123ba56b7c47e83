"""Judging: protocols are checked before anything runs, ends are told apart, and the quick protocol
gives a table, a page and the same result again."""

import json

import numpy as np
import pytest
import yaml

from dexstack.cli.main import main
from dexstack.config import share_dir
from dexstack.errors import ConfigError
from dexstack.tasks.base import Goal
from dexstack.trials.judging import code_hash, end_of, read_protocol
from dexstack.trials.keep import BatchTrial

PACKAGED = share_dir() / "config" / "judge.yaml"
SHORT = """
trials: 2
tasks: {yaw: {task: palm_turn, yaws: [20], seconds: 0.6, parameters: {horizon: 2, iterations: 1, hold: 0.1}}}
plants: [mujoco]
worlds: {nominal: {}, heavy: {mass: 1.2}}
perception: {exact: {}}
"""


def outcome(*, succeeded=False, dropped=False, trouble="", errors=(1.0, 0.5)):
    recording = {"t": np.linspace(0.0, 10.0, len(errors)), "error": np.array(errors)}
    recording["position_error"] = np.zeros(len(errors))
    goal = Goal(np.array([0, 0, 0, 1.0, 0, 0, 0]), "goal")
    found = {"orientation_error": errors[-1], "position_error": 0.0, "stalls": 0, "wall_s": 0.0}
    return BatchTrial(
        goal,
        (),
        dropped=dropped,
        succeeded=succeeded,
        trouble=trouble,
        recording=recording,
        seed=0,
        label="",
        cell="",
        **found,
    )


@pytest.mark.parametrize(
    ("end", "given"),
    [
        ("success", {"succeeded": True}),
        ("drop", {"dropped": True, "trouble": "the servo is off: overspeed"}),
        ("servo trip", {"trouble": "the servo is off: overspeed"}),
        ("plant failure", {"trouble": "3 steps did not converge"}),
        ("stuck", {"errors": (1.0, 0.52, 0.51, 0.5)}),
        ("timeout", {"errors": (1.0, 0.9, 0.8, 0.5)}),
    ],
)
def test_ends_are_told_apart(end, given):
    assert end_of(outcome(**given)) == end


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"plants": []}, "lacks 'plants'"),
        ({"task": {}}, "unknown entry .* 'task'; did you mean 'tasks'"),
        ({"tasks": {"yaw": {"task": "palm_turn"}}}, "the task 'yaw' lacks 'seconds'"),
        ({"worlds": {"heavy": {"weight": 2}}}, "weight"),
    ],
)
def test_a_malformed_protocol_is_refused(tmp_path, change, says):
    path = tmp_path / "protocol.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(SHORT) | change))
    with pytest.raises(ConfigError, match=says):
        read_protocol(path)


def test_the_packaged_protocol_covers_what_its_names_say():
    full, quick = read_protocol(PACKAGED), read_protocol(PACKAGED, quick=True)
    cells = list(full.cells("sampling", "cube", "right"))
    assert len(cells) == len({name for name, _, _ in cells}) == 6 * 4 * 3 * 2
    assert full.trials == 200 and len(list(quick.cells("", "cube", "right"))) == 4
    assert code_hash(full) != code_hash(quick) == code_hash(read_protocol(PACKAGED, quick=True))


def test_a_protocol_gives_table_and_page_and_is_resumed(tmp_path):
    (tmp_path / "protocol.yaml").write_text(SHORT)
    command = ["judge", "tasks", "--protocol", str(tmp_path / "protocol.yaml")]
    command += ["--results", str(tmp_path / "out"), "--json", str(tmp_path / "out.json")]
    found = []
    for _ in range(2):
        assert main(command) == 0
        found.append(json.loads((tmp_path / "out.json").read_text())["results"])
    assert found[0] == found[1], "the second run reads the kept trials"
    heavy = found[0]["cells"][1]
    assert (heavy["world"], heavy["trials"], sum(heavy["ends"].values())) == ("heavy", 2, 2)
    assert heavy["success_interval"][0] <= heavy["success_rate"] <= heavy["success_interval"][1]
    assert "yaw · mujoco · heavy · exact" in (tmp_path / "out" / "judgement.html").read_text()


def test_unknown_controllers_are_refused_before_anything_runs(tmp_path, capsys):
    assert main(["judge", "gauss_newtn", "--quick", "--results", str(tmp_path / "out")]) == 2
    assert "did you mean 'gauss_newton'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_quick_protocol_runs(tmp_path):
    """The command in the guide."""
    assert (
        main(
            [
                "judge",
                "gauss_newton",
                "--quick",
                "--results",
                str(tmp_path),
                "--json",
                str(tmp_path / "a.json"),
            ]
        )
        == 0
    )
    cells = json.loads((tmp_path / "a.json").read_text())["results"]["cells"]
    assert [c["task"] for c in cells] == ["yaw", "so3", "a2", "b2"] and cells[0]["success_rate"] == 1.0
