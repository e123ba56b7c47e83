"""README and parameter files agree with the code."""

import dataclasses
import re
import subprocess
from pathlib import Path

from dexstack.config import read_parameter_file, share_dir
from dexstack.control.params import BlindParams, GaitParams, MpcParams, PlannerParams
from dexstack.graph.parameters import MpcNodeParams
from dexstack.tasks.palm_turn import PalmWeights

ROOT = Path(__file__).parents[1]


def test_ci_extracts_the_readmes_two_commands():
    commands = subprocess.run([ROOT / ".ci" / "readme-commands"], capture_output=True, text=True, check=True)
    run, test = commands.stdout.splitlines()
    assert run.endswith(".venv/bin/dexstack up sim") and test.endswith(".venv/bin/python -m pytest")


def test_links_and_pictures_of_the_readme_exist_and_the_film_is_small():
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / "README.md").read_text())
    assert len(targets) > 20 and not [target for target in targets if not (ROOT / target).exists()]
    assert (ROOT / "docs" / "turn.gif").stat().st_size < 3e6


def test_the_parameter_file_repeats_the_defaults_it_shows():
    """Files show defaults to users; the code must have the same values without a file."""
    shown = read_parameter_file(share_dir() / "config" / "palm_turn.yaml", "mpc")
    defaults = {
        f.name: f.default
        for cls in (PlannerParams, MpcParams, PalmWeights, GaitParams, BlindParams, MpcNodeParams)
        for f in dataclasses.fields(cls)
    }
    planner = {
        name: value for name, value in shown.items() if name not in ("command_timeout", "hold_timeout")
    }
    assert len(planner) > 10
    assert planner == {name: defaults[name] for name in planner}


def test_every_key_of_the_parameter_files_is_commented():
    for path in (share_dir() / "config").glob("*.yaml"):
        for line in path.read_text().splitlines():
            text = line.strip()
            assert text.startswith("#") or text.endswith(":") or not text or "#" in text, (
                f"{path.name}: {text}"
            )
