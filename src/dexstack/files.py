"""Files that are written as a whole."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dexstack.errors import writing


@contextlib.contextmanager
def whole(path: str | Path) -> Iterator[BinaryIO]:
    """Write a file atomically: an interruption leaves it as it was. Missing folders are made, a link is
    followed, and a pipe or a device is written directly.

    Raises:
        ConfigError: the file cannot be written.
    """
    path = Path(path).resolve()
    if path.exists() and not path.is_file() and not path.is_dir():
        with writing(path), path.open("wb") as file:
            yield file
        return
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file atomically, in UTF-8; see :func:`whole`."""
    with whole(path) as file:
        file.write(text.encode())
