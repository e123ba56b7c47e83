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

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from llvmlite import binding
from numba import config, njit, types
from numba.core import caching, cgutils
from numba.core.codegen import CPUCodeLibrary, JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder

from dexstack.process.kept import cache_folder, digest, forget_unused, sources


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
    """Decorates a kernel that Python calls.

    Args:
        cache: keep it on disk; not for one outside a package of
            :func:`~dexengines.kernels.keep_kernels`, where nobody sees that a part of it has
            changed.
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
    """Keep the kernels of the functions with ``cache=True`` in a package; called before its modules
    are imported.

    A folder named in ``NUMBA_CACHE_DIR`` takes the place of the user's. Kernels of other sources,
    that nobody has compiled for a month, go when a kernel is compiled.

    Args:
        called: other packages whose kernels are compiled into its own.
    """
    version = digest(*map(sources, (package, *called)), Path(__file__).read_text())
    folder = (
        Path(config.CACHE_DIR) if config.CACHE_DIR else cache_folder("kernels")
    ) / f"{package}-{version[:16]}"

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
