"""The cache of compiled kernels is optional."""

import os
import subprocess
import sys

import pytest

from dexengines.cache import KEPT, evict_unused

STEP = """
import mujoco, dexengines
spec = mujoco.MjSpec()
spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=(1, 1, 1))
body = spec.worldbody.add_body()
body.add_freejoint()
body.add_geom(size=(0.1, 0, 0))
scene = dexengines.load(spec, "hydroelastic")
print(scene.step(scene.reset()).time)
"""


def test_an_unused_file_is_evicted_with_its_folder(tmp_path):
    old, new = tmp_path / "old" / "kernel", tmp_path / "new" / "kernel"
    for path in (old, new):
        path.parent.mkdir()
        path.write_text("")
    for path in (old, old.parent):
        os.utime(path, (0.0, path.stat().st_mtime - 2 * KEPT))
    evict_unused(tmp_path)
    assert not old.parent.exists() and new.exists()


@pytest.mark.slow
def test_an_engine_runs_where_the_cache_cannot_be_written(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    home = {"HOME": str(file), "XDG_CACHE_HOME": str(file / "cache")}  # no folder can be made in a file
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | home
    done = subprocess.run([sys.executable, "-c", STEP], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 0.0
