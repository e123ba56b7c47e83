"""docs/results.md from the results: what was asked for, what came out, and where, when and with
what it was measured."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from experiments.results.sections import TRIALS, Figures, Listing, Section, Whole, trials, worlds
from experiments.results.tables import SECTIONS
from experiments.results.values import looked_up, shown

HEAD = """# Results

Written by `python -m experiments.results` from the files in `experiments/results`; a test says when it is not current. What each experiment
is, and the rules that all keep, stand in `experiments/README.md`. *Reached* says whether what the experiment asks for was reached: what it
asks for was written before it was measured, and stands in its own description (`--help`). Rates come with n and Wilson's interval of 95 %.
Times are processor times on the machine that is named, in turns with those of the peers where there are any.
"""


def page(documents: Mapping[str, Any]) -> str:
    """The whole page.

    Raises:
        ConfigError: a table names what its result does not have.
    """
    named = {section.result for section in SECTIONS}
    sections = [
        _section(section, documents[section.result]) for section in SECTIONS if section.result in documents
    ]
    plain = [
        _section(_guessed(name, documents[name]["results"]), documents[name])
        for name in documents
        if name not in named
    ]
    return HEAD + "\n" + _overview(documents) + "\n" + _tasks(documents) + "\n".join(sections + plain)


_BESIDE = ("result", "task", "object", "planner", "supervisor", "poses [Hz]", "latency [ms]")


def _tasks(documents: Mapping[str, Any]) -> str:
    """Every result of ``dexstack eval`` in one table, so that a planner or supervisor stands beside
    what it is compared with."""
    found = [
        (document["results"], name)
        for name, document in documents.items()
        if document["results"].get("kinds")
    ]
    if not found:
        return ""
    rows = []
    for r, name in sorted(found, key=lambda found: (found[0]["task"], found[0]["object"], found[1])):
        planner = " ".join(str(r[key]) for key in ("planner", "model") if r[key]) or "as the task has it"
        timing = f"{1 / r['period_s']:.0f}", _milliseconds(r["latency_s"])
        own = (f"`{name}.json`", r["task"], r["object"], planner, r["supervisor"], *timing)
        rows.append((*own, *(_cell(r, expression) for _, expression in TRIALS)))
    table = _table((*_BESIDE, *(label for label, _ in TRIALS)), rows)
    return f"## Tasks, with and without a supervisor\n\nAll trials of `dexstack eval`; each has its section below.\n\n{table}\n"


def _guessed(name: str, results: Mapping[str, Any]) -> Section:
    """How to show what no table names."""
    title = name.replace("_", " ")
    return (
        worlds(name, title)
        if "cells" in results
        else trials(name, title)
        if "kinds" in results
        else Section(name, title)
    )


def _overview(documents: Mapping[str, Any]) -> str:
    titles = {section.result: section.title for section in SECTIONS}
    order = [
        *(name for name in titles if name in documents),
        *(name for name in documents if name not in titles),
    ]
    rows = []
    for name in order:
        results = documents[name]["results"]
        passed = results.get("passed")
        if results.get("required_success_rate"):
            passed = results["success_rate"] >= results["required_success_rate"]
        verdict = "–" if passed is None else "yes" if passed else "**no**"
        rows.append((titles.get(name, name.replace("_", " ")), f"`{name}.json`", verdict))
    return _table(("experiment", "result", "reached"), rows)


def _milliseconds(seconds: float | None) -> str:
    return "as measured" if seconds is None else f"{1e3 * seconds:g}"


def _section(section: Section, document: Mapping[str, Any]) -> str:
    parts = [f"## {section.title}\n"]
    if section.note:
        parts.append(section.note + "\n")
    for part in section.parts:
        parts.append(_part(part, document))
    if not section.parts:
        parts.append(_plain(document))
    return "\n".join([*parts, _source(document)])


def _source(document: Mapping[str, Any]) -> str:
    argv = [word for word in document.get("argv", [])]
    if "--json" in argv:
        at = argv.index("--json")
        del argv[at : at + 2]
    machine = document["machine"]
    facts = [
        f"`{shlex.join(argv)}`" if argv else f"`{document['command']}`",
        f"commit {document.get('commit') or 'unknown'}",
    ]
    if document.get("seed") is not None:
        facts.append(f"seed {document['seed']}")
    facts.append(f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}")
    if "load" in machine:
        facts.append(f"load {machine['load'][0]:g}")
    passed = document["results"].get("passed")
    if passed is not None:
        facts.append("reached" if passed else "**not reached**")
    return "; ".join(facts) + ".\n"


def _part(part: Figures | Listing | Whole, document: Mapping[str, Any]) -> str:
    if isinstance(part, Figures):
        return _figures(part, document)
    if isinstance(part, Listing):
        return _listing(part, document)
    return _table(
        [label for label, _ in part.columns],
        [[_cell(document["results"], expression) for _, expression in part.columns]],
    )


def _figures(part: Figures, document: Mapping[str, Any]) -> str:
    return _table(("", ""), [(label, shown(document, expression)) for label, expression in part.rows])


def _listing(part: Listing, document: Mapping[str, Any]) -> str:
    found = looked_up(document, part.where)
    items = [{"name": k, **v} for k, v in found.items()] if isinstance(found, Mapping) else found
    rows = [[_cell(item, expression) for _, expression in part.columns] for item in items]
    return _table([label for label, _ in part.columns], rows)


def _cell(item: Mapping[str, Any], expression: str) -> str:
    """An expression that starts with ``?`` may name what not every item has."""
    optional = expression.startswith("?")
    expression = expression.removeprefix("?")
    if optional and expression.partition(".")[0].partition("*")[0].partition(":")[0] not in item:
        return "–"
    return shown(item, expression)


def _plain(document: Mapping[str, Any]) -> str:
    """The numbers on top of a result that no table says how to show."""
    single = {
        key: value for key, value in document["results"].items() if isinstance(value, int | float | str)
    }
    rows = [(key.replace("_", " "), shown({"value": value}, "value")) for key, value in single.items()]
    return _table(("", ""), rows)


def _table(columns: Any, rows: Any) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return (
        "\n".join(
            lines + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        )
        + "\n"
    )
