"""Settings of worlds, trials in processes, atomic writes, and the choice of trials to film."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dexstack.errors import ConfigError
from dexstack.files import whole
from dexstack.graph.settings import Spec
from dexstack.tasks.base import NOMINAL_WORLD, World
from dexstack.trials.films import worth_seeing
from dexstack.trials.pool import in_processes, on_ray
from dexstack.trials.sweep import vary


def test_worlds_and_parameters_vary_alone_or_together():
    spec = Spec(overrides=(("horizon", 2),))
    cells = vary(spec, ["mass=0.5,2", "friction=0.5+size=1.1", "latency=0.03"])
    assert [c.name for c in cells] == [
        "as believed",
        "mass 0.5",
        "mass 2",
        "friction 0.5, size 1.1",
        "latency 0.03",
    ]
    assert [c.spec.world for c in cells] == [
        NOMINAL_WORLD,
        World(0.5),
        World(2.0),
        World(friction=0.5, size=1.1),
        NOMINAL_WORLD,
    ]
    assert cells[0].spec == spec
    assert cells[4].spec.overrides == (("horizon", 2), ("latency", 0.03))


@pytest.mark.parametrize("spread", [in_processes, on_ray])
def test_trials_come_back_in_order(spread):
    if spread is on_ray:
        pytest.importorskip("ray", reason="comes with the extra [ray] only")
    assert list(spread(divmod, 2, [7, 8, 9], [2, 3, 4])) == [(3, 1), (2, 2), (2, 1)]


def last(k: int, folder: str) -> int:
    """The first row ends after all others."""
    if k:
        Path(folder, str(k)).touch()
    elif not wait_for(lambda: len(os.listdir(folder)) == 5, 60.0):
        raise TimeoutError("the other rows were not run")
    return k


@pytest.mark.parametrize("spread", [in_processes, on_ray])
def test_a_slow_row_does_not_delay_others(spread, tmp_path):
    if spread is on_ray:
        pytest.importorskip("ray", reason="comes with the extra [ray] only")
    assert list(spread(last, 2, range(6), [str(tmp_path)] * 6)) == list(range(6))


FOREVER = """
import os, pathlib, time
def f(k):
    pathlib.Path(__file__).with_name(f"pid{k}").write_text(str(os.getpid()))
    time.sleep(600)
"""
COMMAND = """
from dexstack.trials.films import worth_seeing
from dexstack.files import whole
from dexstack.trials.pool import in_processes
from forever import f
if __name__ == "__main__":
    list(in_processes(f, 2, [0, 1]))
"""


def test_no_process_survives_its_killed_command(tmp_path):
    """After SIGKILL, which the command cannot handle."""
    (tmp_path / "forever.py").write_text(FOREVER)
    (tmp_path / "command.py").write_text(COMMAND)
    command = subprocess.Popen([sys.executable, tmp_path / "command.py"], cwd=tmp_path)
    files = [tmp_path / f"pid{k}" for k in range(2)]
    try:
        assert wait_for(lambda: all(f.exists() and f.read_text() for f in files))
    finally:
        command.kill()
        command.wait()
    assert wait_for(lambda: not any(Path("/proc", f.read_text()).exists() for f in files))


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def test_an_interrupted_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "made" / "row.json"
    with whole(path) as file:
        file.write(b"first")
    with pytest.raises(KeyboardInterrupt), whole(path) as file:
        file.write(b"sec")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"first"


def test_a_path_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot write .*row\.json"), whole(tmp_path / "file" / "row.json"):
        pass


def trial(goals=0, *, succeeded=False, dropped=False, trouble="", error=1.0):
    return SimpleNamespace(
        reached_at=[1.0] * goals,
        succeeded=succeeded,
        dropped=dropped,
        trouble=trouble,
        orientation_error=error,
    )


def test_the_best_trial_and_the_worst_of_every_end():
    good, better, best = (trial(1, succeeded=True, error=e) for e in (0.09, 0.05, 0.01))
    far, near = (trial(dropped=True, error=e) for e in (2.0, float("nan")))
    late, stopped = trial(error=0.2), trial(trouble="servo off")
    chosen = worth_seeing([good, best, far, late, near, better, stopped])
    assert chosen == {
        "best": best,
        "worst-succeeded": good,
        "worst-dropped": near,
        "worst-late": late,
        "worst-stopped": stopped,
    }


def test_more_goals_are_better_and_no_trial_is_shown_twice():
    short, long = trial(3, dropped=True, error=0.1), trial(50, dropped=True, error=2.0)
    assert worth_seeing([long, short]) == {"best": long, "worst-dropped": short}
    assert worth_seeing([long]) == {"best": long}
