"""The table of docs/results.md and the generated blocks of README and other pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from dexstack.errors import ConfigError
from experiments.results.pages import section_tables
from experiments.results.values import cell, table

EXPERIMENTS = Path(__file__).parents[1]
_BEGIN = re.compile(r"^<!-- begin generated: (\w+) -->$", re.M)
_BLOCK = re.compile(rf"({_BEGIN.pattern})((?:(?!^<!-- ).)*)(^<!-- end generated -->)", re.S | re.M)


def claims_table(documents: Mapping[str, Any], folder: str, count: int | None = None) -> str:
    """Return the first ``count`` rows of claims.yaml as a Markdown table, all by default.

    Args:
        documents: All results by name.
        folder: Path of docs/results as seen from the page.

    Raises:
        ConfigError: If a claim names a result that does not exist.
    """
    results = {name: document["results"] for name, document in documents.items()}
    rows = []
    for claim in yaml.safe_load(Path(__file__).with_name("claims.yaml").read_text())[:count]:
        if claim["of"] not in results:
            raise ConfigError(f"claims.yaml: there is no result '{claim['of']}'")
        values = {**results, **results[claim["of"]]}
        condition, figure = (
            re.sub(r"\{([^}]+)\}", lambda match, values=values: cell(values, match[1]), claim[key])
            for key in ("condition", "figure")
        )
        rows.append((claim["claim"], condition, figure, f"[details]({folder}/{claim['page']}.md)"))
    return table(("what", "condition", "result", ""), rows)


def experiments() -> dict[str, str]:
    """Return the first paragraph of the docstring of every experiment by ``paper.name``.

    An experiment is a module ``experiments/PAPER/NAME.py`` that assigns ``main``; nothing is imported.
    """
    found = {}
    for path in sorted(EXPERIMENTS.glob("*/*.py")):
        module = ast.parse(path.read_text())
        assigned = [node.targets[0] for node in module.body if isinstance(node, ast.Assign)]
        names = {target.id for target in assigned if isinstance(target, ast.Name)}
        if path.parent.name != "results" and "main" in names:
            summary = (ast.get_docstring(module) or "").split("\n\n")[0]
            found[f"{path.parent.name}.{path.stem}"] = " ".join(summary.split())
    return found


def fill(text: str, documents: Mapping[str, Any], name: str) -> str:
    """Return a page with current text between ``begin generated: NAME`` and ``end generated``.

    Args:
        text: The page.
        documents: All results by name.
        name: Name of the page, for errors.

    Raises:
        ConfigError: If a block has an unknown name or no end.
    """
    blocks = {
        "stopping": lambda: section_tables("hand", "Time to stop", documents) + "\n",
        "claims": lambda: claims_table(documents, "docs/results", 5),
        "experiments": lambda: table(
            ("command", "what it shows"),
            [(f"`python -m experiments.{key}`", summary) for key, summary in experiments().items()],
        ),
    }
    found = [match[2] for match in _BLOCK.finditer(text)]
    if found != _BEGIN.findall(text) or not set(found) <= set(blocks):
        raise ConfigError(f"{name}: a generated block is unknown or has no end; known: {', '.join(blocks)}")
    return _BLOCK.sub(lambda match: f"{match[1]}\n\n{blocks[match[2]]()}\n{match[4]}", text)
