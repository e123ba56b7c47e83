"""The error that a user of the engines sees."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class EngineError(ValueError):
    """A model, material, option or state that an engine cannot use.

    The message is one sentence that names the fault and its place.
    """


def unknown_name(kind: str, name: str, known: Iterable[str]) -> EngineError:
    """Return the error for an unknown name; it suggests the closest known one."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, 1, 0.5)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    return EngineError(f"unknown {kind} '{name}'{hint} (known: {', '.join(known)})")
