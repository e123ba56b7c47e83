"""Load results and format their values for tables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dexstack.errors import ConfigError
from dexstack.report.statistics import wilson

FOLDER = Path(__file__).parent
_RATE = re.compile(r"rate\((.+), (.+)\)")
_VALUE = re.compile(r"([^*/:]+)(?:([*/])([\d.e+-]+))?(?::(.+))?")


def load_results(folder: Path = FOLDER) -> dict[str, Any]:
    """Return every result of a folder by the name of its file.

    Raises:
        ConfigError: If a file is not JSON.
    """
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            found[path.stem] = json.loads(path.read_text())
        except ValueError as error:
            raise ConfigError(f"{path} is not JSON: {error}") from None
    return found


def lookup(entry: Any, path: str) -> Any:
    """Return the value at a path of keys and indices joined by dots, None if it is absent."""
    for key in path.split("."):
        if isinstance(entry, list) and key.isdigit() and int(key) < len(entry):
            entry = entry[int(key)]
        elif isinstance(entry, Mapping):
            entry = entry.get(key)
        else:
            return None
    return entry


def cell(entry: Any, expression: str) -> str:
    """Return the text of an expression, a dash where the entry lacks the value.

    Args:
        entry: Mapping or list in which the path is looked up.
        expression: ``path``, ``path*factor:format``, or ``rate(path of a count, path of n)``.

    Raises:
        ConfigError: If the value does not fit the expression.
    """
    try:
        if match := _RATE.fullmatch(expression):
            count, n = (lookup(entry, path) for path in match.groups())
            return "–" if count is None else rate(count, n)
        path, sign, factor, form = _VALUE.fullmatch(expression).groups()
        scale = float(factor or 1) if sign != "/" else 1 / float(factor)
        return _text(lookup(entry, path), scale, form)
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigError(f"cannot show '{expression}': {error}") from None


def rate(count: int | float | list, n: int) -> str:
    """Return "9 of 10 (90 %, 60 … 98 %)", with Wilson's interval of 95 %.

    Args:
        count: Number of successes, share of successes, or one truth value per trial.
        n: Number of trials.

    Raises:
        ValueError: If the count does not lie in 0 … n.
    """
    count = sum(count) if isinstance(count, list) else round(count * n) if isinstance(count, float) else count
    if not 0 <= count <= n:
        raise ValueError(f"{count} of {n} is not a proportion")
    low, high = wilson(count, n)
    return f"{count} of {n} ({100 * count / n:.0f} %, {100 * low:.0f} … {100 * high:.0f} %)"


def _text(value: Any, scale: float, form: str | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{count} {key.replace('_', ' ')}" for key, count in value.items())
    if isinstance(value, list):
        return ", ".join(_text(x, scale, form) for x in value)
    if form is None and not isinstance(value, float):
        return str(value)
    return format(value * scale, form or ".3g")


def table(columns: Any, rows: Any) -> str:
    """Return a Markdown table."""
    escaped = [[text.replace("|", "\\|") for text in row] for row in (columns, *rows)]
    lines = ["| " + " | ".join(row) + " |" for row in escaped]
    return "\n".join([lines[0], "|" + "---|" * len(escaped[0]), *lines[1:]]) + "\n"
