"""The comparison of batches, with few scenes."""

import math

from experiments.engines.batches import OFF, PART, STEPS, main


def test_two_counts_of_two_engines_agree_with_mujoco(outcome):
    argv = ["--engines", "mujoco", "hydroelastic", "--largest", "20", "--seconds", "0.5", "--threads", "2"]
    code, results = outcome(main, *argv)
    assert code == 0
    rows = {(row["who"], row["n"]): row for row in results["rows"]}
    assert set(rows) >= {
        (who, n) for who in ("mujoco", "hydroelastic", "MuJoCo's rollout") for n in (1, 4, 16)
    }
    for row in rows.values():
        assert row["steps"] % PART == 0 and 0 < row["steps"] <= STEPS and row["off_m"] <= OFF
        assert math.isclose(row["steps_per_s"] * row["wall_s"], row["n"] * row["steps"])
    assert rows["MuJoCo's rollout", 1]["off_m"] < 1e-9 and results["device"].startswith("cpu")
