"""Real-time scheduling of a process, if the system permits it."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path


def make_realtime(priority: int) -> bool:
    """Put every thread of this process, present and future, under SCHED_FIFO.

    All of them, because a thread of ordinary priority that holds the interpreter's lock without
    running would block the servo.

    Returns:
        False if that is not permitted.
    """
    try:
        _every_thread(os.SCHED_FIFO, priority)
    except (OSError, AttributeError):
        return False
    return True


MCL_CURRENT = 1


def lock_memory() -> bool:
    """Lock the pages of this process in memory, so that the servo never waits for a page fault.

    Returns:
        False if that is not permitted (``ulimit -l``) or not supported.
    """
    try:
        return ctypes.CDLL(None, use_errno=True).mlockall(MCL_CURRENT) == 0
    except (OSError, AttributeError):
        return False


def drop_realtime() -> None:
    """Put every thread back under ordinary scheduling."""
    with contextlib.suppress(OSError, AttributeError):
        _every_thread(os.SCHED_OTHER, 0)


def set_niceness(niceness: int) -> None:
    """Give every thread of this process a niceness, from -20 (first) to 19; does nothing where that is
    not permitted."""
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpriority(os.PRIO_PROCESS, int(thread.name), niceness)


def _every_thread(policy: int, priority: int) -> None:
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):  # the thread has ended
            os.sched_setscheduler(int(thread.name), policy, os.sched_param(priority))
