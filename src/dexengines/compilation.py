"""Compilation of JAX functions: XLA's options, and programs shared by scenes of one structure."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import jax
import numpy as np

OPTIONS = {"xla_cpu_use_fusion_emitters": False}
"""XLA's older emitter of fused loops: programs of hundreds of small operations compile in two
thirds of the time, and run twice as fast where they read lookup tables."""


@functools.cache
def compiler_options() -> dict[str, bool]:
    """Return the entries of :data:`OPTIONS` that this version of XLA accepts."""
    with contextlib.suppress(jax.errors.JaxRuntimeError):
        jax.jit(lambda: 0, compiler_options=OPTIONS).lower().compile()
        return OPTIONS
    return {}


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``jax.jit`` of a function with :func:`compiler_options`; not for functions that are
    called under another ``jit``."""
    return jax.jit(function, compiler_options=compiler_options())


class Program:
    """A compiled function of numbers and arrays, shared by all that differ in numbers only."""

    def __init__(self, function: Callable[..., Any], lowered: Any, numbers: Any) -> None:
        self._function, self._ranks = function, jax.tree.map(np.ndim, numbers)
        self._mapped: dict[tuple[bool, ...], Callable[..., Any]] = {}
        self.one: Callable[..., Any] = lowered.compile()
        """The function, for arguments of one shape."""

    def many(self, numbers: Any, *args: Any) -> Any:
        """Evaluate the function N times: arrays have a leading axis (N, …), and so do numbers where
        they differ."""
        own = tuple(
            np.ndim(x) > rank for x, rank in zip(*map(jax.tree.leaves, (numbers, self._ranks)), strict=True)
        )
        if own not in self._mapped:
            axes = jax.tree.unflatten(
                jax.tree.structure(numbers), [0 if different else None for different in own]
            )
            self._mapped[own] = jit(jax.vmap(self._function, in_axes=(axes, *(0 for _ in args))))
        return self._mapped[own](numbers, *args)


def joined(numbers: Sequence[Any]) -> Any:
    """Join trees of arrays into one for :meth:`Program.many`: leaves that all share are kept once,
    the others get a leading axis (N, …)."""

    def join(*rows: Any) -> Any:
        kinds = {id(x): x for x in rows}
        first, *others = kinds.values()
        if all(np.array_equal(x, first) for x in others):
            return first
        at = {key: k for k, key in enumerate(kinds)}
        # stacked by NumPy: XLA takes minutes to compile a stack of thousands
        return jax.numpy.asarray(np.stack(list(kinds.values()))[[at[id(x)] for x in rows]])

    return jax.tree.map(join, *numbers)


_programs: WeakValueDictionary[str, Program] = WeakValueDictionary()
_making = threading.Lock()


def program(function: Callable[..., Any], numbers: Any, *args: Any) -> Program:
    """Return the program of a function of ``numbers``, a tree of arrays, and further arrays; one
    that is in use and lowers to the same text is returned again."""
    with _making:
        lowered = jit(function).lower(numbers, *args)
        text = lowered.as_text()
        return _programs.get(text) or _programs.setdefault(text, Program(function, lowered, numbers))
