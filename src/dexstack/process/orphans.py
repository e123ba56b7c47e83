"""Processes that end with the one that started them."""

from __future__ import annotations

import ctypes
import signal

PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Ask the kernel, in a child, for SIGTERM when the parent ends (Linux)."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
