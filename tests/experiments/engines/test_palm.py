"""The palm scene, shortened: one threshold for every engine."""

from experiments.engines import palm


def test_one_threshold_decides(monkeypatch, outcome):
    monkeypatch.setattr(palm, "SETTLED", 0.05)
    monkeypatch.setattr(palm, "DRIFT", 1.0)
    argv = ["--plants", "mujoco", "--seconds", "0.2"]
    _, results = outcome(palm.main, *argv)
    (row,) = results["plants"]
    assert results["limit_m"] == 1.0 and row["drift_m"] > 0 and row["real_time_factor"] > 0
    monkeypatch.setattr(palm, "DRIFT", 0.0)
    assert palm.main(argv) == 1
