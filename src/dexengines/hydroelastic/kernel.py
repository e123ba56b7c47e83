"""How the engine's kernels are compiled, and how they take many arrays at once.

Numba takes a tuple of arrays from Python one array at a time (0.2 µs each) and counts references to
all of them wherever the flow of control branches. Here a tuple is written down once as numbers
(:class:`Stored`); a kernel gets their address, one integer, and :func:`load` makes the tuple of
them again, of which only what is used costs anything.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

KERNEL: dict[str, Any] = {"_nrt": False, "fastmath": {"contract"}}
"""Options of ``numba.njit`` for a function that neither makes nor keeps an array, and may fuse a
product with a sum. Without ``_nrt=False`` numba counts references to every array of every tuple
wherever the flow of control branches, which took half the time of a contact surface."""

_DTYPES = {"f": types.float64, "i": types.int32, "l": types.int64}


def tuple_type(cls: type, arrays: str) -> types.NamedTuple:
    """Numba's type of a NamedTuple of C-contiguous arrays.

    Args:
        cls: the NamedTuple.
        arrays: per field the dtype (f float64, i int32, l int64) and the number of dimensions, such
            as ``"f2 i1"``.
    """
    return types.NamedTuple(
        [types.Array(_DTYPES[code[0]], int(code[1]), "C") for code in arrays.split()], cls
    )


class Stored:
    """Where the arrays of a (nested) tuple are, written down for :func:`load`; keeps them alive.

    Args:
        value: the tuple.
        kind: its type, which the kernel that loads it is compiled for.
    """

    __slots__ = ("_numbers", "_value", "address")

    def __init__(self, value: tuple, kind: types.BaseTuple) -> None:
        found = numba.typeof(value)
        if found != kind:
            raise TypeError(f"a kernel made for {kind} cannot read {found}")
        self._value = value
        self._numbers = np.array(_numbers(value), np.int64)
        self.address = int(self._numbers.ctypes.data)


def _numbers(value: Any) -> list[int]:
    if isinstance(value, np.ndarray):
        return [value.ctypes.data, *value.shape]
    return [number for part in value for number in _numbers(part)]


@intrinsic
def load(typing_context, address, kind):
    """The tuple of type ``kind`` that is :class:`Stored` at an address."""
    whole = kind.instance_type

    def generate(context, builder, signature, arguments):
        start = builder.inttoptr(arguments[0], cgutils.intp_t.as_pointer())
        read = 0

        def number():
            nonlocal read
            read += 1
            return builder.load(cgutils.gep(builder, start, read - 1))

        def make(kind):
            if not isinstance(kind, types.Array):
                return context.make_tuple(builder, kind, [make(part) for part in kind.types])
            item = context.get_data_type(kind.dtype)
            size = context.get_constant(types.intp, context.get_abi_sizeof(item))
            data = builder.inttoptr(number(), item.as_pointer())
            shape = [number() for _ in range(kind.ndim)]
            strides = [size]
            for length in shape[:0:-1]:
                strides.insert(0, builder.mul(strides[0], length))
            array = arrayobj.make_array(kind)(context, builder)
            arrayobj.populate_array(
                array, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None
            )
            return array._getvalue()

        return make(whole)

    return whole(address, kind), generate
