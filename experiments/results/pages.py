"""Render docs/results/*.md as pages.yaml describes them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from dexstack.errors import ConfigError
from experiments.results.values import cell, lookup, table

SPECIFICATION = Path(__file__).with_name("pages.yaml")


def load_pages() -> dict[str, Any]:
    """Return the descriptions of all pages by their names."""
    return yaml.safe_load(SPECIFICATION.read_text())


def shown_results(page: Mapping[str, Any]) -> list[str]:
    """Return the names of the results that a page shows."""
    return [name for section in page["sections"] for name in section.get("results", [section.get("result")])]


def render(name: str, page: Mapping[str, Any], documents: Mapping[str, Any]) -> str:
    """Return the text of one page.

    Args:
        name: Name of the page, for errors.
        page: Its description in pages.yaml.
        documents: All results by name.

    Raises:
        ConfigError: If a section names a result or rows that do not exist.
    """
    parts = [f"# {page['title']}", "[All results](../results.md)", page.get("about", "")]
    for section in page["sections"]:
        try:
            parts += _section(section, documents)
        except (ConfigError, KeyError, AttributeError, TypeError) as error:
            raise ConfigError(f"pages.yaml, {name}, '{section['title']}': {error}") from None
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def section_tables(page: str, title: str, documents: Mapping[str, Any]) -> str:
    """Return the tables of one section of a page, with one result, and their source.

    Raises:
        ConfigError: If there is no such section.
    """
    for section in load_pages()[page]["sections"]:
        if section["title"] == title:
            return "\n\n".join(part.strip() for part in _section(section, documents)[1:] if part)
    raise ConfigError(f"pages.yaml, {page}: there is no section '{title}'")


def _section(section: Mapping[str, Any], documents: Mapping[str, Any]) -> list[str]:
    parts = [f"## {section['title']}", section.get("note", "")]
    if "results" in section:
        columns = section["columns"]
        rows = [
            (label, *(cell(documents[name]["results"], value) for value in columns.values()))
            for name, label in section["results"].items()
        ]
        sources = [
            f"- {label}: {_source(name, documents[name])}" for name, label in section["results"].items()
        ]
        return [*parts, table(("", *columns), rows), "\n".join(sources)]
    name = section["result"]
    tables = [_table(part, documents[name]["results"]) for part in section["tables"]]
    return [*parts, *tables, _source(name, documents[name])]


def _table(part: Mapping[str, Any], results: Any) -> str:
    if "values" in part:
        return table(("", ""), [(label, cell(results, value)) for label, value in part["values"].items()])
    found = results if part["rows"] == "." else lookup(results, part["rows"])
    if isinstance(found, Mapping):
        found = [{"name": key, **entry} for key, entry in found.items() if isinstance(entry, Mapping)]
    columns = ({part["label"]: "name"} if "label" in part else {}) | part["columns"]
    return table(columns, [[cell(entry, value) for value in columns.values()] for entry in found])


def _source(name: str, document: Mapping[str, Any]) -> str:
    argv = list(document["argv"])
    if "--json" in argv:
        at = argv.index("--json")
        del argv[at : at + 2]
    machine, passed = document["machine"], document["results"].get("passed")
    facts = [
        f"`{name}.json`: `{shlex.join(argv)}`",
        f"commit {document['commit']}",
        f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}",
        f"load {machine['load'][0]:g}",
    ]
    if passed is not None:
        facts.append("requirement met" if passed else "**requirement not met**")
    return "; ".join(facts) + "."
