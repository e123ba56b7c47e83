"""Registries of classes by name, imported on demand, or by the path of a user's Python file."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dexstack.errors import ConfigError, unknown_name


class Registry(Mapping[str, tuple[str, ...]]):
    """Classes or functions of one kind by name, each with its parameter class.

    The path of a Python file, such as ``my_plant.py``, may replace a name. The file sets the kind's
    constant, here ``PLANT``, to a class with its parameter class as ``Params``. Every such path is
    ``in`` a registry.

    Args:
        what: the kind; in capitals, the constant of users' files.
        entries: module and names in it, by name.
        base: module and name of the base class of users' classes.
        formats: as ``entries``, for files of other formats by their suffix.
    """

    def __init__(
        self,
        what: str,
        entries: Mapping[str, tuple[str, ...]],
        base: tuple[str, str] | None = None,
        formats: Mapping[str, tuple[str, ...]] = {},
    ) -> None:
        self.what, self._entries, self._base, self._formats = what, dict(entries), base, dict(formats)

    def __getitem__(self, name: str) -> tuple[str, ...]:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries or is_own(name) or Path(str(name)).suffix in self._formats

    def load(self, name: str) -> tuple[Any, ...]:
        """Import the class or function, and its parameter class.

        Raises:
            ConfigError: the name is unknown, or the file is missing, cannot be run, or does not
                define such a class.
        """
        if is_own(name):
            own = self._own(name)
            return own, own.Params
        entry = self._entries.get(name) or self._formats.get(Path(name).suffix)
        if entry is None:
            raise unknown_name(self.what, name, self._entries)
        module, *names = entry
        loaded = importlib.import_module(module)
        return tuple(getattr(loaded, n) for n in names)

    def _own(self, name: str) -> type:
        path, constant = Path(name).absolute(), self.what.upper()
        if not path.is_file():
            raise ConfigError(f"there is no {self.what} file {path}")
        found = getattr(_run(path, path.stat().st_mtime_ns, self.what), constant, None)
        base = getattr(importlib.import_module(self._base[0]), self._base[1]) if self._base else object
        if not (isinstance(found, type) and issubclass(found, base)):
            derived = f" derived from {'.'.join(self._base)}" if self._base else ""
            raise ConfigError(f"the {self.what} file {path} must set {constant} to a class{derived}")
        if missing := getattr(found, "__abstractmethods__", None):
            raise ConfigError(f"the {self.what} of {path} lacks {', '.join(sorted(missing))}")
        if not dataclasses.is_dataclass(getattr(found, "Params", None)):
            raise ConfigError(f"the {self.what} of {path} lacks Params, a dataclass of dexstack.config.param")
        return found


def is_own(name: object) -> bool:
    """Return whether a name is the path of a Python file."""
    return isinstance(name, str) and name.endswith(".py")


@functools.lru_cache
def _run(path: Path, changed: int, what: str) -> Any:
    """Import a file once per modification time, since parameters are found by their class."""
    name = f"dexstack_{what}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"the {what} file {path} cannot be run: {type(error).__name__}: {error}") from error
    return module
