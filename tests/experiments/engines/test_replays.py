"""Replays: the same bits in one process and in another; differences are counted."""

import itertools

import pytest

from dexengines import ENGINES
from experiments.engines import replays

COMPILED = ("lcp", "soft")


@pytest.mark.parametrize(
    "engine", [pytest.param(e, marks=[pytest.mark.slow] if e in COMPILED else []) for e in ENGINES]
)
def test_a_replay_has_the_same_bits(engine):
    one, other = replays.hashes("grip", engine, 3, 0), replays.hashes("grip", engine, 2, 1)
    assert len(set(one + other)) == 1 and len(one) == 3


def test_a_replay_that_differs_is_counted(monkeypatch, outcome):
    names = itertools.cycle("aab")
    monkeypatch.setattr(
        replays, "in_processes", lambda f, jobs, *columns: ([next(names)] * runs for runs in columns[2])
    )
    argv = ["--runs", "6", "--processes", "3", "--engines", "mujoco", "--scenes", "grip"]
    code, results = outcome(replays.main, *argv)
    (row,) = results["rows"]
    assert code == 1 and (row["same"], row["of"], row["kinds"]) == (4, 6, 2)
