"""Numbers in pages that are those of a result: an expression of :mod:`.values` between two
comments, which no reader of the page sees.

It plans in <!--r:mpc.results.detect_and_solve_s.p50*1e3:.1f-->1.4<!--/--> ms.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from dexstack.errors import ConfigError
from experiments.results.values import shown

MARK = re.compile(r"<!--r:(?P<expression>.+?)-->(?P<text>.*?)<!--/-->", re.DOTALL)
_OPEN, _CLOSE = "<!--r:", "<!--/-->"


def rewritten(text: str, documents: Any, name: str) -> str:
    """The page with every marked number as the results have it.

    Args:
        name: of the page, for complaints.

    Raises:
        ConfigError: a mark names no result, or is not closed.
    """
    marks = MARK.findall(text)
    if not len(marks) == text.count(_OPEN) == text.count(_CLOSE) or any(_OPEN in inner for _, inner in marks):
        raise ConfigError(f"{name}: a marked number is not closed by {_CLOSE}")

    def replace(mark: re.Match[str]) -> str:
        try:
            return f"{_OPEN}{mark['expression']}-->{shown(documents, mark['expression'])}{_CLOSE}"
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from None

    return MARK.sub(replace, text)


def pages(root: Path) -> list[Path]:
    """README and all pages of docs that may hold marks."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
