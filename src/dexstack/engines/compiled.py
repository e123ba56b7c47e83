"""How kernels are compiled: entries, which Python calls, and their parts, which only kernels call.

Numba optimises every function together with all that it calls, and emits machine code for it: what lies five calls deep is optimised and
emitted six times. Here a part is neither optimised nor emitted; entries are, once, with all of their parts. A division by zero gives an
infinity, as in NumPy, instead of a branch at every division.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import binding
from numba import njit, types
from numba.core import cgutils
from numba.core.codegen import CPUCodeLibrary, JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder


class _Part(JITCodeLibrary):
    """Code as it was lowered."""

    environment: tuple[str, Any]
    """Name and value of what numba keeps beside the code."""

    def add_ir_module(self, ir_module: Any) -> None:
        module = binding.parse_assembly(cgutils.normalize_ir_text(str(ir_module)))
        module.data_layout = self._codegen._data_layout
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
        cache: keep it on disk; not for one outside a package of :func:`~dexstack.engines.kernels.keep_kernels`, where nobody sees that a
            part of it has changed.
        options: of ``numba.njit``.
    """
    if function is None:
        return partial(entry, cache=cache, **options)
    return njit(cache=cache, pipeline_class=EntryCompiler, **_OPTIONS, **options)(function)


def inner(function: Callable | None = None, **options: Any) -> Any:
    """Decorates a kernel that only kernels call: entries, or other parts. Python must not, there is nothing to call."""
    if function is None:
        return partial(inner, **options)
    kernel = njit(pipeline_class=_PartCompiler, no_cpython_wrapper=True, **_OPTIONS, **options)(function)
    template = kernel.get_call_template
    # numba would compile it anew for every literal among its arguments
    kernel.get_call_template = lambda args, kws: template([types.unliteral(x) for x in args], kws)
    return kernel
