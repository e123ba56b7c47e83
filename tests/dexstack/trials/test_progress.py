"""Progress of running trials: their notes, and the time left in closed form."""

import time
from types import SimpleNamespace

import pytest

from dexstack.trials.progress import Clock, Progress, progress


def noted(folder, name, t, wall):
    (folder / name).write_text(f"{t} {wall}")


def test_the_time_left_follows_from_the_trials_that_ended_and_run(tmp_path):
    """Two of five trials of at most 30 s took 10 s of simulated time each, at a factor of 0.1; with
    two processes the other three, less 8 s, take (30 − 8) s / 0.1 / 2."""
    seen = Progress(tmp_path, trials=5, seconds=30.0, processes=2)
    assert seen.line() == "0 of 5 trials done; the next ones begin"
    noted(tmp_path, "a", 2.0, 20.0)
    assert seen.line() == ("0 of 5 trials done; at 2.0 of 30 s, real-time factor 0.1, at most 12 min left"), (
        "(150 − 2) s / 0.1 / 2"
    )
    for count in (1, 2):
        assert seen.add(SimpleNamespace(seconds=10.0, wall_s=100.0)) == count
    noted(tmp_path, "a", 6.0, 60.0)
    noted(tmp_path, "b", 2.0, 20.0)
    (tmp_path / "c").write_text("")  # being written
    assert seen.line() == (
        "2 of 5 trials done; at 6.0, 2.0 of 30 s, real-time factor 0.1, about 2 min left"
    ), "110 s"


def test_a_trial_that_outlasts_the_others_raises_the_estimate(tmp_path):
    """One of three trials took 10 s, one runs for 30 s: they take 30 s each, and 30 s / 0.1 are left."""
    seen = Progress(tmp_path, trials=3, seconds=1000.0, processes=1)
    seen.add(SimpleNamespace(seconds=10.0, wall_s=100.0))
    noted(tmp_path, "a", 30.0, 300.0)
    assert seen.line().endswith("about 5 min left")


def test_a_clock_notes_at_most_once_a_second_and_leaves_nothing(tmp_path):
    clock, seen = Clock(tmp_path / "trial"), Progress(tmp_path, 1, 2.0, 1)
    for t in (0.5, 0.6, 0.7):
        clock.note(t)
    assert "at 0.5 of 2 s" in seen.line()
    clock.end()
    assert "begin" in seen.line() and not list(tmp_path.iterdir())
    Clock(tmp_path / "missing" / "trial").note(1.0)  # a machine of a cluster without the folder


def test_a_line_follows_silence(tmp_path, monkeypatch):
    monkeypatch.setattr("dexstack.trials.progress.SPOKEN", 0.5)
    said = []
    with progress(3, 1.0, 1, said.append) as seen:
        noted(seen.folder, "a", 0.25, 1.0)
        for _ in range(60):
            if said:
                break
            time.sleep(0.05)
    assert said[0].startswith("0 of 3 trials done; at 0.2 of 1 s, real-time factor 0.25, at most")
    assert not seen.folder.exists()
    with pytest.raises(KeyboardInterrupt), progress(3, 1.0, 1, said.append):
        raise KeyboardInterrupt
