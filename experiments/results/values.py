"""A small language for one value of one result, as pages and tables write it.

    mpc.results.solve_s.p50*1e3:.2f          file experiments/results/mpc.json, its keys one after
    another, times 1000, two digits step.results.levels[3].ratio:.0f         the fourth entry of a
    list ipopt.results.solvers[solver=ours].x     the entry of a list whose ``solver`` is ``ours``
    palm.results["a.b c"]                    a key that is not a plain word rate(x.results.reached,
    x.results.n)     a count or a rate and its n: "9 of 10 (90 %, 60 … 98 %)", the interval being
    Wilson's of 95 %

Numbers take Python's format specifications after a colon, and ``*`` or ``/`` with a number before
it. Without a specification a value is shown as it stands; true and false are yes and no, null is a
dash.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dexstack.errors import ConfigError
from dexstack.report.statistics import wilson

FOLDER = Path(__file__).parent
_STEP = re.compile(
    r'\.?(?P<key>[A-Za-z_][\w-]*)|\["(?P<quoted>[^"]+)"\]|\[(?P<index>\d+)\]|\[(?P<field>\w+)=(?P<value>[^\]]+)\]'
)
_RATE = re.compile(r"rate\((?P<count>.+), (?P<n>.+)\)")
_FORM = re.compile(
    r"(?P<path>(?:\"[^\"]*\"|\[[^\]]*\]|[^:*/\"\[])+)(?P<by>[*/][\d.e+-]+)?(?::(?P<format>.+))?"
)


def load_results(folder: Path = FOLDER) -> dict[str, Any]:
    """Every result by the name of its file.

    Raises:
        ConfigError: a file is not JSON.
    """
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            found[path.stem] = json.loads(path.read_text())
        except ValueError as error:
            raise ConfigError(f"{path} is not JSON: {error}") from None
    return found


def shown(documents: Any, expression: str) -> str:
    """The text of an expression.

    Args:
        documents: what the expression's first key is looked up in.

    Raises:
        ConfigError: nothing has that name, or the value is not of that kind.
    """
    rate = _RATE.fullmatch(expression)
    if rate:
        return proportion(looked_up(documents, rate["count"]), looked_up(documents, rate["n"]))
    parts = _FORM.fullmatch(expression)
    if not parts:
        raise ConfigError(f"'{expression}' is not an expression of a result")
    value = looked_up(documents, parts["path"])
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{v} {str(k).replace('_', ' ')}" for k, v in value.items())
    try:
        if parts["by"]:
            factor = float(parts["by"][1:])
            value = value * factor if parts["by"][0] == "*" else value / factor
        return format(value, parts["format"] or "")
    except (TypeError, ValueError) as error:
        raise ConfigError(f"'{expression}': {error}") from None


def looked_up(documents: Any, path: str) -> Any:
    """The value at a path.

    Raises:
        ConfigError: there is none.
    """
    at, value = 0, documents
    while at < len(path):
        step = _STEP.match(path, at)
        if not step:
            raise ConfigError(f"'{path}' is not a path: cannot read '{path[at:]}'")
        try:
            value = _entry(value, step)
        except (KeyError, IndexError, TypeError, StopIteration):
            known = f"; known: {', '.join(map(str, value))}" if isinstance(value, Mapping) else ""
            raise ConfigError(f"no result has '{path}': nothing at '{step.group()}'{known}") from None
        at = step.end()
    return value


def _entry(value: Any, step: re.Match[str]) -> Any:
    if step["index"] is not None:
        return value[int(step["index"])]
    if step["field"] is not None:
        return next(entry for entry in value if str(entry[step["field"]]) == step["value"])
    return value[step["key"] or step["quoted"]]


def proportion(count: Any, n: Any) -> str:
    """A count or a rate (a float) of n, with its interval.

    Raises:
        ConfigError: they are not of that kind.
    """
    if isinstance(count, float):
        count = round(count * n)
    if isinstance(count, list):
        count = sum(map(bool, count))
    if not (isinstance(count, int) and isinstance(n, int) and 0 <= count <= n and n > 0):
        raise ConfigError(f"{count!r} of {n!r} is not a proportion")
    low, high = wilson(count, n)
    return f"{count} of {n} ({100 * count / n:.0f} %, {100 * low:.0f} … {100 * high:.0f} %)"
