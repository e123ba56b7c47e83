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
        "palm_turn": ("dexstack.tasks.palm_turn", "TASK"),
        "continuous": ("dexstack.tasks.continuous", "TASK"),
        "reorient": ("dexstack.tasks.reorient", "TASK"),
        "three_ball": ("dexstack.tasks.three_ball", "TASK"),
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


def task_files(name: str | type[Task], planner: str = "") -> list[Path]:
    """Return the parameter files of a task that exist, the last wins: those of its base classes, then
    its own.

    With a ``planner``, the files specific to it follow: for palm_turn.yaml palm_turn.sampling.yaml.
    """
    task = load_task(name)
    folder = share_dir() / "config"
    files = [
        folder / f"{cls.__dict__['name']}.yaml" for cls in reversed(task.__mro__) if "name" in cls.__dict__
    ]
    if is_own(name):
        files.append(Path(name).absolute().with_suffix(".yaml"))
    with_planner = [path.with_suffix(f".{Path(planner).stem}.yaml") for path in files] if planner else []
    return [path for path in (*files, *with_planner) if path.is_file()]
