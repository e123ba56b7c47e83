"""What the pages say can be done can be done: commands and flags exist, the tutorial's task is one,
the site builds without a warning."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dexstack.cli.main import COMMANDS, build_parser
from dexstack.control.base import PlannedState
from dexstack.tasks import load_task

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *(ROOT / "docs").glob("*.md"),
    *ROOT.glob("hardware/*.md"),
    *ROOT.glob("docker/*.md"),
    *ROOT.glob("experiments/**/*.md"),
    *ROOT.glob("src/dexstack/**/*.md"),
]
_STARTS = re.compile(r"^(?:\.venv/bin/)?(dexstack|python -m experiments\.)(?=\s|\w)")
LONGEST_README = 500


def commands(page: Path) -> list[str]:
    """Every line of a block and every piece of inline code that calls dexstack or an experiment."""
    text = page.read_text()
    fenced = [
        line
        for block in re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        for line in block.splitlines()
    ]
    lines = [
        line.strip()
        for line in (*re.findall(r"^    .*$", text, re.MULTILINE), *fenced, *re.findall(r"`([^`\n]+)`", text))
    ]
    return [line.split(" #")[0].split("   ")[0].strip() for line in lines if _STARTS.match(line)]


def fault(command: str) -> str:
    """What is wrong with a command; empty if nothing is. Words that stand for something (N, NAME,
    TASK, …) may be anything."""
    words = [word for word in shlex.split(command.replace("…", " ")) if word]
    if words[0] != "dexstack":
        path = ROOT.joinpath(*words[2].split("."))
        there = path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()
        return "" if there or not words[2].rpartition(".")[2].islower() else f"there is no {words[2]}"
    if len(words) == 1 or not (words[1].islower() and words[1].isalpha()):
        return ""
    parser, rest = build_parser(words[1] if words[1] in COMMANDS else None), words[1:]
    while True:
        inner = next((a for a in parser._actions if isinstance(a, argparse._SubParsersAction)), None)
        if inner is None or not rest:
            break
        if "|" in rest[0]:
            unknown = [name for name in rest[0].split("|") if name not in inner.choices]
            return f"there is no {', '.join(unknown)}" if unknown else ""
        if rest[0] not in inner.choices:
            return "" if rest[0].startswith("-") or not rest[0].islower() else f"there is no {rest[0]}"
        parser, rest = inner.choices[rest[0]], rest[1:]
    flags = [word.split("=")[0] for word in rest if word.startswith("--")]
    unknown = [flag for flag in flags if flag not in parser._option_string_actions]
    return f"there is no {', '.join(unknown)}" if unknown else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_and_flag_exists(page):
    faults = [f"{command}: {why}" for command in commands(page) if (why := fault(command))]
    assert not faults, "\n".join(faults)


def test_what_does_not_exist_is_noticed():
    assert (
        fault("dexstack dance")
        and fault("dexstack eval palm_turn --elegance 3")
        and fault("python -m experiments.lcp.nothing")
    )
    assert (
        fault("dexstack bench mpc|dance")
        and not fault("dexstack up sim --goal-yaw 45")
        and not fault("dexstack bench mpc|hand")
    )
    found = sum(len(commands(page)) for page in PAGES)
    assert found > 100


def test_readme_is_short():
    prose = re.sub(r"<!--.*?-->", "", (ROOT / "README.md").read_text())
    assert len(prose.split()) <= LONGEST_README


def test_the_task_of_first_steps_is_one(tmp_path):
    text = (ROOT / "docs" / "first-steps.md").read_text()
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "TASK =" in block)
    path = tmp_path / "there_and_back.py"
    path.write_text(code)
    assert load_task(str(path)) is load_task(str(path)), "parameters are found by their class"
    task = load_task(str(path))()
    goals = list(task.goals(0, 0))
    assert len(goals) == 3 and np.allclose(goals[-1].pose_WO, task.start().pose_WO)
    pose_WO = np.asarray(task.start().pose_WO, np.float32) + np.float32([0.01, 0, 0, 0, 0, 0, 0])
    state = PlannedState(pose_WO[:3], pose_WO[3:], np.zeros(16, np.float32), np.zeros((4, 3), np.float32))
    free, held = (
        task.stage(state, goals[-1].pose_WO, task.Weights(contact_weight=0.0, stay_weight=w))
        for w in (0.0, 100.0)
    )
    assert float(held @ held - free @ free) == pytest.approx(100.0 * 0.01**2, rel=1e-3)


@pytest.mark.slow
@pytest.mark.skipif(
    not (importlib.util.find_spec("mkdocs") and importlib.util.find_spec("mkdocstrings")),
    reason="the site needs the extra 'docs'",
)
def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    # not --quiet, which hides warnings from --strict too
    built = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    api = (tmp_path / "site" / "api" / "index.html").read_text()
    assert all(
        f'id="dexstack.{name}"' in api
        for name in ("api.Planner.plan_batch", "tasks.base.Task.stage", "engines.base.Plant.step")
    )
    assert (tmp_path / "site" / "hardware" / "safety" / "index.html").is_file()
