"""Sizes of the code, in Python statements, which formatting cannot change: ``python -m tests.sizes``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PARTS = {name: ROOT / name for name in ("src/dexstack", "src/dexengines", "tests", "experiments")}
LONGEST_FILE = 500
"""Lines."""
LONGEST_FUNCTION = 70
"""Lines, without a reason for more (the words "in one piece because") in the docstring."""


class Function(NamedTuple):
    """A function of the code and its length."""

    where: str
    lines: int
    reasoned: bool
    """True if the docstring says why the function is long."""


def files(part: str) -> list[Path]:
    """Return the Python files of a part."""
    return sorted(PARTS[part].rglob("*.py"))


def statements(part: str) -> int:
    """Count the statements (``ast.stmt``) of all files of a part."""
    trees = (ast.parse(path.read_text()) for path in files(part))
    return sum(isinstance(node, ast.stmt) for tree in trees for node in ast.walk(tree))


def functions(part: str) -> Iterator[Function]:
    """Yield every function of a part."""
    for path in files(part):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                reasoned = "in one piece because" in " ".join((ast.get_docstring(node) or "").split())
                where = f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
                yield Function(where, node.end_lineno - node.lineno + 1, reasoned)


def long_files(part: str) -> list[str]:
    """Return the files of a part with more than :data:`LONGEST_FILE` lines."""
    counted = ((len(path.read_text().splitlines()), path.relative_to(ROOT)) for path in files(part))
    return [f"{path}: {lines}" for lines, path in counted if lines > LONGEST_FILE]


def long_functions(part: str) -> list[str]:
    """Return the functions of a part with more than :data:`LONGEST_FUNCTION` lines and no reason for it."""
    return [f"{f.where}: {f.lines}" for f in functions(part) if f.lines > LONGEST_FUNCTION and not f.reasoned]


if __name__ == "__main__":
    for part in PARTS:
        print(f"{part}: {statements(part)} statements")
        print(*(f"  {line} lines" for line in (*long_files(part), *long_functions(part))), sep="\n")
