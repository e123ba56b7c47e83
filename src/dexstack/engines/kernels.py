"""House-keeping of compiled kernels."""

from __future__ import annotations

from pathlib import Path


def drop_stale_kernels(here: Path) -> None:
    """Remove compiled kernels of a folder that are older than any of its sources.

    Numba keeps a kernel as long as the kernel's own file is unchanged, even when a function compiled into it comes from another file.
    """
    newest = max(path.stat().st_mtime for path in here.glob("*.py"))
    for path in here.glob("__pycache__/*.nb[ci]"):
        try:
            if path.stat().st_mtime < newest:
                path.unlink()
        except OSError:  # another process was faster, or the folder is read-only: numba copes with both
            pass
