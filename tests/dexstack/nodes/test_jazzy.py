"""A whole graph runs on the wheels of Jazzy, which differ from those that the other tests use."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OF_A_RELEASE = ("LD_LIBRARY_PATH", "_ROS_WHEELS_BOOTSTRAP_COMPLETE", "PYTHONHOME")
"""Variables by which the wheels of one release tell a child process where their libraries are."""


@pytest.mark.slow
def test_a_rollout_reaches_its_goal_on_jazzy(tmp_path):
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    kilted = setup["options.extras_require"]["ros"].split()
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    names = [name.replace("kilted", "jazzy") for name in kilted]
    found = subprocess.run([python, "-m", "pip", "install", "-q", *names], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"the package index has no wheels of Jazzy for this Python: {found.stderr[-300:]}")
    site = Path(
        subprocess.check_output(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
        ).strip()
    )
    (site / "zz_everything_else.pth").write_text(sysconfig.get_path("purelib") + "\n")  # after Jazzy's own
    environment = {k: v for k, v in os.environ.items() if k not in OF_A_RELEASE}
    environment["PYTHONPATH"] = str(ROOT / "src")
    version = "import importlib.metadata as m, rclpy; print(rclpy.__file__, m.version('ros-jazzy-rclpy'))"
    options = {"env": environment, "cwd": tmp_path, "text": True}
    where, _, release = subprocess.check_output([python, "-c", version], **options).strip().partition(" ")
    assert Path(where).is_relative_to(site) and release.startswith("7.1"), "another release was loaded"
    command = [python, "-m", "dexstack.cli.main", "up", "sim", "--goal-yaw", "45", "--seconds", "10"]
    run = subprocess.run(command, capture_output=True, timeout=300.0, **options)
    assert run.returncode == 0 and "reached, asked +45°" in run.stdout + run.stderr, run.stderr[-2000:]
