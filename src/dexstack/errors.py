"""The one exception a user of dexstack has to know."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator


class ConfigError(ValueError):
    """What the user brought (file, parameter, model) cannot be used.

    The message is one sentence that names what is wrong and where; commands print it without a
    traceback and exit with code 2.
    """


def unknown_name(what: str, name: str, known: Iterable[str]) -> ConfigError:
    """The refusal of a name, with the nearest one that there is."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, 1, 0.5)
    meant = f"; did you mean '{near[0]}'?" if near else ""
    return ConfigError(f"unknown {what} '{name}'{meant} (known: {', '.join(known)})")


@contextlib.contextmanager
def writing(what: object) -> Iterator[None]:
    """Write a file inside; what the system refuses is refused in one sentence.

    Raises:
        ConfigError: ``what`` cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot write {what}: {error.strerror}") from None
