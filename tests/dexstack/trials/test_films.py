"""Choice of the trials to film."""

from types import SimpleNamespace

from dexstack.trials.films import worth_seeing


def _trial(goals=0, *, succeeded=False, dropped=False, trouble="", error=1.0):
    return SimpleNamespace(
        reached_at=[1.0] * goals,
        succeeded=succeeded,
        dropped=dropped,
        trouble=trouble,
        orientation_error=error,
    )


def test_the_best_trial_and_the_worst_of_every_end():
    good, better, best = (_trial(1, succeeded=True, error=e) for e in (0.09, 0.05, 0.01))
    far, near = (_trial(dropped=True, error=e) for e in (2.0, float("nan")))
    late, stopped = _trial(error=0.2), _trial(trouble="servo off")
    chosen = worth_seeing([good, best, far, late, near, better, stopped])
    assert chosen == {
        "best": best,
        "worst-succeeded": good,
        "worst-dropped": near,
        "worst-late": late,
        "worst-stopped": stopped,
    }


def test_more_goals_are_better_and_no_trial_is_shown_twice():
    short, long = _trial(3, dropped=True, error=0.1), _trial(50, dropped=True, error=2.0)
    assert worth_seeing([long, short]) == {"best": long, "worst-dropped": short}
    assert worth_seeing([long]) == {"best": long}
