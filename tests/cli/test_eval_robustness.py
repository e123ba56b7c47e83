"""``dexstack eval robustness``: other worlds reach the plant and not the controller; table, heat map and exit code."""

import json

import pytest

from dexstack.cli.eval import robustness
from dexstack.cli.eval.pool import in_processes, on_ray
from dexstack.cli.main import main
from dexstack.closed_loop import ClosedLoop, LoopSpec
from dexstack.engines import make_plant


@pytest.mark.slow
def test_cells_are_counted_and_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(robustness, "CELLS", robustness.CELLS[:2])
    argv = ["eval", "robustness", "--trials", "1", "--require", "0", "--results", str(tmp_path), "--json", str(tmp_path / "out.json")]
    assert main(argv) == 0
    r = json.loads((tmp_path / "out.json").read_text())["results"]
    assert [c["cell"] for c in r["cells"]] == ["as believed", "mass × 0.5"]
    assert r["success_rate"] == min(c["success_rate"] for c in r["cells"])
    assert (tmp_path / "robustness.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_plant_is_scaled_and_the_controller_is_not_told():
    loop = ClosedLoop(LoopSpec(plant_scale=(2.0, 0.5, 1.05)))
    told, actual = loop.obj, loop.plant.model.body("object")
    assert actual.mass[0] == pytest.approx(2 * told.mass)
    believed = make_plant("mujoco", loop.hand, told).model
    rough = [m.geom_friction[m.geom_contype > 0, 0] for m in (loop.plant.model, believed)]
    assert rough[0] == pytest.approx(0.5 * rough[1])  # of hand and object: a contact takes the larger of two
    assert float(loop.theta.mass) == pytest.approx(told.mass)
    assert loop.plant.pose_WO[2] > told.start("allegro").pose_WO[2]


@pytest.mark.parametrize("spread", [in_processes, on_ray])
def test_trials_come_back_in_order(spread):
    if spread is on_ray:
        pytest.importorskip("ray", reason="comes with the extra [ray] only")
    assert list(spread(divmod, 2, [7, 8, 9], [2, 3, 4])) == [(3, 1), (2, 2), (2, 1)]
