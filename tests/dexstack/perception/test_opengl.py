"""Poses from pictures of another renderer, MuJoCo's with textures, on machines with off-screen OpenGL.

It shares no code with the package's renderer, neither for the tags' orientation nor for the
projection.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

_SCRIPT = Path(__file__).with_name("opengl_cube.py")


def test_poses_agree_with_opengl(tmp_path):
    out = tmp_path / "errors.npy"
    environment = {**os.environ, "MUJOCO_GL": "egl"}
    done = subprocess.run(
        [sys.executable, str(_SCRIPT), str(out)], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode == 77:
        pytest.skip(f"no EGL here (Debian: libegl1 libegl-mesa0 libgl1-mesa-dri): {done.stdout.strip()}")
    assert done.returncode == 0, done.stderr
    errors = np.load(out)
    assert len(errors) >= 15
    shift, turn = np.linalg.norm(errors[:, :3], axis=1), np.linalg.norm(errors[:, 3:], axis=1)
    assert np.median(shift) < 0.4e-3 and shift.max() < 2e-3
    assert np.degrees(np.median(turn)) < 0.3 and np.degrees(turn.max()) < 1.5
