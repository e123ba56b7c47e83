"""Work in another process: results, errors, crashes and the time limit."""

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
    print("last words", flush=True)  # as a library does: not part of the results
    os._exit(3)
    yield {}


def test_results_arrive_in_order():
    ended = bounded(f"{HERE}:doubled", {"x": np.arange(3.0)}, 60.0)
    assert [float(found["x"][2]) for found in ended.results] == [2.0, 4.0, 8.0]
    assert not ended.late and ended.fault == ""


def test_a_config_error_reaches_the_caller():
    with pytest.raises(ConfigError, match="no such thing"):
        bounded(f"{HERE}:refusing", {"x": np.zeros(1)}, 60.0)


@pytest.mark.slow
def test_a_hanging_function_is_killed_and_its_results_kept():
    ended = bounded(f"{HERE}:hanging", {"x": np.ones(1)}, 10.0)
    assert ended.late and ended.hung and len(ended.results) == 1


def test_a_crash_is_reported_by_its_last_line():
    ended = bounded(f"{HERE}:crashing", {"x": np.ones(1)}, 60.0)
    assert not ended.late and ended.results == [] and ended.fault == "last words"


def counting(given):
    """One second of processor time in slices of 5 ms, with pauses as if others had the processor."""
    begin = time.process_time()
    while (now := time.process_time()) < begin + 1.0:
        time.sleep(0.05)
        while time.process_time() < now + 0.005:
            pass
    yield {"x": given["x"]}


@pytest.mark.slow
def test_time_in_which_others_have_the_processor_does_not_count():
    begin = time.monotonic()
    ended = bounded(f"{HERE}:counting", {"x": np.ones(1)}, 3.0)
    assert time.monotonic() - begin > 6.0 and not ended.late and len(ended.results) == 1
