"""Memory allocation of processes that handle pictures."""

from __future__ import annotations

import contextlib
import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_PICTURES = 32 << 20
"""Upper bound of the size of a picture [B]."""


def keep_picture_memory() -> None:
    """Let glibc keep freed memory of pictures; getting it from the kernel again costs 1 ms each."""
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, _PICTURES)
        libc.mallopt(_M_TRIM_THRESHOLD, 4 * _PICTURES)
