"""Folder of compiled kernels and results in the user's cache: where it is, digests, eviction.

Caches are optional: a folder that cannot be written is treated as an empty one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import os
import tempfile
import time
from pathlib import Path

KEPT = 30 * 24 * 3600.0
"""Files are evicted when they have not been read for this long [s]."""


def cache_folder(program: str, kind: str) -> Path:
    """Return the folder of one kind of results of a program; it may not exist yet."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if folder.startswith("~"):  # the user has no home
        folder = tempfile.gettempdir()
    return Path(folder) / program / kind


@functools.cache
def sources(package: str) -> str:
    """Return the digest of all Python files of a package, including its subpackages."""
    [folder] = importlib.import_module(package).__path__
    found = hashlib.sha256()
    for path in sorted(Path(folder).rglob("*.py")):
        found.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()


def evict_unused(folder: Path) -> None:
    """Delete files and empty folders under a folder that were last used longer ago than
    :data:`KEPT`."""
    oldest, unused = time.time() - KEPT, []
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < oldest:
                unused.append(path)
    for path in sorted(unused, reverse=True):  # contents before their folder
        with contextlib.suppress(OSError):  # deleted by another process, or a newer file is in the folder
            path.rmdir() if path.is_dir() else path.unlink()
