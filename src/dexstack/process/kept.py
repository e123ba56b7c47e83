"""Cache of expensive results in the user's cache folder, in files named by a digest of their inputs.

The digest covers the code as well, so that stale files are never read. A file unread for
:data:`KEPT` is deleted when another of its kind is written. A cache that cannot be read or written
is no error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from dexengines import cache
from dexengines.cache import KEPT as KEPT, evict_unused, sources as sources

_NOTED = 24 * 3600.0
"""Period at which the last use of a file is noted [s]."""


def cache_folder(kind: str) -> Path:
    """Return the folder for results of one kind, which need not exist."""
    return cache.cache_folder("dexstack", kind)


def usable(folder: Path) -> bool:
    """Return whether files can be written into a folder, which is made for it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def digest(*things: Any) -> str:
    """Return a digest of numbers, strings, arrays, containers, and objects of dexstack's classes.

    Raises:
        TypeError: an object of another class.
    """
    found = hashlib.sha256()
    for thing in things:
        _feed(found.update, thing)
    return found.hexdigest()[:40]


def _feed(update: Callable[[bytes], None], thing: Any) -> None:
    cls = type(thing)
    update(f"{cls.__module__}.{cls.__qualname__}:".encode())
    if isinstance(thing, Mapping):
        thing = list(thing.items())
    if thing is None or isinstance(thing, bool | int | float | complex | str | bytes | Path):
        update(f"{thing!r};".encode())
    elif isinstance(thing, list | tuple):
        update(f"{len(thing)};".encode())
        for part in thing:
            _feed(update, part)
    elif (
        isinstance(thing, type | FunctionType)
        and _own(thing.__module__)
        and not getattr(thing, "__closure__", None)
    ):
        update(f"{thing.__module__}.{thing.__qualname__};".encode())
    elif hasattr(thing, "__array__"):
        array = np.asarray(thing)
        if array.dtype.hasobject:
            raise TypeError(f"an array of {array.dtype} has no digest")
        update(f"{array.dtype.str}{array.shape};".encode() + array.tobytes())
    elif dataclasses.is_dataclass(thing) and _own(cls.__module__):
        _feed(update, [(field.name, getattr(thing, field.name)) for field in dataclasses.fields(thing)])
    elif _own(cls.__module__) and hasattr(thing, "__dict__"):
        _feed(update, sorted(vars(thing).items()))
    else:
        raise TypeError(f"a {cls.__module__}.{cls.__qualname__} has no digest")


def _own(module: str) -> bool:
    return module.partition(".")[0] == "dexstack"


def read_kept(file: Path) -> bytes | None:
    """Return the content of a cache file; None without one."""
    try:
        content = file.read_bytes()
        if time.time() - file.stat().st_mtime > _NOTED:
            os.utime(file)
    except OSError:
        return None
    return content


def write_kept(file: Path, content: bytes) -> None:
    """Write a cache file and evict unused ones; no-op if the folder cannot be written."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=file.parent, suffix=".partial")
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.replace(partial, file)  # atomic, also with concurrent writers
        evict_unused(file.parent)


def kept_arrays(
    kind: str, key: str, compute: Callable[[], Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """Return the arrays that ``compute`` returns, cached between processes.

    Args:
        kind: folder in the cache.
        key: digest of everything the arrays depend on.
        compute: called if they are not in the cache.
    """
    file = cache_folder(kind) / f"{key}.npz"
    if (content := read_kept(file)) is not None:
        with (
            contextlib.suppress(ValueError, OSError, EOFError, KeyError),
            np.load(io.BytesIO(content)) as found,
        ):
            return dict(found)
    arrays = dict(compute())
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    write_kept(file, stream.getvalue())
    return arrays
