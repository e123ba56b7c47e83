"""The transfer matrix: which plants a θ is learned from, how it is judged, and that an interrupted run
continues."""

import dataclasses
import json

import numpy as np
import pytest

from dexstack.errors import ConfigError
from dexstack.graph.settings import Spec, read_settings
from dexstack.tasks.base import NOMINAL_WORLD, World
from dexstack.tasks.worlds import RANGES, SHIFTS, drawn
from experiments.identification import transfer_shares
from experiments.identification.transfer_matrix import ALL, DEFAULTS, Matrix, Plan, sources
from experiments.identification.worlds import SETTINGS, randomised

PLAN = Plan(Spec(), ("mujoco", "lcp", "soft"), steps=100, trials=4, seed=7, seconds=5.0)


def test_every_plant_teaches_alone_with_all_and_is_left_out_once():
    found = {s.name: s.plants for s in sources(PLAN.plants)}
    assert found[DEFAULTS] == () and found["lcp"] == ("lcp",) and found[ALL] == PLAN.plants
    assert found["all but lcp"] == ("mujoco", "soft")
    assert {s.name: s.on for s in sources(PLAN.plants)} == dict.fromkeys([*list(found)[:5]], PLAN.plants) | {
        f"all but {p}": (p,) for p in PLAN.plants
    }
    assert len(found) == 1 + 3 + 1 + 3
    assert [s.name for s in sources(["mujoco"])] == [DEFAULTS, "mujoco"]


def choose(matrix: Matrix, takes) -> None:
    """Write the trials that choose a share: ``takes(candidate)`` seconds each."""
    rows = [c._asdict() | {"seconds": takes(c)} for c in transfer_shares.candidates(matrix.taught_by)]
    matrix.choosing_file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def keep(matrix: Matrix, succeeds) -> None:
    """Write a finished run: ``succeeds(source, plant)`` of the 4 trials succeed; every learned θ is
    used whole."""
    choose(matrix, lambda c: 2.0 - c.share)
    lines = []
    for source in matrix.sources:
        matrix.losses_file(source.name).write_text(
            json.dumps({s: dict.fromkeys(PLAN.plants, 0.1) for s in ("0", "0.5", "1")})
        )
        for plant in source.on:
            for k in range(PLAN.trials):
                good = k < succeeds(source.name, plant)
                lines.append(
                    json.dumps(
                        {
                            "source": source.name,
                            "plant": plant,
                            "k": k,
                            "succeeded": good,
                            "dropped": False,
                            "reached_s": 1.0 if good else None,
                            "orientation_error_rad": 0.1 * k,
                            "position_error_m": 0.0,
                            "overlap_m": 1e-3 * k,
                            "wall_s": 1.0,
                        }
                    )
                )
    matrix.trials_file.write_text("\n".join(lines) + "\n")


def test_a_cell_runs_its_plant_with_the_theta_of_its_source(tmp_path):
    matrix = Matrix(
        dataclasses.replace(PLAN, spec=Spec(overrides=(("theta", "mine"), ("latency", 0.02)))), tmp_path
    )
    choose(matrix, lambda c: abs(c.share - 0.5) if c.source == "lcp" else 1.0)
    nothing, mujoco, lcp, *_ = matrix.sources
    for source in (nothing, mujoco):  # nothing of what mujoco teaches saves time
        assert matrix.spec(source, "soft") == Spec(plant="soft", overrides=(("latency", 0.02),))
    of = matrix.spec(lcp, "mujoco")
    assert of.plant == "mujoco" and dict(of.overrides)["theta"].endswith("theta-lcp-0.5.yaml")


def test_a_folder_belongs_to_one_plan_and_takes_more_trials_later(tmp_path):
    keep(Matrix(PLAN, tmp_path), lambda source, plant: 4)
    for plan, code in ((dataclasses.replace(PLAN, steps=200), None), (PLAN, "another commit")):
        with pytest.raises(ConfigError, match="another folder"):
            Matrix(plan, tmp_path, code)
    assert len(Matrix(dataclasses.replace(PLAN, trials=5), tmp_path).rows()) == 4 * (5 * 3 + 3)
    fewer = Matrix(dataclasses.replace(PLAN, trials=2), tmp_path).results()
    assert {cell["trials"] for cell in fewer["cells"]} == {2}


@pytest.mark.parametrize(
    ("worse", "kept", "as_good"),
    [(None, 6, 6), (("mujoco", "soft"), 5, 6), (("all but soft", "soft"), 6, 5)],
)
def test_a_theta_must_keep_the_success_of_the_plants_own(worse, kept, as_good, tmp_path):
    matrix = Matrix(PLAN, tmp_path)
    keep(matrix, lambda source, plant: 3 if (source, plant) == worse else 4)
    results = matrix.results()
    assert (results["crossed"], results["mixed"]) == (6, 6)
    assert (results["crossed_kept"], results["mixed_as_good"]) == (kept, as_good)
    assert results["passed"] == (worse is None)
    assert results["mixed_surely_worse"] == 0, "three of four and four of four may have the same rate"
    assert results["cells"][0]["overlap_m"]["max"] == pytest.approx(3e-3)
    assert matrix.worst("all but soft", "soft").parent.name == "all_but_soft_on_soft-003"


