"""The command line that all experiments share."""

import json
import os

import pytest
from matplotlib.figure import Figure

from dexstack.errors import ConfigError
from experiments.harness import Findings, run


def outcome(passed=True, figure=None):
    return Findings({"x": 1, "passed": passed}, figure, ["found 1"], 5)


@pytest.mark.parametrize(("passed", "code"), [(True, 0), (False, 1)])
def test_the_exit_code_says_whether_it_was_reached(passed, code, tmp_path, capsys):
    file = tmp_path / "out.json"
    assert (
        run("experiments.some.thing", "What.\n\nMore.", lambda args: outcome(passed), ["--json", str(file)])
        == code
    )
    document = json.loads(file.read_text())
    assert (
        document["argv"] == ["python", "-m", "experiments.some.thing", "--json", str(file)]
        and document["seed"] == 5
    )
    assert document["results"] == {"x": 1, "passed": passed}
    assert ("not reached" in capsys.readouterr().out) is not passed


def test_the_picture_is_kept_only_where_it_is_asked_for(tmp_path):
    picture = tmp_path / "p.png"
    assert run("m", "", lambda args: outcome(figure=Figure()), []) == 0 and not picture.exists()
    assert run("m", "", lambda args: outcome(figure=Figure()), ["--picture", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_unusable_input_is_one_sentence(tmp_path, capsys):
    def refuse(args):
        raise ConfigError("no such thing")

    assert run("m", "", refuse, []) == 2 and capsys.readouterr().err == "m: no such thing\n"
    assert run("m", "", lambda args: outcome(), ["--picture", str(tmp_path / "p.png")]) == 2
    assert "draws no picture" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        run("m", "What.\n\nMore.", lambda args: outcome(), ["--nonsense"])
    assert stop.value.code == 2


def test_times_are_taken_on_one_core():
    before = os.sched_getaffinity(0)
    seen = []
    assert (
        run(
            "m",
            "",
            lambda args: (seen.append((args.core, os.sched_getaffinity(0))), outcome())[1],
            [],
            pinned=True,
        )
        == 0
    )
    assert seen == [(max(before), {max(before)})] and os.sched_getaffinity(0) == before
    assert run("m", "", lambda args: outcome(), ["--core", "4096"], pinned=True) == 2
