"""``dexstack bench``: counting, limits, core."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from dexstack.bench.mpc import MpcTiming
from dexstack.cli.cores import one_core
from dexstack.cli.main import main
from dexstack.errors import ConfigError


@pytest.mark.slow
def test_solves_are_timed():
    """In a process of its own, which pins the core before JAX starts."""
    argv = ["bench", "mpc", "--solves", "5", "--p50", "10", "--p99", "10", "--json", "-"]
    done = subprocess.run([sys.executable, "-m", "dexstack.cli.main", *argv], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    r = json.loads(done.stdout)["results"]
    for key in ("solve_s", "solve_wall_s", "detect_s", "detect_and_solve_s"):
        assert r[key]["n"] == 5 and 0 < r[key]["p50"] <= r[key]["p99"]
    assert r["detect_and_solve_s"]["mean"] == pytest.approx(r["detect_s"]["mean"] + r["solve_s"]["mean"])
    assert r["variables"] == 16 * r["horizon"] and r["rows"] == 48
    assert r["contacts"]["counted"] == sum(r["statuses"].values()) == 5 and r["contacts"]["n"] >= 5
    assert r["compile_s"] > 0 and r["core"] in os.sched_getaffinity(0)


@pytest.mark.parametrize(
    ("p50", "p99", "status"), [("0.002", "0.003", 0), ("0.001", "0.003", 1), ("0.002", "0.0024", 1)]
)
def test_both_limits_decide(p50, p99, status, monkeypatch, outcome):
    """Solves of 1.5 ms, a tenth of them of 2.5 ms."""
    solve = np.full(100, 1.5e-3)
    solve[::10] = 2.5e-3
    timing = MpcTiming(solve / 2, solve, solve, 2 * solve, np.full(120, 9), {"OK": 100}, 1.0, 4, 64, 48)
    monkeypatch.setattr("dexstack.bench.mpc.time_mpc", lambda spec, **kw: timing)
    code, r = outcome(main, "bench", "mpc", "--p50", p50, "--p99", p99)
    assert (
        code == status
        and r["passed"] is (status == 0)
        and r["solve_s"]["p50"] == 1.5e-3
        and r["solve_wall_s"]["p50"] == 3e-3
    )
    assert r["contacts"]["n"] == 120 and r["contacts"]["counted"] == 100


def test_one_core_is_kept_and_given_back():
    before = os.sched_getaffinity(0)
    with one_core(None) as core:
        assert os.sched_getaffinity(0) == {core} == {max(before)}
    assert os.sched_getaffinity(0) == before
    with pytest.raises(ConfigError, match="--core 4096"), one_core(4096):
        pass
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize(("limit", "status"), [("10", 0), ("1e-9", 1)])
def test_pose_estimator_is_timed_against_its_limit(limit, status, outcome):
    pytest.importorskip("cv2")
    pytest.importorskip("pupil_apriltags")
    code, r = outcome(main, "bench", "pose-estimator", "--seconds", "1", "--p99", limit)
    assert code == status and r["frames"] == r["pose_s"]["n"] == 30 and r["without_pose"] < 5
    assert 0 < r["pose_s"]["p50"] <= r["pose_s"]["p99"] and r["passed"] is (status == 0)
