"""What a demonstration returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure


@dataclass(frozen=True)
class Check:
    """Outcome of one check."""

    results: dict[str, Any]
    """As for :func:`dexstack.cli.output.publish`; ``passed`` says whether the figures were reached."""
    figure: Figure
    lines: list[str]
    """What was found, for people."""
