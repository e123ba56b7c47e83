"""How kernels are compiled: kept on disk; a division by zero gives an infinity, as in NumPy, instead of a branch at every division."""

from __future__ import annotations

from numba import njit

entry = njit(cache=True, error_model="numpy", no_cfunc_wrapper=True)
"""Decorates a kernel that Python calls."""
inner = njit(cache=True, error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True)
"""Decorates a kernel that only kernels call."""
inlined = njit(cache=True, error_model="numpy", no_cfunc_wrapper=True, no_cpython_wrapper=True, inline="always")
"""Decorates one that is part of its only caller: compiled with it, and not once more beforehand."""
