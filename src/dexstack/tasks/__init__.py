"""Tasks: what a robot is to do with an object; one module and one YAML each, nothing imported before it is asked for."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dexstack.config import share_dir
from dexstack.errors import ConfigError
from dexstack.lazy import Registry

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
)
"""Module of every task that comes with dexstack."""


def load_task(name: str | type[Task]) -> type[Task]:
    """A task by its name, or a user's own by the path of a Python file whose ``TASK`` is a :class:`~dexstack.tasks.base.Task`.

    Raises:
        ConfigError: an unknown name, a file that is missing, cannot be run or holds no task.
    """
    if isinstance(name, type):
        return name
    if not name.endswith(".py"):
        return TASKS.load(name.replace("-", "_"))[0]
    path = Path(name).absolute()
    if not path.is_file():
        raise ConfigError(f"there is no task file {path}")
    return _load_file(path, path.stat().st_mtime_ns)


@functools.lru_cache
def _load_file(path: Path, changed: int) -> type[Task]:
    """The task of a file in a state: one class however often it is asked for, since parameters are found by their class."""
    module_name = f"dexstack_task_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"the task file {path} cannot be run: {type(error).__name__}: {error}") from error
    from dexstack.tasks.base import Task

    task = getattr(module, "TASK", None)
    if not (isinstance(task, type) and issubclass(task, Task)):
        raise ConfigError(f"the task file {path} must set TASK to a class derived from dexstack.tasks.base.Task")
    if task.__abstractmethods__:
        raise ConfigError(f"the task of {path} lacks {', '.join(sorted(task.__abstractmethods__))}")
    return task


def task_files(name: str | type[Task]) -> list[Path]:
    """The parameter files of a task, the last wins: those of the tasks it derives from, then its own; a user's own need not have one."""
    task = load_task(name)
    folder = share_dir() / "config"
    lineage = [cls.__dict__["name"] for cls in reversed(task.__mro__) if "name" in cls.__dict__]
    own = [Path(name).absolute().with_suffix(".yaml")] if isinstance(name, str) and name.endswith(".py") else []
    return [path for path in (*(folder / f"{n}.yaml" for n in lineage), *own) if path.is_file()]
