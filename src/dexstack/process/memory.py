"""What a process does with memory that it has used."""

from __future__ import annotations

import contextlib
import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_PICTURES = 32 << 20
"""Larger than any picture [B]."""


def keep_memory_of_pictures() -> None:
    """Memory that held a picture stays with the process (glibc): getting it from the kernel again
    for each costs 1 ms, page by page."""
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, _PICTURES)
        libc.mallopt(_M_TRIM_THRESHOLD, 4 * _PICTURES)
