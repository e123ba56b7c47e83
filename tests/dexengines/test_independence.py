"""The engines do not depend on the robot stack."""

import ast
from importlib.util import find_spec
from pathlib import Path


def test_dexengines_imports_nothing_of_dexstack():
    [package] = find_spec("dexengines").submodule_search_locations
    for path in Path(package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [getattr(node, "module", None) or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [n for n in names if n.split(".")[0] == "dexstack"], f"{path}:{node.lineno}"
