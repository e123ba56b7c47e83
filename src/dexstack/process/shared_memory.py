"""Shared memory of killed processes: Fast DDS removes segments only in an orderly end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from pathlib import Path

FOLDER = Path("/dev/shm")
AGE = 10.0
"""Age below which a segment may not be locked by its owner yet [s]."""
_LOCK = re.compile(r"(fastdds_[0-9a-f]{16})_el")


def clear_abandoned(folder: Path = FOLDER, age: float = AGE) -> int:
    """Remove the segments of dead owners; return their number.

    A living owner holds a lock on the file named after its segment with ``_el``.

    Args:
        folder: folder of the segments.
        age: smallest age of a segment to remove [s].
    """
    removed = 0
    for lock in folder.glob("fastdds_*_el"):
        name = _LOCK.fullmatch(lock.name)
        if name is None:  # of a port, which processes share
            continue
        with contextlib.suppress(OSError):  # removed, of another user, or locked
            if time.time() - lock.stat().st_mtime < age:
                continue
            file = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (folder / name[1]).unlink(missing_ok=True)
                lock.unlink()
                removed += 1
            finally:
                os.close(file)
    return removed
