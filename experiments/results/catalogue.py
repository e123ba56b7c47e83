"""Every experiment there is, from the modules themselves: ``experiments/PAPER/NAME.py`` with a
``main``."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[1]


class Experiment(NamedTuple):
    """One module."""

    paper: str
    name: str
    summary: str
    """First sentence of its docstring."""

    @property
    def command(self) -> str:
        """What runs it."""
        return f"python -m experiments.{self.paper}.{self.name}"


def experiments() -> list[Experiment]:
    """All of them, folder by folder; nothing is imported."""
    found = []
    for path in sorted(FOLDER.glob("*/*.py")):
        module = ast.parse(path.read_text())
        if path.parent.name != "results" and any(
            isinstance(node, ast.FunctionDef) and node.name == "main" for node in module.body
        ):
            summary = " ".join((ast.get_docstring(module) or "").split("\n\n")[0].split())
            found.append(Experiment(path.parent.name, path.stem, summary))
    return found


def listed() -> str:
    """A table for people, one heading per folder."""
    lines: list[str] = []
    paper = ""
    for e in experiments():
        if e.paper != paper:
            paper = e.paper
            lines += ["", f"### {paper}", "", "| command | what it shows |", "|---|---|"]
        lines.append(f"| `{e.command}` | {e.summary} |")
    return "\n".join(lines).strip() + "\n"
