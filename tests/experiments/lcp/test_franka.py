"""A public arm with its own meshes lifts a plate without touching what it must not."""

import json

import pytest

from experiments.harness import USAGE_ERROR
from experiments.lcp import franka


@pytest.mark.slow
def test_a_thick_plate_is_held_and_nothing_overlaps(tmp_path, monkeypatch):
    monkeypatch.setattr(franka, "CASES", ((0.02, 10.0),))
    code = franka.main(["--json", str(tmp_path / "out.json")])
    if code == USAGE_ERROR:
        pytest.skip("the arm's package cannot be fetched")
    assert code == 0
    lcp, mujoco = json.loads((tmp_path / "out.json").read_text())["results"]["rows"]
    assert lcp["held"] and lcp["risen_m"] > 0.055 and lcp["depth_worst_m"] == 0.0 and not lcp["trouble"]
    assert mujoco["risen_m"] > 0.055 and mujoco["depth_worst_m"] > 1e-4  # soft contact gives way
