"""A whole graph and the quick tests of nodes run on the wheels of Jazzy; other tests use those of Kilted."""

import configparser
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OF_A_RELEASE = ("LD_LIBRARY_PATH", "_ROS_WHEELS_BOOTSTRAP_COMPLETE", "PYTHONHOME")
"""Variables by which the wheels of one release tell a child process where their libraries are."""


Run = Callable[..., subprocess.CompletedProcess]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def jazzy(tmp_path_factory) -> Run:
    """Return a function that runs Python with the wheels of Jazzy and all other packages of this one."""
    folder = tmp_path_factory.mktemp("jazzy")
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    kilted = setup["options.extras_require"]["ros"].split()
    python = folder / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    names = [name.replace("kilted", "jazzy") for name in kilted]
    found = subprocess.run([python, "-m", "pip", "install", "-q", *names], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"the package index has no wheels of Jazzy for this Python: {found.stderr[-300:]}")
    purelib = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.check_output(purelib, text=True).strip())
    (site / "zz_everything_else.pth").write_text(sysconfig.get_path("purelib") + "\n")  # after Jazzy's own
    environment = {k: v for k, v in os.environ.items() if k not in OF_A_RELEASE}
    environment["PYTHONPATH"] = str(ROOT / "src")

    def run(*arguments: str, cwd: Path = folder) -> subprocess.CompletedProcess:
        return subprocess.run(
            [python, *arguments], env=environment, cwd=cwd, capture_output=True, text=True, timeout=900.0
        )

    version = "import importlib.metadata as m, rclpy; print(rclpy.__file__, m.version('ros-jazzy-rclpy'))"
    where, _, release = run("-c", version).stdout.strip().partition(" ")
    assert Path(where).is_relative_to(site) and release.startswith("7.1"), "another release was loaded"
    return run


def test_a_rollout_reaches_its_goal_on_jazzy(jazzy):
    run = jazzy("-m", "dexstack.cli.main", "up", "sim", "--goal-yaw", "45", "--seconds", "10")
    assert run.returncode == 0 and "reached, asked +45°" in run.stdout + run.stderr, run.stderr[-2000:]


def test_the_nodes_pass_their_tests_on_jazzy(jazzy, tmp_path):
    """All quick ones; some are in real time."""
    options = ("-q", "-n", "0", "--reruns", "2", "-o", f"cache_dir={tmp_path}")
    run = jazzy("-m", "pytest", *options, "tests/dexstack/nodes", cwd=ROOT)
    assert run.returncode == 0, run.stdout[-3000:]
