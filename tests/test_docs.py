"""Commands and flags in the pages exist, command blocks run, and the site builds without a warning."""

from __future__ import annotations

import argparse
import importlib
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
GUIDE = sorted(path for path in (ROOT / "docs").glob("*.md") if path.stem not in ("reference", "results"))
PAGES = [
    ROOT / "README.md",
    *GUIDE,
    *(ROOT / "docs").glob("re*.md"),
    *ROOT.glob("hardware/*.md"),
    *ROOT.glob("docker/*.md"),
    *ROOT.glob("experiments/**/*.md"),
    *ROOT.glob("src/**/README.md"),
]
SHELLS = ("bash", "sh", "console")
"""Languages of command blocks: run by the tests, run by the slow tests, not run."""
LONGEST_GUIDE = 22000
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# ([\w/-]+\.(?:yaml|py))\b")
_STARTS = re.compile(
    r"^(?:\w+\$ +)?(?:\.venv/bin/)?((?:dexstack(?=\s|$)|python -m (?:experiments|tests)\.).*)"
)


def blocks(page: Path, *languages: str) -> list[tuple[str, str]]:
    """Return language and text of the fenced blocks of some languages, in order."""
    return [block for block in _BLOCK.findall(page.read_text()) if block[0] in languages]


def commands(page: Path) -> list[str]:
    """Return every command of dexstack, of an experiment or of an acceptance test that a page shows."""
    text = page.read_text()
    lines = [line for _, block in blocks(page, *SHELLS) for line in block.splitlines()]
    lines += re.findall(r"^    .*$", text, re.MULTILINE) + re.findall(r"`([^`\n]+)`", text)
    found = [match[1] for line in lines if (match := _STARTS.match(line.strip()))]
    return [re.split(r" #|   | \|\| ", line)[0].strip() for line in found]


def fault(command: str) -> str:
    """Return what is wrong with a command, "" if nothing is.

    Words in capitals stand for anything.
    """
    words = [word for word in shlex.split(command.replace("…", " ")) if word]
    if words[0] != "dexstack":
        path = ROOT.joinpath(*words[2].split("."))
        exists = path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()
        return "" if exists or not words[2].rpartition(".")[2].islower() else f"there is no {words[2]}"
    if len(words) == 1 or not (words[1].islower() and words[1].isalpha()):
        return ""
    parser, rest = build_parser(words[1] if words[1] in COMMANDS else None), words[1:]
    while True:
        inner = next((a for a in parser._actions if isinstance(a, argparse._SubParsersAction)), None)
        if inner is None or not rest:
            break
        if rest[0] not in inner.choices:
            return "" if rest[0].startswith("-") or not rest[0].islower() else f"there is no {rest[0]}"
        parser, rest = inner.choices[rest[0]], rest[1:]
    flags = [word.split("=")[0] for word in rest if word.startswith("--")]
    unknown = [flag for flag in flags if flag not in parser._option_string_actions]
    return f"there is no {', '.join(unknown)}" if unknown else ""


def starts_a_graph(shown: list[tuple[str, str]]) -> bool:
    return any("dexstack up" in text for _, text in shown)


IN_REAL_TIME = pytest.mark.flaky(reruns=2)
"""Of pages with a graph, in which a turn may take longer than its task allows."""


def run_blocks(page: Path, folder: Path, *languages: str) -> None:
    """Run the command blocks of a page in a folder.

    Blocks of other languages whose first line is a comment with a file name become that file.
    """
    shown = blocks(page, *languages)
    if starts_a_graph(shown) and importlib.util.find_spec("rclpy") is None:
        pytest.skip("a graph needs rclpy")
    programs = folder / "bin"
    programs.mkdir()
    for name, arguments in (("dexstack", "-m dexstack.cli.main "), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments}"$@"\n')
        (programs / name).chmod(0o755)
    paths = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    for language, text in blocks(page, *languages, "yaml", "python"):
        if language in languages:
            done = subprocess.run(
                ["bash", "-euc", text], cwd=folder, env=os.environ | paths, capture_output=True, text=True
            )
            assert done.returncode == 0, f"{page.name}:\n{text}\n{done.stdout}\n{done.stderr}"
        elif match := _FILE.match(text):
            path = folder / match[1]
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_and_flag_exists(page):
    faults = [f"{command}: {why}" for command in commands(page) if (why := fault(command))]
    assert not faults, "\n".join(faults)


def test_unknown_commands_and_flags_are_noticed():
    unknown = ("dexstack dance", "dexstack eval palm_turn --elegance 3", "python -m experiments.lcp.nothing")
    assert all(fault(command) for command in unknown)
    assert not fault("dexstack up sim --goal-yaw 45")
    assert sum(len(commands(page)) for page in PAGES) > 100


@pytest.mark.parametrize("page", [page for page in GUIDE if blocks(page, "bash")], ids=lambda page: page.stem)
def test_quick_command_blocks_run(page, tmp_path):
    run_blocks(page, tmp_path, "bash")


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=IN_REAL_TIME if starts_a_graph(blocks(page, "sh")) else [])
        for page in GUIDE
        if blocks(page, "sh")
    ],
)
def test_all_command_blocks_run(page, tmp_path):
    run_blocks(page, tmp_path, "bash", "sh")


def test_the_guide_is_short_and_has_no_expressions_in_comments():
    written = [ROOT / "README.md", *GUIDE, *ROOT.glob("docker/*.md"), *ROOT.glob("experiments/**/*.md")]
    texts = [
        re.sub(r"^<!-- begin generated.*?^<!-- end generated -->", "", p.read_text(), flags=re.S | re.M)
        for p in written
    ]
    assert sum(len(text.split()) for text in texts) < LONGEST_GUIDE
    assert not [page for page, text in zip(written, texts, strict=True) if re.search(r"^<!--", text, re.M)]


def test_every_name_of_the_python_page_exists():
    entries = re.findall(
        r"^::: (\S+)\n.*\n.*\n +members: \[(.*)\]", (ROOT / "docs" / "api.md").read_text(), re.M
    )
    names = [(module, name) for module, members in entries for name in members.split(", ")]
    assert len(names) > 30
    assert not [name for name in names if not hasattr(importlib.import_module(name[0]), name[1])]


def test_the_task_of_first_steps_is_valid(tmp_path):
    (code,) = (text for _, text in blocks(ROOT / "docs" / "first-steps.md", "python") if "TASK =" in text)
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
    reason="the site needs the extra 'dev'",
)
def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    # not --quiet, which hides warnings from --strict too
    built = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    api = (tmp_path / "site" / "api" / "index.html").read_text()
    names = ("dexstack.api.Planner.plan_batch", "dexstack.tasks.base.Task.stage", "dexengines.load")
    assert all(f'id="{name}"' in api for name in names)
    assert (tmp_path / "site" / "hardware" / "safety" / "index.html").is_file()
