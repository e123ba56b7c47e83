"""Numba's functions as operations of XLA on a CPU, through the C interface that XLA has for such
calls (its FFI, version 0).

A call costs 0.1 µs, a thousandth of what ``jax.pure_callback`` does. XLA hands over one address,
that of a frame in which arguments and results are listed; the offsets below are those of the
structs of ``xla/ffi/api/c_api.h``, in words of eight bytes.
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

FRAME_EXTENSION, FRAME_ARGUMENTS, FRAME_RESULTS = 1, 5, 10
LIST_SIZE, LIST_ITEMS = 2, 4
BUFFER_DATA, BUFFER_RANK, BUFFER_DIMENSIONS = 3, 4, 5
EXTENSION_KIND, EXTENSION_METADATA = 1, 3
METADATA = 1
"""Kind of the extension by which XLA asks for which version a function was made."""
MAJOR, MINOR = 0, 1

HANDLER = types.int64(types.int64)
"""Signature of a function that XLA calls: address of the frame; 0, all is well."""


@intrinsic
def pointer(typing_context, address):
    """An address as a pointer, for ``numba.carray``."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@numba.njit
def asked_for_version(frame: int) -> bool:
    """Whether XLA only asks for the version, which is then answered."""
    words = carray(pointer(frame), 16, np.int64)
    if words[FRAME_EXTENSION] == 0:
        return False
    extension = carray(pointer(words[FRAME_EXTENSION]), 4, np.int64)
    if extension[EXTENSION_KIND] & 0xFFFFFFFF != METADATA:
        return False
    halves = carray(pointer(extension[EXTENSION_METADATA]), 9, np.int32)
    halves[6], halves[7], halves[8] = MAJOR, MINOR, 0
    return True


@numba.njit
def buffers(frame: int, first: int) -> np.ndarray:
    """Addresses of the arguments' buffers, or of the results', by which of the frame's lists."""
    words = carray(pointer(frame), 16, np.int64)
    return carray(pointer(words[first + LIST_ITEMS]), words[first + LIST_SIZE], np.int64)


@numba.njit
def leading(buffer: int, rank: int) -> np.ndarray:
    """The dimensions that ``vmap`` has put before an array's own ``rank`` ones."""
    words = carray(pointer(buffer), 6, np.int64)
    return carray(pointer(words[BUFFER_DIMENSIONS]), words[BUFFER_RANK], np.int64)[
        : words[BUFFER_RANK] - rank
    ]


@numba.njit
def place(buffer: int, rank: int, batch: np.ndarray, k: int, size: int) -> tuple[int, np.ndarray]:
    """Pointer to an array for the k-th of a batch, and its own dimensions.

    Args:
        buffer: of all of the batch; along a leading dimension of one, all share it.
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


@numba.njit
def array1(buffer, batch, k, kind, size):
    """An array of 1 axes for the k-th of a batch; see :func:`place`."""
    at, d = place(buffer, 1, batch, k, size)
    return carray(at, (d[0],), kind)


@numba.njit
def array2(buffer, batch, k, kind, size):
    """An array of 2 axes for the k-th of a batch; see :func:`place`."""
    at, d = place(buffer, 2, batch, k, size)
    return carray(at, (d[0], d[1]), kind)


@numba.njit
def array3(buffer, batch, k, kind, size):
    """An array of 3 axes for the k-th of a batch; see :func:`place`."""
    at, d = place(buffer, 3, batch, k, size)
    return carray(at, (d[0], d[1], d[2]), kind)


@numba.njit
def array4(buffer, batch, k, kind, size):
    """An array of 4 axes for the k-th of a batch; see :func:`place`."""
    at, d = place(buffer, 4, batch, k, size)
    return carray(at, (d[0], d[1], d[2], d[3]), kind)


@numba.njit
def array5(buffer, batch, k, kind, size):
    """An array of 5 axes for the k-th of a batch; see :func:`place`."""
    at, d = place(buffer, 5, batch, k, size)
    return carray(at, (d[0], d[1], d[2], d[3], d[4]), kind)


@numba.njit
def size(batch: np.ndarray) -> int:
    """How many there are of a batch."""
    count = 1
    for d in batch:
        count *= d
    return count


_registered: set[str] = set()
_handlers: list[Any] = []
"""Kept, or their code would go."""


def register(name: str, handlers: dict[str, Any], dtype: np.dtype) -> str:
    """Name under which ``jax.ffi.ffi_call`` knows a handler, of ``handlers`` for numbers of a
    width; compiled when first asked for."""
    name = f"dexstack_soft_{name}_{dtype.name}"
    if name not in _registered:
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype, capsule.argtypes = (
            ctypes.py_object,
            [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
        )
        compiled = numba.cfunc(HANDLER, cache=True)(handlers[dtype.name])
        _handlers.append(compiled)
        jax.ffi.register_ffi_target(name, capsule(compiled.address, None, None), platform="cpu")
        _registered.add(name)
    return name
