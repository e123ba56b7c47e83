"""Errors of invalid input."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Collection, Iterable, Iterator
from typing import Any

USAGE_ERROR = 2
"""Exit code of a command with invalid input."""


class ConfigError(ValueError):
    """Invalid input of the user: a file, parameter or model.

    The message is one sentence that names the fault and its place; commands print it without a
    traceback and exit with code 2.
    """


def unknown_name(what: str, name: str, known: Iterable[str]) -> ConfigError:
    """Return the error for an unknown name, with the closest known one."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, 1, 0.5)
    meant = f"; did you mean '{near[0]}'?" if near else ""
    return ConfigError(f"unknown {what} '{name}'{meant} (known: {', '.join(known)})")


def check_names(what: str, names: Iterable[Any], known: Collection[str]) -> None:
    """Reject names that are not known.

    Raises:
        ConfigError: see :func:`unknown_name`.
    """
    for name in names:
        if name not in known:
            raise unknown_name(what, str(name), known)


@contextlib.contextmanager
def writing(what: object) -> Iterator[None]:
    """Turn an OSError of the ``with`` block into a ConfigError.

    Raises:
        ConfigError: ``what``, the file written in the block, cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot write {what}: {error.strerror}") from None
