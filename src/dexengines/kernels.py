"""Kernels of the engines: how numba compiles them, and where it keeps what it has compiled.

Entries are what Python calls, parts what only kernels call. Numba optimises every function together
with all that it calls, and emits machine code for it: what lies five calls deep is optimised and
emitted six times, and which of the copies runs depends on whether a kernel was compiled or loaded.
Here a part is neither optimised with others nor emitted; entries are, once, with all of their
parts. A division by zero gives an infinity, as in NumPy, instead of a branch at every division.

Entries are kept in the user's cache folder, under a digest of all of the engine's sources. Numba
itself keeps a kernel as long as the kernel's own file is unchanged, even when a function compiled
into it comes from another file.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from llvmlite import binding
from numba import config, njit, types
from numba.core import caching, cgutils
from numba.core.codegen import CPUCodeLibrary, JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder

from dexengines.cache import cache_folder, evict_unused, sources


class _Part(JITCodeLibrary):
    """Code as it was lowered."""

    environment: tuple[str, Any]
    """Name and value of what numba keeps beside the code."""

    def add_ir_module(self, ir_module: Any) -> None:
        module = binding.parse_assembly(cgutils.normalize_ir_text(str(ir_module)))
        self._optimize_functions(module)
        self._final_module.link_in(module)

    def finalize(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == binding.Linkage.external:
                function.linkage = "linkonce_odr"
        self._shared_module = self._final_module
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    @property
    def codegen(self) -> _Part:
        return self

    def set_env(self, name: str, environment: Any) -> None:
        self.environment = name, environment


class _Whole(JITCodeLibrary):
    """Code of an entry and of its parts."""

    def finalize(self) -> None:
        self._linking_libraries = _gather(self, [])
        super().finalize()
        present = {variable.name for variable in self._final_module.global_variables}
        for part in self._linking_libraries:
            if isinstance(part, _Part) and part.environment[0] in present:
                self._codegen.set_env(*part.environment)


def _gather(library: CPUCodeLibrary, found: list[CPUCodeLibrary]) -> list[CPUCodeLibrary]:
    """What a library calls, and what parts among that call, each once."""
    for part in library._linking_libraries:
        if part not in found:
            found.append(part)
            if isinstance(part, _Part):
                _gather(part, found)
    return found


class EntryCompiler(CompilerBase):
    """Compiles a kernel that Python calls."""

    library: type[CPUCodeLibrary] = _Whole

    def define_pipelines(self) -> list:
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return [DefaultPassBuilder.define_nopython_pipeline(state)]


class _PartCompiler(EntryCompiler):
    library = _Part


_OPTIONS = {"error_model": "numpy", "no_cfunc_wrapper": True}


def entry(function: Callable | None = None, *, cache: bool = True, **options: Any) -> Any:
    """Decorate a kernel that Python calls.

    Args:
        cache: cache it on disk; only for kernels in a package of :func:`keep_kernels`, whose digest
            covers all that is compiled into them.
        options: of ``numba.njit``.
    """
    if function is None:
        return partial(entry, cache=cache, **options)
    return njit(cache=cache, pipeline_class=EntryCompiler, **_OPTIONS, **options)(function)


def inner(function: Callable | None = None, **options: Any) -> Any:
    """Decorates a kernel that only kernels call: entries, or other parts. Python must not, there is
    nothing to call."""
    if function is None:
        return partial(inner, **options)
    kernel = njit(pipeline_class=_PartCompiler, no_cpython_wrapper=True, **_OPTIONS, **options)(function)
    template = kernel.get_call_template
    # numba would compile it anew for every literal among its arguments
    kernel.get_call_template = lambda args, kws: template([types.unliteral(x) for x in args], kws)
    return kernel


def keep_kernels(package: str, *called: str) -> None:
    """Cache the kernels of a package that have ``cache=True``; call it before its modules are
    imported.

    ``NUMBA_CACHE_DIR`` replaces the user's cache folder. Writing a kernel evicts unused ones.

    Args:
        called: other packages whose kernels are compiled into those of ``package``.
    """
    text = "".join([*map(sources, (package, *called)), Path(__file__).read_text()])
    version = hashlib.sha256(text.encode()).hexdigest()
    parent = Path(config.CACHE_DIR) if config.CACHE_DIR else cache_folder("dexengines", "kernels")
    folder = _writable(parent / f"{package}-{version[:16]}")

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
                evict_unused(folder.parent)  # deletes empty folders, so before this one is made
                folder.mkdir(parents=True, exist_ok=True)

        @classmethod
        def from_function(cls, py_func: Callable, py_file: str) -> Locator | None:
            inside = py_func.__module__.startswith(f"{package}.")
            return cls(py_file, py_func.__code__.co_firstlineno) if inside else None

    caching.CacheImpl._locator_classes.insert(0, Locator)


def _writable(folder: Path) -> Path:
    """Return a folder, or a copy of it that is deleted at exit if it cannot be written."""
    with contextlib.suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        if os.access(folder if folder.is_dir() else folder.parent, os.W_OK):
            return folder
    copy = Path(tempfile.mkdtemp(prefix="dexengines-")) / folder.name
    atexit.register(shutil.rmtree, copy.parent, ignore_errors=True)
    if folder.is_dir():
        shutil.copytree(folder, copy)
    return copy
