"""dexstack: contact-rich in-hand manipulation. The main names, imported on first use."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dexstack import tasks
    from dexstack.api import Planner, closed_loop
    from dexstack.control.base import Observation, Plan
    from dexstack.model.hand import load_hand
    from dexstack.model.objects import load_object
    from dexstack.tasks import load_task

_HOMES = {
    "Planner": "dexstack.api",
    "closed_loop": "dexstack.api",
    "Observation": "dexstack.control.base",
    "Plan": "dexstack.control.base",
    "load_hand": "dexstack.model.hand",
    "load_object": "dexstack.model.objects",
    "load_task": "dexstack.tasks",
}

__all__ = [
    "Observation",
    "Plan",
    "Planner",
    "__version__",
    "closed_loop",
    "load_hand",
    "load_object",
    "load_task",
    "tasks",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name == "tasks":
        return importlib.import_module("dexstack.tasks")
    raise AttributeError(f"module 'dexstack' has no attribute '{name}'; it has {', '.join(sorted(__all__))}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if "gymnasium" in sys.modules:  # names the environments for those who use them, and costs the others nothing
    importlib.import_module("dexstack.environments")
