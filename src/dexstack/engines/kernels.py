"""Where numba keeps an engine's compiled kernels: in the user's cache folder, under a digest of all of the engine's sources.

Numba itself keeps a kernel as long as the kernel's own file is unchanged, even when a function compiled into it comes from another file.
"""

from __future__ import annotations

from pathlib import Path

from numba import config
from numba.core import caching

from dexstack.process.kept import cache_folder, digest, forget_unused, sources


def keep_kernels(package: str, *called: str) -> None:
    """Keep the kernels of the functions with ``cache=True`` in a package; called before its modules are imported.

    A folder named in ``NUMBA_CACHE_DIR`` takes the place of the user's. Kernels of other sources, that nobody has compiled for a month,
    go when a kernel is compiled.

    Args:
        called: other packages whose kernels are compiled into its own.
    """
    version = digest(*map(sources, (package, *called)))
    folder = (Path(config.CACHE_DIR) if config.CACHE_DIR else cache_folder("kernels")) / f"{package}-{version[:16]}"

    class Locator(caching._CacheLocator):
        def __init__(self, py_file: str, line: int) -> None:
            self._py_file, self._line = py_file, line

        def get_cache_path(self) -> str:
            return str(folder)

        def get_source_stamp(self) -> str:
            return version

        def get_disambiguator(self) -> str:
            return str(self._line)

        def ensure_cache_path(self) -> None:  # before every kernel that is written
            if not folder.is_dir():
                forget_unused(folder.parent)  # empty folders too, and so before this one is made
                folder.mkdir(parents=True, exist_ok=True)

        @classmethod
        def from_function(cls, py_func, py_file):
            inside = py_func.__module__.startswith(f"{package}.")
            return cls(py_file, py_func.__code__.co_firstlineno) if inside else None

    caching.CacheImpl._locator_classes.insert(0, Locator)
