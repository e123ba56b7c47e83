"""``dexstack eval robustness``: other worlds reach the plant and not the controller; table, heat map and exit code."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dexstack.cli.eval.pool import in_processes, on_ray

from dexstack.cli.eval import robustness
from dexstack.cli.main import main
from dexstack.engines import make_plant
from dexstack.sim.loop import ClosedLoop, LoopSpec


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


FOREVER = """
import os, pathlib, time
def f(k):
    pathlib.Path(__file__).with_name(f"pid{k}").write_text(str(os.getpid()))
    time.sleep(600)
"""
COMMAND = """
from dexstack.cli.eval.pool import in_processes
from forever import f
if __name__ == "__main__":
    list(in_processes(f, 2, [0, 1]))
"""


def test_no_process_of_a_killed_command_goes_on(tmp_path):
    """SIGKILL, after which nothing of the command can clean up."""
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
