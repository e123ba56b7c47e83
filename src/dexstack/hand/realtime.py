"""Real-time scheduling of a process, where the system permits it."""

from __future__ import annotations

import os
from pathlib import Path


def make_realtime(priority: int) -> bool:
    """Put every thread of this process (and those it will start) under SCHED_FIFO; False where that is not permitted.

    All of them, because a thread of Python waits for the interpreter's lock: one of ordinary priority that holds it and is not run would
    keep the servo waiting.
    """
    try:
        for thread in Path("/proc/self/task").iterdir():
            os.sched_setscheduler(int(thread.name), os.SCHED_FIFO, os.sched_param(priority))
    except (OSError, AttributeError):
        return False
    return True
