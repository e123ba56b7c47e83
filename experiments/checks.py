"""What the demonstrations of all engines share: the outcome of a check, and colours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

BLUE, PINK, GREEN, GREY = "#1f5fa8", "#d61e82", "#3a9d5d", "#7a7a7a"


@dataclass(frozen=True)
class Check:
    """Outcome of one check."""

    results: dict[str, Any]
    """As for :func:`dexstack.cli.output.publish`; ``passed`` says whether the figures were reached."""
    figure: Figure
    lines: list[str]
    """What was found, for people."""
