"""``dexstack bench mpc``: what is counted, the limits, the core."""

import json
import os
import subprocess
import sys

import pytest

from dexstack.cli.bench import one_core
from dexstack.cli.main import main
from dexstack.errors import ConfigError


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "status"), [("10", 0), ("1e-9", 1)])
def test_solves_are_timed_and_the_limits_decide(limit, status):
    """In a process of its own, as a user runs it: it pins the core before JAX starts."""
    argv = ["bench", "mpc", "--solves", "5", "--p50", limit, "--p99", limit, "--json", "-"]
    done = subprocess.run([sys.executable, "-m", "dexstack.cli.main", *argv], capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    r = json.loads(done.stdout)["results"]
    assert r["passed"] is (status == 0)
    for key in ("solve_s", "solve_wall_s", "detect_s", "detect_and_solve_s"):
        assert r[key]["n"] == 5 and 0 < r[key]["p50"] <= r[key]["p99"]
    assert r["detect_and_solve_s"]["mean"] == pytest.approx(r["detect_s"]["mean"] + r["solve_s"]["mean"])
    assert r["variables"] == 16 * r["horizon"] and r["rows"] == 48
    assert r["contacts"]["counted"] == sum(r["statuses"].values()) == 5 and r["contacts"]["n"] >= 5
    assert r["compile_s"] > 0 and r["core"] in os.sched_getaffinity(0)


def test_one_core_is_kept_and_given_back():
    before = os.sched_getaffinity(0)
    with one_core(None) as core:
        assert os.sched_getaffinity(0) == {core} == {max(before)}
    assert os.sched_getaffinity(0) == before
    with pytest.raises(ConfigError, match="--core 4096"), one_core(4096):
        pass
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("argv", [["--solves", "0"], ["--seed", "-1"], ["--core", "4096"], ["--params", "nowhere.yaml"]])
def test_unusable_arguments_exit_2(argv, capsys):
    assert main(["bench", "mpc", *argv]) == 2
    assert argv[0] in (err := capsys.readouterr().err) or "nowhere.yaml" in err
