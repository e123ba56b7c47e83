"""Work in a process of its own: results, refusals, crashes and the time limit."""

import os
import time

import numpy as np
import pytest

from dexstack.errors import ConfigError
from dexstack.process.bounded import bounded

HERE = "tests.dexstack.process.test_bounded"


def doubled(given):
    for k in range(3):
        yield {"x": given["x"] * 2**k}


def refusing(given):
    yield {"x": given["x"]}
    raise ConfigError("no such thing")


def hanging(given):
    yield {"x": given["x"]}
    time.sleep(1000.0)


def crashing(given):
    print("last words", flush=True)
    os._exit(3)
    yield {}


def test_results_come_in_order_and_as_they_are_made():
    seen = []
    ended = bounded(f"{HERE}:doubled", {"x": np.arange(3.0)}, 60.0, seen.append)
    assert [float(found["x"][2]) for found in ended.results] == [2.0, 4.0, 8.0]
    assert len(seen) == 3 and not ended.late and ended.fault == ""


def test_a_refusal_is_the_callers():
    with pytest.raises(ConfigError, match="no such thing"):
        bounded(f"{HERE}:refusing", {"x": np.zeros(1)}, 60.0)


@pytest.mark.slow
def test_what_hangs_is_ended_and_its_results_count():
    ended = bounded(f"{HERE}:hanging", {"x": np.ones(1)}, 10.0)
    assert ended.late and len(ended.results) == 1


def test_a_crash_is_told_by_its_last_words():
    ended = bounded(f"{HERE}:crashing", {"x": np.ones(1)}, 60.0)
    assert not ended.late and ended.results == [] and ended.fault == "last words"
