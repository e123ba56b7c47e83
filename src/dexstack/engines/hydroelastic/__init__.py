"""Pressure field contact ("hydroelastic"): meshes with a pressure field, their contact surface, and what acts on it."""

from __future__ import annotations

from pathlib import Path


def _drop_stale_kernels() -> None:
    """Remove compiled kernels older than any source of this package.

    Numba keeps a kernel as long as the kernel's own file is unchanged, even when a function compiled into it comes from another file.
    """
    here = Path(__file__).parent
    newest = max(path.stat().st_mtime for path in here.glob("*.py"))
    for path in here.glob("__pycache__/*.nb[ci]"):
        try:
            if path.stat().st_mtime < newest:
                path.unlink()
        except OSError:  # another process was faster, or the folder is read-only: numba copes with both
            pass


_drop_stale_kernels()
