"""Imports point one way: no two packages of dexstack need each other, not even for an annotation."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

PACKAGE = Path(next(iter(find_spec("dexstack").submodule_search_locations)))
LAST = {"nodes", "cli"}
"""Only these import them."""


def imported(path: Path) -> set[str]:
    """Return the full names that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def needs() -> dict[str, set[str]]:
    """Return what each package, or module at the top, imports of the others and of the engines."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if part != "__init__":
            names = [name.split(".") for name in imported(path)]
            own = {name[1] for name in names if name[0] == "dexstack" and len(name) > 1}
            engines = {name[0] for name in names if name[0] == "dexengines"}
            found.setdefault(part, set()).update((own | engines) - {part, "__version__"})
    return found


def importers(*parts: str) -> set[str]:
    return {part for part, others in needs().items() if others & set(parts)}


def test_no_packages_import_each_other_in_a_circle():
    left = needs()
    assert {"control", "tasks", "sim", "graph", "nodes"} <= left.keys()
    while ready := {part for part, others in left.items() if not others & left.keys()}:
        left = {part: others for part, others in left.items() if part not in ready}
    assert not left, f"these need each other: {', '.join(sorted(left))}"


def test_packages_are_imported_only_where_they_may_be():
    assert importers(*LAST) <= LAST
    assert importers("onboarding") <= {"cli"}
    assert importers("dexengines") <= {"plants", "process"}
