"""A wheel works where there is no checkout."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_an_installed_wheel_runs_the_demo_without_a_checkout(tmp_path):
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    source = tmp_path / "source"  # a build leaves folders behind
    left_out = shutil.ignore_patterns(
        ".git", ".venv", ".*_cache", "__pycache__", "*.egg-info", "build", "results"
    )
    shutil.copytree(ROOT, source, ignore=left_out)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path / "wheels", source, env=clean)
    (wheel,) = (tmp_path / "wheels").glob("dexstack-*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel, env=clean)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = clean | {"HOME": str(tmp_path)}  # without what was compiled before
    command = (
        tmp_path / "env" / "bin" / "dexstack",
        *("demo", "--task", "palm_turn", "--seconds", "1.5", "--out", "turn.html", "--no-open", "--json"),
    )
    document = json.loads(run(*command, cwd=elsewhere, env=environment))
    assert document["results"]["tasks"][0]["goals_reached"] == 1
    page = (elsewhere / "turn.html").read_text()
    assert "data:image/gif;base64," in page
    engines = "import dexengines, sys; assert sorted(dexengines.ENGINES); print(dexengines.__file__)"
    assert str(tmp_path / "env") in run(python, "-c", engines, cwd=elsewhere, env=environment)
