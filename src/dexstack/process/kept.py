"""What takes long to compute is kept in the user's cache folder, in files named by a digest of all
that it was computed from.

The digest covers the code as well: after any change another file is looked for, and nothing has to
be deleted for a result to be right. A file that nobody has read for :data:`KEPT` goes when another
of its kind is written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from dexengines import cache
from dexengines.cache import KEPT as KEPT
from dexengines.cache import evict_unused
from dexengines.cache import sources as sources

_NOTED = 24 * 3600.0
"""A file's last use is noted once in this time [s]."""


def cache_folder(kind: str) -> Path:
    """Where results of one kind are kept; it need not exist."""
    return cache.cache_folder("dexstack", kind)


def digest(*things: Any) -> str:
    """Digest of values: numbers, strings, arrays, containers of them, and objects of dexstack's own
    classes by what they hold.

    Raises:
        TypeError: something else, of which nobody can say what it depends on.
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
    """What is kept in a file; None if nothing is."""
    try:
        content = file.read_bytes()
        if time.time() - file.stat().st_mtime > _NOTED:
            os.utime(file)
    except OSError:
        return None
    return content


def write_kept(file: Path, content: bytes) -> None:
    """Keep ``content``, and let go of what nobody reads; where the folder cannot be written,
    nothing is kept."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=file.parent, suffix=".partial")
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.replace(partial, file)  # whole or not at all, whoever else writes it
        evict_unused(file.parent)


def kept_arrays(
    kind: str, key: str, compute: Callable[[], Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The arrays that ``compute`` returns, of this or of an earlier process.

    Args:
        kind: folder in the cache.
        key: digest of all that they depend on.
    """
    import io

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
