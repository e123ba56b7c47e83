"""Output of commands: JSON object, tables, and unusable output files."""

import argparse
import json
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dexstack import __version__
from dexstack.cli import output
from dexstack.errors import ConfigError


def parse(*argv):
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("what", nargs="?")
    output.add_json_argument(parser)
    return parser.parse_args(argv)


def test_json_to_stdout_replaces_the_table(capsys):
    results = {"a": np.float32(0.5), "b": np.arange(3), "c": math.nan, "f": None}
    results |= {"d": (np.int64(1), [math.inf]), "e": np.array([1.0, math.nan])}
    output.publish(parse("--json"), "bench mpc", results, output.table("T", ["x"], [[1]]), seed=3)
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["command", "argv", "version", "commit", "seed", "machine", "results"]
    assert (document["command"], document["version"], document["seed"]) == ("bench mpc", __version__, 3)
    assert set(document["machine"]) == {"cpu", "cores", "python", "load"}
    assert document["machine"]["cores"] >= 1 and len(document["machine"]["load"]) == 3
    plain = {"a": 0.5, "b": [0, 1, 2], "c": None, "d": [1, [None]], "e": [1.0, None], "f": None}
    assert document["results"] == plain


def test_results_hold_the_command_line_and_the_commit(monkeypatch, capsys):
    args = parse("--json")
    args.argv = ["dexstack", "bench", "mpc", "--json"]
    output.publish(args, "bench mpc", {})
    document = json.loads(capsys.readouterr().out)
    assert document["argv"] == args.argv
    if shutil.which("git"):  # a bare machine has none
        checkout = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True
        )
        assert checkout.returncode or checkout.stdout.startswith(document["commit"].removesuffix("-dirty"))
    monkeypatch.setenv("PATH", "")
    assert output.commit() is None, "without git, no commit"


def test_json_to_a_file_leaves_the_table_on_stdout(tmp_path, capsys):
    target = tmp_path / "out.json"
    table = output.table("Title", ["name", "value"], [["solve", 0.00123456], ["none", None]])
    output.publish(parse("--json", str(target)), "doctor", {}, table)
    shown = capsys.readouterr().out
    assert "Title" in shown and "0.001235" in shown and "–" in shown
    assert json.loads(target.read_text())["seed"] is None


def test_json_flag_before_a_positional_argument_takes_it_as_a_file(tmp_path):
    assert parse("mpc", "--json").json == "-"
    assert parse("--json", "-", "mpc").what == "mpc"


@pytest.mark.parametrize("target", ["", "missing/out.json"])
def test_unusable_files_are_rejected_before_the_run(tmp_path, target):
    with pytest.raises(argparse.ArgumentError, match="cannot write"):
        parse("--json", str(tmp_path / target))


def test_a_file_that_became_unusable_is_reported_in_one_sentence(tmp_path):
    args = parse("--json", str(tmp_path / "out.json"))
    (tmp_path / "out.json").mkdir()
    with pytest.raises(ConfigError, match=r"cannot write .*out\.json: Is a directory"):
        output.publish(args, "doctor", {})
