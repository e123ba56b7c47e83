"""The transfer matrix: which plants a θ is learned from, how it is judged, and that an interrupted run
continues."""

import numpy as np
import pytest

from experiments.identification.transfer import (
    ALL,
    CHOOSING_TRIALS,
    DEFAULTS,
    OWN,
    choosing_trials,
    compare_shares,
    judged,
    main,
    sources,
)

PLANTS = ("mujoco", "lcp", "soft")


def test_every_plant_teaches_alone_with_all_and_is_left_out_once():
    found = {s.name: s.plants for s in sources(PLANTS)}
    assert found[DEFAULTS] == () and found["lcp"] == ("lcp",) and found[ALL] == PLANTS
    assert found["all but lcp"] == ("mujoco", "soft")
    assert {s.name: s.on for s in sources(PLANTS)} == dict.fromkeys([*list(found)[:5]], PLANTS) | {
        f"all but {p}": (p,) for p in PLANTS
    }
    assert len(found) == 1 + 3 + 1 + 3
    assert [s.name for s in sources(["mujoco"])] == [DEFAULTS, "mujoco"]


@pytest.mark.parametrize(
    ("worse", "kept", "as_good"),
    [(None, 6, 6), (("mujoco", "soft"), 5, 6), (("all but soft", "soft"), 6, 5)],
)
def test_a_theta_must_keep_the_success_of_the_plants_own(worse, kept, as_good):
    cells = [
        {
            "source": s.name,
            "plant": plant,
            "success_rate": 0.75 if (s.name, plant) == worse else 1.0,
            "success_interval": [0.3, 0.95] if (s.name, plant) == worse else [0.5, 1.0],
        }
        for s in sources(PLANTS)
        for plant in s.on
    ]
    results = judged(cells, PLANTS)
    assert (results["crossed"], results["mixed"]) == (6, 6)
    assert (results["crossed_kept"], results["mixed_as_good"]) == (kept, as_good)
    assert results["passed"] == (worse is None)
    assert results["mixed_surely_worse"] == 0, "the intervals overlap"


@pytest.mark.parametrize(
    ("half", "whole", "share"), [(2.0, 2.5, 0.5), (2.0, 1.9, 1.0), (3.5, 4.0, OWN), (3.0, 3.0, OWN)]
)
def test_the_fastest_share_that_surely_saves_time_is_used(half, whole, share):
    own = 3.0 + 0.01 * np.arange(48)
    found, rows = compare_shares({OWN: own, 0.5: own - 3.0 + half, 1.0: own - 3.0 + whole})
    assert found == share
    assert [row["saved"] for row in rows] == pytest.approx([0.0, 3.0 - half, 3.0 - whole])
    noise = np.tile([0.0, 6.0], 24)
    found, rows = compare_shares({OWN: own, 1.0: own - 0.1 + noise - 3.0})
    assert found == OWN and rows[1]["error"] == pytest.approx(noise.std(ddof=1) / np.sqrt(48))


def test_shares_are_compared_on_the_same_trials_of_the_plants_that_taught():
    for source in sources(PLANTS)[1:]:
        own, half = (choosing_trials(source, share) for share in (OWN, 0.5))
        assert [t[2:] for t in own] == [t[2:] for t in half] and {t.source for t in own} == {DEFAULTS}
        assert {t.plant for t in half} == set(source.plants) and len(half) >= CHOOSING_TRIALS


@pytest.mark.slow
def test_an_interrupted_matrix_continues_to_the_same_table(tmp_path, capsys, outcome):
    """One kept trial is lost; the others are read."""
    folder = tmp_path / "kept"
    argv = ["--plants", "mujoco", "--steps", "90", "--trials", "2", "--seconds", "1", "--share", "1"]
    argv += ["--results", str(folder)]

    def results() -> dict:
        code, found = outcome(main, *argv)
        assert code in (0, 1) and found.pop("trials_wall_s") > 0.0 and found.pop("spent")
        return found

    first, trials = results(), sorted((folder / "trials").iterdir())
    assert len(trials) == 4 and [c["trials"] for c in first["cells"]] == [2, 2]
    before = trials[0].stat().st_mtime_ns
    trials[1].unlink()
    assert results() == first and trials[1].is_file() and trials[0].stat().st_mtime_ns == before
    assert main([*argv, "--seed", "1"]) == 2
    assert "another folder" in capsys.readouterr().err
