"""Imports point one way: no two packages of dexstack need each other, not even for an
annotation."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

PACKAGE = Path(next(iter(find_spec("dexstack").submodule_search_locations)))
LAST = {"nodes", "cli"}
"""Nothing imports these but they themselves."""


def imported(path: Path) -> set[str]:
    """The parts of dexstack that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [f"dexstack.{alias.name}" for alias in node.names]
                if node.module == "dexstack"
                else [node.module]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("dexstack.")}
    return found


def needs() -> dict[str, set[str]]:
    """What each package, or module at the top, imports of the others."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if part != "__init__":
            found.setdefault(part, set()).update(imported(path) - {part, "__version__"})
    return found


def test_no_packages_import_each_other_in_a_circle():
    left = needs()
    assert {"control", "tasks", "sim", "graph", "nodes"} <= left.keys()
    while ready := {part for part, others in left.items() if not others & left.keys()}:
        left = {part: others for part, others in left.items() if part not in ready}
    assert not left, f"these need each other: {', '.join(sorted(left))}"


def test_nothing_stands_on_the_nodes_or_the_commands():
    assert {part for part, others in needs().items() if others & LAST} <= LAST


def test_only_commands_import_onboarding():
    assert {part for part, others in needs().items() if "onboarding" in others} <= {"cli"}


def test_only_plants_and_process_import_the_engines():
    importers = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if any(name.partition(".")[0] == "dexengines" for name in names):
                importers.add(path.relative_to(PACKAGE).parts[0])
    assert importers <= {"plants", "process"}