def test_the_fastest_share_that_surely_saves_time_is_used(tmp_path):
    matrix = Matrix(PLAN, tmp_path)
    takes = {
        "mujoco": {0.0: 3.0, 0.5: 2.0, 1.0: 2.5},
        "lcp": {0.0: 2.0, 0.5: 2.5, 1.0: 1.9},
        "soft": {0.0: 2.0, 0.5: 2.0, 1.0: 1.0},
    }
    choose(
        matrix,
        lambda c: (
            takes[c.plant][c.share] + (0.5 if c.plant == "lcp" and c.share and c.k % 2 else 0.0) + 0.01 * c.k
        ),
    )
    assert {s.name: matrix.share(s) for s in matrix.sources} == {
        DEFAULTS: 0.0,
        "mujoco": 0.5,
        "lcp": 0.0,
        "soft": 1.0,
        ALL: 1.0,
        "all but mujoco": 1.0,
        "all but lcp": 1.0,
        "all but soft": 1.0,
    }
    n = transfer_shares.TRIALS
    mean = n // 2 - 0.5
    own, half, whole = matrix.shares()["lcp"]
    assert own == (0.0, pytest.approx(2.0 + 0.01 * mean), 0.0, 0.0)
    assert half.saved == pytest.approx(-0.75)
    assert whole[:3] == (1.0, pytest.approx(1.9 + 0.25 + 0.01 * mean), pytest.approx(-0.15))
    assert whole.error == pytest.approx(0.25 / np.sqrt(n - 1)), "of ± 0.25 s about the mean"
    trials = transfer_shares.candidates(matrix.taught_by)
    assert len(trials) == len(set(trials)) == 3 * n + 2 * (3 * n + 3 * -(-n // 3) + 3 * 2 * -(-n // 2))


def test_trials_of_the_models_count_where_nothing_learned_is_used(tmp_path):
    matrix = Matrix(PLAN, tmp_path)
    keep(matrix, lambda source, plant: 3 if source == DEFAULTS else 2)
    choose(matrix, lambda c: 1.0 + c.share if c.source == "lcp" else 1.0 - c.share)
    cells = {(c["source"], c["plant"]): c for c in matrix.results()["cells"]}
    assert (cells["lcp", "soft"]["succeeded"], cells["lcp", "soft"]["share"]) == (3, 0.0)
    assert (cells["mujoco", "soft"]["succeeded"], cells["mujoco", "soft"]["share"]) == (2, 1.0)
    assert matrix.worst("lcp", "soft") == matrix.worst(DEFAULTS, "soft")


def test_a_world_follows_from_its_seed_and_lies_in_the_ranges():
    assert drawn(3) == drawn(3) != drawn(4)
    many = [drawn(seed) for seed in range(200)]
    assert {f.name for f in dataclasses.fields(World)} == {*RANGES, *SHIFTS}
    for name, (low, high) in (RANGES | SHIFTS).items():
        share = np.log if name in RANGES else np.asarray
        values = (share([getattr(world, name) for world in many]) - share(low)) / (share(high) - share(low))
        assert 0.0 <= values.min() < 0.1 and 0.9 < values.max() <= 1.0
    only = drawn(3, "mass")
    assert only == World(mass=only.mass) and only != NOMINAL_WORLD


def test_delay_and_noise_are_drawn_where_the_spec_sets_none():
    spec = randomised(Spec(overrides=(("latency", 0.005), ("theta", "mine"))), 3)
    assert spec == randomised(Spec(overrides=(("theta", "mine"), ("latency", 0.005))), 3)
    kept = dict(spec.overrides)
    assert spec.world == drawn(3) and (kept["latency"], kept["theta"]) == (0.005, "mine")
    for name, (low, high) in SETTINGS.items():
        values = [dict(randomised(Spec(), seed).overrides)[name] for seed in range(100)]
        margin = 0.1 * (high - low)
        assert low <= min(values) < low + margin and high - margin < max(values) <= high
    read_settings(randomised(Spec(), 3))


@pytest.mark.slow
@pytest.mark.parametrize(("share", "choosing_lines", "trials"), [(None, 7, 2), (1.0, 0, 4)])
def test_an_interrupted_matrix_continues_to_the_same_table(
    share, choosing_lines, trials, tmp_path, monkeypatch
):
    """Two trials cannot show that anything learned helps: those of the models count for both cells."""
    monkeypatch.setattr(transfer_shares, "TRIALS", 2)
    plan = dataclasses.replace(PLAN, plants=("mujoco",), steps=90, trials=2, seconds=2.0, share=share)
    matrix = Matrix(plan, tmp_path)
    # rollouts, two θ, two trials of three shares and their comparison, trials
    assert len(list(matrix.run(1))) == 1 + 2 + choosing_lines + trials
    results = matrix.results()
    kept = matrix.trials_file.read_text()
    matrix.trials_file.write_text("".join(kept.splitlines(keepends=True)[: trials // 2]) + '{"source": "mu')
    again = Matrix(plan, tmp_path)
    assert len(list(again.run(1))) == trials // 2
    found = again.results()
    assert found.pop("trials_wall_s") > 0.0 and results.pop("trials_wall_s") > 0.0
    assert len(results.pop("spent")) == 1
    assert [(s["jobs"], s["ray"]) for s in found.pop("spent")] == [(1, False)] * 2
    assert all(0.0 < row["overlap_m"] < 0.01 for row in again.rows())
    ends = [np.load(path)["t"][-1] for path in sorted((tmp_path / "trials").glob("*/recording.npz"))]
    turned = [row["reached_s"] for row in sorted(again.rows(), key=lambda row: (row["source"], row["k"]))]
    assert any(turned) and all(
        end == pytest.approx(at if at else 2.0, abs=0.021) for end, at in zip(ends, turned, strict=True)
    )
    assert found == results
