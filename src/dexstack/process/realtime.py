"""Real-time scheduling of a process, where the system permits it."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path


def make_realtime(priority: int) -> bool:
    """Put every thread of this process (and those it will start) under SCHED_FIFO; False where that
    is not permitted.

    All of them, because a thread of Python waits for the interpreter's lock: one of ordinary
    priority that holds it and is not run would keep the servo waiting.
    """
    try:
        _every_thread(os.SCHED_FIFO, priority)
    except (OSError, AttributeError):
        return False
    return True


MCL_CURRENT = 1


def lock_memory() -> bool:
    """Keep what this process has in memory there: a page that was put away would have to be read
    back in the middle of a turn.

    Returns:
        False where that is not permitted (``ulimit -l``), or there is no such call.
    """
    try:
        return ctypes.CDLL(None, use_errno=True).mlockall(MCL_CURRENT) == 0
    except (OSError, AttributeError):
        return False


def make_ordinary() -> None:
    """Back to ordinary scheduling, every thread."""
    with contextlib.suppress(OSError, AttributeError):
        _every_thread(os.SCHED_OTHER, 0)


def _every_thread(policy: int, priority: int) -> None:
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
            os.sched_setscheduler(int(thread.name), policy, os.sched_param(priority))
