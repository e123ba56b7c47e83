"""Binary trees of axis-aligned boxes over triangles, built once per mesh and walked inside the kernels of ``surface.py``."""

from __future__ import annotations

import numpy as np

LEAF_SIZE = 2
"""Triangles per leaf at most."""


def build_tree(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Median-split tree over n boxes.

    Args:
        lower: (n, 3) least corner of every box.
        upper: (n, 3) greatest corner.

    Returns:
        box (N, 6): centre and half widths of every node, in the mesh's frame; node (N, 2) int32: the two children of an inner node,
        ``(-1 - first, count)`` for a leaf; order (n,) int32: the items in the order the leaves name them.
    """
    n = len(lower)
    order = np.arange(n)
    centre = 0.5 * (lower + upper)
    box: list[np.ndarray] = []
    node: list[list[int]] = []

    def add(first: int, last: int) -> int:
        items = order[first:last]
        low, high = lower[items].min(axis=0), upper[items].max(axis=0)
        index = len(node)
        # a box may be flat; the pad keeps touching boxes touching after rounding
        pad = 1e-12 * (np.abs(low).max() + np.abs(high).max())
        box.append(np.concatenate([0.5 * (low + high), 0.5 * (high - low) + pad]))
        node.append([-1 - first, last - first])
        if last - first > LEAF_SIZE:
            axis = int(np.argmax(np.ptp(centre[items], axis=0)))
            order[first:last] = items[np.argsort(centre[items, axis], kind="stable")]
            middle = (first + last) // 2
            left = add(first, middle)
            right = add(middle, last)
            node[index] = [left, right]
        return index

    if n:
        add(0, n)
    else:
        box, node = [np.zeros(6)], [[-1, 0]]
    return np.array(box), np.array(node, np.int32), order.astype(np.int32)
