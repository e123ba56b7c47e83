"""Kernels: how numba compiles them, caches them, and takes structures of arrays.

**Compilation.** :func:`entry` decorates kernels that Python calls, :func:`inner` those that only
kernels call. Numba optimises each function together with all that it calls, and emits machine code
for it: a function five calls deep is optimised and emitted six times, and which copy runs depends
on whether a kernel was compiled or loaded. Here an inner kernel is lowered only; each entry is
optimised once, together with all of its inner kernels. A division by zero gives an infinity, as in
NumPy, instead of a branch at every division.

**Cache.** Entries are cached in the user's cache folder under a digest of all sources of their
package (:func:`keep_kernels`). Numba's own rule, the modification time of the kernel's file, misses
changes of functions in other files that are compiled into it.

**Structures.** A kernel takes its arrays as a (nested) NamedTuple. Numba would unbox such a tuple
array by array at every call (0.2 µs each), and pass it by value from kernel to kernel, three hundred
words for a world. Instead, Python writes pointers and shapes down once (:class:`Stored`) and passes
one integer, the address; :func:`load` makes it a reference, whose fields kernels read by the same
names. Addresses can be array elements, so that kernels choose among structures. A reference does not
own its arrays: Python keeps the :class:`Stored` alive.
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

import numba
import numpy as np
from llvmlite import binding
from numba import config, njit, types
from numba.core import caching, cgutils
from numba.core.codegen import CPUCodeLibrary, JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model
from numba.np import arrayobj

from dexengines.cache import cache_folder, evict_unused, sources


class _Part(JITCodeLibrary):
    """Code of an inner kernel, lowered but not optimised."""

    environment: tuple[str, Any]
    """Name and value of numba's environment of the code."""

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
    """Code of an entry and of its inner kernels."""

    def finalize(self) -> None:
        self._linking_libraries = _gather(self, [])[::-1]
        super().finalize()
        present = {variable.name for variable in self._final_module.global_variables}
        for part in self._linking_libraries:
            if isinstance(part, _Part) and part.environment[0] in present:
                self._codegen.set_env(*part.environment)


def _gather(library: CPUCodeLibrary, found: list[CPUCodeLibrary]) -> list[CPUCodeLibrary]:
    """Return the libraries that a library calls, directly or through inner kernels, each once and before
    those that call it. They are linked in the opposite order: LLVM takes over only what is called so far."""
    for part in library._linking_libraries:
        if part not in found:
            if isinstance(part, _Part):
                _gather(part, found)
            found.append(part)
    return found


class EntryCompiler(CompilerBase):
    """Compiler of entries."""

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
    """Decorate a kernel that only kernels call; Python cannot call it."""
    if function is None:
        return partial(inner, **options)
    kernel = njit(pipeline_class=_PartCompiler, no_cpython_wrapper=True, **_OPTIONS, **options)(function)
    template = kernel.get_call_template
    # otherwise numba compiles it again for every literal among its arguments
    kernel.get_call_template = lambda args, kws: template([types.unliteral(x) for x in args], kws)
    return kernel


def keep_kernels(package: str, *called: str) -> None:
    """Cache the kernels of a package that have ``cache=True``; call it before its modules are
    imported.

    ``NUMBA_CACHE_DIR`` replaces the user's cache folder. Writing a kernel evicts unused ones.

    Args:
        called: other packages whose kernels are compiled into those of ``package``.
    """
    text = "".join([*map(sources, (package, *called)), Path(__file__).read_text(encoding="utf-8")])
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


KERNEL: dict[str, Any] = {"_nrt": False, "fastmath": {"contract"}}
"""Options of a kernel that neither makes nor keeps an array and may fuse a product with a sum.
Without ``_nrt=False`` numba counts references to every array of every tuple at every branch, which
took half the time of a contact surface."""

_DTYPES = {"f": types.float64, "i": types.int32, "l": types.int64, "b": types.boolean}


def tuple_type(cls: type, arrays: str, *parts: types.BaseTuple) -> types.BaseTuple:
    """Return numba's type of a NamedTuple of tuples, C-contiguous arrays and numbers.

    Args:
        cls: the NamedTuple.
        arrays: per field after the tuples the dtype (f float64, i int32, l int64, b bool) and the number
            of dimensions, none of a number, such as ``"f2 i1 l"``.
        parts: types of the tuples.
    """
    fields = [
        types.Array(_DTYPES[code[0]], int(code[1]), "C") if code[1:] else _DTYPES[code]
        for code in arrays.split()
    ]
    return types.BaseTuple.from_types([*parts, *fields], cls)


class Stored:
    """Pointers and shapes of the arrays of a (nested) tuple, for :func:`load`; keeps them alive.

    Args:
        value: the tuple.
        kind: its numba type, for which the kernel that loads it is compiled.

    Raises:
        TypeError: ``value`` is of another type.
    """

    __slots__ = ("_numbers", "address", "value")

    def __init__(self, value: tuple, kind: types.BaseTuple) -> None:
        found = numba.typeof(value)
        if found != kind:
            raise TypeError(f"a kernel made for {kind} cannot read {found}")
        self.value = value
        self._numbers = np.array(_numbers(value), np.int64)
        self.address = int(self._numbers.ctypes.data)


def _numbers(value: Any) -> list[int]:
    if isinstance(value, np.ndarray):
        return [value.ctypes.data, *value.shape]
    return [number for part in value for number in _numbers(part)] if isinstance(value, tuple) else [value]


def _count(kind: types.Type) -> int:
    """Return how many numbers :class:`Stored` writes for a value."""
    if isinstance(kind, types.BaseTuple):
        return sum(map(_count, kind.types))
    return 1 + kind.ndim if isinstance(kind, types.Array) else 1


class Reference(types.Opaque):
    """Numba's type of the address of a :class:`Stored` tuple."""

    def __init__(self, kind: types.BaseTuple) -> None:
        self.kind = kind
        super().__init__(f"Reference({kind})")


register_model(Reference)(models.OpaqueModel)


@intrinsic
def load(typing_context, address, kind):
    """Return the reference to a tuple of type ``kind`` that is :class:`Stored` at an address."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return Reference(kind.instance_type)(address, kind), generate


@infer_getattr
class _Fields(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference, name):
        kind = dict(zip(reference.kind.fields, reference.kind.types, strict=True)).get(name)
        return Reference(kind) if isinstance(kind, types.BaseTuple) else kind


@lower_getattr_generic(Reference)
def _read(context, builder, reference, pointer, name):
    index = reference.kind.fields.index(name)
    kind, first = reference.kind.types[index], sum(map(_count, reference.kind.types[:index]))
    start = cgutils.gep(builder, builder.bitcast(pointer, cgutils.intp_t.as_pointer()), first)
    if isinstance(kind, types.BaseTuple):
        return builder.bitcast(start, cgutils.voidptr_t)
    numbers = [builder.load(cgutils.gep(builder, start, k)) for k in range(_count(kind))]
    for number in numbers:  # so that loops read them once
        number.set_metadata("invariant.load", builder.module.add_metadata([]))
    data, *shape = numbers
    if not isinstance(kind, types.Array):
        return context.cast(builder, data, types.intp, kind)
    item = context.get_data_type(kind.dtype)
    size = context.get_constant(types.intp, context.get_abi_sizeof(item))
    strides = [size]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    array = arrayobj.make_array(kind)(context, builder)
    data = builder.inttoptr(data, item.as_pointer())
    arrayobj.populate_array(array, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
    return array._getvalue()
