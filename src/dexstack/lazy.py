"""What is found by name, and imported only when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from dexstack.errors import unknown_name


class Registry(Mapping[str, tuple[str, ...]]):
    """Names of one kind of thing, each with a module and names in it."""

    def __init__(self, what: str, entries: Mapping[str, tuple[str, ...]]) -> None:
        """``what`` it is, for refusals; per name the module, then names in it."""
        self.what, self._entries = what, dict(entries)

    def __getitem__(self, name: str) -> tuple[str, ...]:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def load(self, name: str) -> tuple[Any, ...]:
        """The things of that name.

        Raises:
            ConfigError: there is none.
        """
        if name not in self._entries:
            raise unknown_name(self.what, name, self._entries)
        module, *names = self._entries[name]
        loaded = importlib.import_module(module)
        return tuple(getattr(loaded, n) for n in names)
