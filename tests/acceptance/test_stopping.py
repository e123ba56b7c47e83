"""The times to stop: counted and summarised, and one event run."""

from __future__ import annotations

import json

import pytest

from tests.acceptance import stopping
from tests.acceptance.hand_rig import FaultResult


def test_every_run_has_to_end_in_time():
    runs = [FaultResult("x", "fault", t, 0.1) for t in (0.02, 0.04, 0.03)]
    late = [FaultResult("y", "hold", 0.05, 0.1), FaultResult("y", "enabled", float("nan"), 0.1)]
    good, bad = stopping.summary({"x": runs}).results, stopping.summary({"x": runs, "y": late}).results
    assert good["passed"] and not bad["passed"]
    x, y = bad["events"]
    assert (x["median_s"], x["worst_s"], x["in_time"], x["n"]) == (0.03, 0.04, 3, 3)
    assert (y["worst_s"], y["in_time"], y["n"]) == (0.05, 1, 2) and y["ended_in"] == {"hold": 1, "enabled": 1}
    assert y["seconds"] == [0.05, None], "a run that did not end stays in the record"


@pytest.mark.slow
def test_an_event_is_run_as_often_as_asked(tmp_path):
    out = tmp_path / "out.json"
    stopping.main(["--n", "2", "--only", "joint angles stop", "--json", str(out)])
    (event,) = json.loads(out.read_text())["results"]["events"]
    assert event["n"] == 2 and len(event["seconds"]) == 2 and event["ended_in"] == {"fault": 2}
    assert event["median_s"] >= 0.05, "no sooner than feedback_timeout"


def test_a_text_in_no_name_is_refused(capsys):
    assert stopping.main(["--only", "gremlins"]) == 2
    assert "no event has one of ['gremlins'] in its name" in capsys.readouterr().err
