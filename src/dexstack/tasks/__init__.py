"""Tasks: what a robot is to do with an object; one module and one YAML each, nothing imported
before it is asked for."""

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
    """A task by its name, or a user's own by the path of a Python file whose ``TASK`` is a
    :class:`~dexstack.tasks.base.Task`.

    Raises:
        ConfigError: an unknown name, a file that is missing, cannot be run or holds no task.
    """
    if isinstance(name, type):
        return name
    return TASKS.load(name if is_own(name) else name.replace("-", "_"))[0]


def task_files(name: str | type[Task], planner: str = "") -> list[Path]:
    """The parameter files of a task, the last wins: those of the tasks it derives from, then its
    own; a user's own need not have one.

    With a ``planner``, what they have otherwise with it comes after all of them: for palm_turn.yaml
    palm_turn.sampling.yaml.
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
