"""Numba functions as operations of XLA on a CPU, through XLA's C interface for foreign functions.

``jax.ffi`` documents registration and calls; handlers are documented as C++ against
``xla/ffi/api/ffi.h``, which would need a compiler at installation, so this module reads the
versioned structs of ``xla/ffi/api/c_api.h`` directly (offsets below, in words of eight bytes). A
call costs 0.1 µs, a thousandth of ``jax.pure_callback``.
"""

from __future__ import annotations

import ctypes
from typing import Any

import jax
import numba
import numpy as np
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.unsafe.ndarray import to_fixed_tuple

from dexengines.kernels import EntryCompiler, inner

FRAME_EXTENSION, FRAME_ARGUMENTS, FRAME_RESULTS = 1, 5, 10
LIST_SIZE, LIST_ITEMS = 2, 4
BUFFER_DATA, BUFFER_RANK, BUFFER_DIMENSIONS = 3, 4, 5
EXTENSION_KIND, EXTENSION_METADATA = 1, 3
METADATA = 1
"""Kind of the extension by which XLA asks for a handler's version."""
MAJOR, MINOR = 0, 1

HANDLER = types.int64(types.int64)
"""Signature of a handler: address of the call frame; returns 0 for success."""


@intrinsic
def pointer(typing_context, address):
    """Return an address as a pointer, for ``numba.carray``."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@inner
def asked_for_version(frame: int) -> bool:
    """Answer XLA's request for the version; return whether it was one."""
    words = carray(pointer(frame), 16, np.int64)
    if words[FRAME_EXTENSION] == 0:
        return False
    extension = carray(pointer(words[FRAME_EXTENSION]), 4, np.int64)
    if extension[EXTENSION_KIND] & 0xFFFFFFFF != METADATA:
        return False
    halves = carray(pointer(extension[EXTENSION_METADATA]), 9, np.int32)
    halves[6], halves[7], halves[8] = MAJOR, MINOR, 0
    return True


@inner
def buffers(frame: int, first: int) -> np.ndarray:
    """Return the addresses of the buffers of the arguments or the results, by a frame's list."""
    words = carray(pointer(frame), 16, np.int64)
    return carray(pointer(words[first + LIST_ITEMS]), words[first + LIST_SIZE], np.int64)


@inner
def leading(buffer: int, rank: int) -> np.ndarray:
    """Return the dimensions that ``vmap`` has put before an array's own ``rank`` ones."""
    words = carray(pointer(buffer), 6, np.int64)
    return carray(pointer(words[BUFFER_DIMENSIONS]), words[BUFFER_RANK], np.int64)[
        : words[BUFFER_RANK] - rank
    ]


@inner
def place(buffer: int, rank: int, batch: np.ndarray, k: int, size: int) -> tuple[int, np.ndarray]:
    """Return a pointer to an array for the k-th of a batch, and its own dimensions.

    Args:
        buffer: of the batch; shared along a leading dimension of one.
        rank: of one array.
        batch: all leading dimensions.
        size: of a number [bytes].
    """
    words = carray(pointer(buffer), 6, np.int64)
    dimensions = carray(pointer(words[BUFFER_DIMENSIONS]), words[BUFFER_RANK], np.int64)
    extra = words[BUFFER_RANK] - rank
    step = size
    for d in dimensions[extra:]:
        step *= d
    offset = 0
    for axis in range(extra - 1, -1, -1):
        digit, k = k % batch[axis], k // batch[axis]
        if dimensions[axis] != 1:
            offset += digit * step
        step *= dimensions[axis]
    return pointer(words[BUFFER_DATA] + offset), dimensions[extra:]


def _array_of(rank: int) -> Any:
    """Return a kernel that gives an array with ``rank`` axes for the k-th of a batch; see
    :func:`place`."""

    @inner
    def array(buffer, batch, k, kind, size):
        at, d = place(buffer, rank, batch, k, size)
        return carray(at, to_fixed_tuple(d, rank), kind)

    return array


array1, array2, array3, array4, array5 = map(_array_of, range(1, 6))


@inner
def size(batch: np.ndarray) -> int:
    """Return the number of entries of a batch."""
    count = 1
    for d in batch:
        count *= d
    return count


_registered: set[str] = set()
_handlers: list[Any] = []
"""References that keep the compiled code."""


def register(name: str, handlers: dict[str, Any], dtype: np.dtype) -> str:
    """Return the name under which ``jax.ffi.ffi_call`` finds the handler of ``handlers`` for a
    dtype, compiled and registered on first use."""
    name = f"dexstack_soft_{name}_{dtype.name}"
    if name not in _registered:
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype, capsule.argtypes = (
            ctypes.py_object,
            [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
        )
        compiled = numba.cfunc(HANDLER, cache=True, pipeline_class=EntryCompiler)(handlers[dtype.name])
        _handlers.append(compiled)
        jax.ffi.register_ffi_target(name, capsule(compiled.address, None, None), platform="cpu")
        _registered.add(name)
    return name
