"""Named tuples of arrays, passed by reference from kernel to kernel.

Numba passes a tuple by value: every call that takes a world would push the three hundred words of
its arrays. A reference stores them once; kernels get a pointer and read the same fields by the same
names. It does not own its arrays: its creator keeps them alive.
"""

from __future__ import annotations

from numba import types
from numba.core import cgutils
from numba.experimental import structref
from numba.extending import intrinsic, overload
from numba.np.arrayobj import make_array


@structref.register
class ReferenceType(types.StructRef):
    """Numba's type of a reference to a named tuple."""


class Reference(structref.StructRefProxy):
    """A reference that Python passes to kernels."""


structref.define_attributes(ReferenceType)
structref.define_boxing(ReferenceType, Reference)


@intrinsic
def _unowned(typingctx, array):
    """Return the array without an owner, so that kernels do not count references to it."""

    def codegen(context, builder, signature, args):
        result = make_array(array)(context, builder, args[0])
        result.meminfo = cgutils.get_null_value(result.meminfo.type)
        result.parent = cgutils.get_null_value(result.parent.type)
        return result._getvalue()

    return array(array), codegen


def _reference_to(kind: types.Type) -> types.Type:
    if isinstance(kind, types.BaseNamedTuple):
        return ReferenceType(
            [(name, _reference_to(item)) for name, item in zip(kind.fields, kind.types, strict=True)]
        )
    return kind


def by_reference(x):
    """Return a reference to a named tuple of arrays, numbers and such tuples; outside compiled
    kernels the tuple itself."""
    return x


@overload(by_reference)
def _by_reference(x):
    if not isinstance(x, types.BaseNamedTuple):
        return None
    lines = []
    for name, item in zip(x.fields, x.types, strict=True):
        if isinstance(item, types.BaseNamedTuple):
            lines.append(f"    r.{name} = by_reference(x.{name})")
        elif isinstance(item, types.Array):
            lines.append(f"    r.{name} = _unowned(x.{name})")
        else:
            lines.append(f"    r.{name} = x.{name}")
    names = {
        "new": structref.new,
        "kind": _reference_to(x),
        "by_reference": by_reference,
        "_unowned": _unowned,
    }
    exec("def make(x):\n    r = new(kind)\n" + "\n".join(lines) + "\n    return r\n", names)
    return names["make"]
