"""Shared memory that processes left when they were killed: Fast DDS removes a process's own in its
orderly end, and nobody a dead one's."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from pathlib import Path

FOLDER = Path("/dev/shm")
AGE = 10.0
"""What is younger may be about to be locked by its owner [s]."""
_LOCK = re.compile(r"(fastdds_[0-9a-f]{16})_el")


def clear_abandoned(folder: Path = FOLDER, age: float = AGE) -> int:
    """Remove the segments whose owners are dead; how many.

    A living owner holds a lock on the file that bears its segment's name and ``_el``.

    Args:
        age: only what is older [s].
    """
    removed = 0
    for lock in folder.glob("fastdds_*_el"):
        name = _LOCK.fullmatch(lock.name)
        if name is None:  # a port's, which several processes share
            continue
        with contextlib.suppress(OSError):  # gone meanwhile, somebody else's, or locked
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
