"""Packing of a pytree of arrays into one float32 vector, which saves a dispatch per array."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

T = TypeVar("T")


class Packing(Generic[T]):
    """Shapes and order of the arrays in a vector, taken from an example."""

    def __init__(self, example: T) -> None:
        leaves, self._tree = jax.tree.flatten(example)
        self._shapes = [np.shape(leaf) for leaf in leaves]
        self._dtypes = [np.asarray(leaf).dtype for leaf in leaves]
        self._ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes])[:-1].tolist()

    def pack(self, tree: T) -> np.ndarray | None:
        """Return the vector, or None if an array is missing, not numeric, or has another shape than in
        the example."""
        leaves, structure = jax.tree.flatten(tree)
        if structure != self._tree:
            return None
        try:
            arrays = [np.asarray(leaf, np.float32) for leaf in leaves]
        except (TypeError, ValueError):
            return None
        if any(array.shape != shape for array, shape in zip(arrays, self._shapes, strict=True)):
            return None
        return np.concatenate([array.ravel() for array in arrays])

    def unpack(self, vector: jax.Array) -> T:
        """Return the tree of JAX arrays; floats have the vector's type."""
        parts = jnp.split(vector, self._ends)
        return jax.tree.unflatten(
            self._tree, [self._restore(*leaf) for leaf in zip(parts, self._shapes, self._dtypes, strict=True)]
        )

    @staticmethod
    def _restore(part: jax.Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> jax.Array:
        part = part.reshape(shape)
        if np.issubdtype(dtype, np.bool_):
            return part > 0.5
        return part.astype(jnp.int32) if np.issubdtype(dtype, np.integer) else part
