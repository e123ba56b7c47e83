"""Tasks: what a robot is to do with an object; one module and one YAML each, nothing imported before it is asked for."""

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
"""Module of every task that comes with dexstack."""


def load_task(name: str | type[Task]) -> type[Task]:
    """A task by its name, or a user's own by the path of a Python file whose ``TASK`` is a :class:`~dexstack.tasks.base.Task`.

    Raises:
        ConfigError: an unknown name, a file that is missing, cannot be run or holds no task.
    """
    if isinstance(name, type):
        return name
    return TASKS.load(name if is_own(name) else name.replace("-", "_"))[0]


def task_files(name: str | type[Task]) -> list[Path]:
    """The parameter files of a task, the last wins: those of the tasks it derives from, then its own; a user's own need not have one."""
    task = load_task(name)
    folder = share_dir() / "config"
    lineage = [cls.__dict__["name"] for cls in reversed(task.__mro__) if "name" in cls.__dict__]
    own = [Path(name).absolute().with_suffix(".yaml")] if is_own(name) else []
    return [path for path in (*(folder / f"{n}.yaml" for n in lineage), *own) if path.is_file()]
