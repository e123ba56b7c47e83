"""Compiled kernels of dexstack: those of :mod:`dexengines.kernels`."""

from dexengines.kernels import entry as entry, inner as inner, keep_kernels as keep_kernels
