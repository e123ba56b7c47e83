"""Tasks, one module and one YAML file each, imported on demand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dexstack.config import share_dir
from dexstack.lazy import Registry, is_own

if TYPE_CHECKING:
    from dexstack.tasks.base import Task

TASKS = Registry(
    "task",
    {
        "palm_turn": ("dexstack.tasks.palm_turn", "PalmTurn"),
        "continuous": ("dexstack.tasks.continuous", "Continuous"),
        "reorient": ("dexstack.tasks.reorient", "Reorient"),
        "positions": ("dexstack.tasks.competition", "Positions"),
        "faces": ("dexstack.tasks.competition", "Faces"),
        "three_ball": ("dexstack.tasks.three_ball", "ThreeBall"),
    },
    ("dexstack.tasks.base", "Task"),
)
"""Module of every task of dexstack."""


def load_task(name: str | type[Task]) -> type[Task]:
    """Return a task by its name, or a user's own by the path of a Python file that sets ``TASK``.

    Raises:
        ConfigError: unknown name; or a file that is missing, cannot be run, or sets no task.
    """
    if isinstance(name, type):
        return name
    return TASKS.load(name if is_own(name) else name.replace("-", "_"))[0]


def task_files(name: str | type[Task], *chosen: str) -> list[Path]:
    """Return the parameter files of a task that exist, the last wins: those of its base classes, then
    its own.

    Those specific to a planner or model follow, in the order of ``chosen``: for palm_turn.yaml
    palm_turn.sampling.yaml, palm_turn.dsdf.yaml.
    """
    task = load_task(name)
    folder = share_dir() / "config"
    files = [
        folder / f"{cls.__dict__['name']}.yaml" for cls in reversed(task.__mro__) if "name" in cls.__dict__
    ]
    if is_own(name):
        files.append(Path(name).absolute().with_suffix(".yaml"))
    specific = [path.with_suffix(f".{Path(of).stem}.yaml") for of in chosen if of for path in files]
    return [path for path in (*files, *specific) if path.is_file()]
