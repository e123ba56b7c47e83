"""Pairs of elements that the flood fill visits: those at the rims, then those behind the edges of
each face, each pair once."""

from __future__ import annotations

import numpy as np

from dexengines.hydroelastic.bvh import LANES, descend, triangles_apart
from dexengines.hydroelastic.workspace import FULL
from dexengines.kernels import KERNEL, inner


@inner(forceinline=True, **KERNEL)
def visit(queue, table, tail, first, second, pb):
    """Append a pair to the queue unless it was visited; return the new length, or FULL."""
    key = np.int64(first) * np.int64(len(pb.element)) + np.int64(second)
    mask = np.int64(len(table) - 1)
    at = ((key * np.int64(0x9E3779B97F4A7C1)) >> np.int64(20)) & mask
    while table[at] != -1:
        if table[at] == key:
            return tail
        at = (at + 1) & mask
    if tail >= len(queue):
        return FULL
    table[at] = key
    queue[tail, 0] = first
    queue[tail, 1] = second
    return tail + 1


@inner(forceinline=True, **KERNEL)
def forget(queue, table, tail, pb):
    """Remove the keys of the queue's pairs from the table."""
    mask = np.int64(len(table) - 1)
    for i in range(tail):
        key = np.int64(queue[i, 0]) * np.int64(len(pb.element)) + np.int64(queue[i, 1])
        at = ((key * np.int64(0x9E3779B97F4A7C1)) >> np.int64(20)) & mask
        while table[at] != -1:  # clears whole runs, whose other members are in the queue too
            table[at] = -1
            at = (at + 1) & mask


@inner(**KERNEL)
def find_rims(pa, pb, R, p, stack, queue, table):
    """Fill the queue with the pairs whose boundary triangles cross; return its length, or FULL."""
    stack[0, 0] = stack[0, 1] = 0
    top = 1
    tail = 0
    nodes_a, nodes_b = len(pa.lane), len(pb.lane)
    while top > 0:
        if top + LANES > len(stack):
            return FULL
        top -= 1
        i, j = stack[top, 0], stack[top, 1]
        if i < nodes_a or j < nodes_b:
            top = descend(pa, pb, i, j, R, p, stack, top)
        elif not triangles_apart(pa.corner, i - nodes_a, pb.corner, j - nodes_b, R, p):
            tail = visit(queue, table, tail, pa.triangle[i - nodes_a], pb.triangle[j - nodes_b], pb)
            if tail == FULL:
                return FULL
    return tail


@inner(forceinline=True, **KERNEL)
def visit_neighbours(queue, table, tail, label, n, pa, pb, pair):
    """Append the pairs behind the n edges of a face.

    Args:
        label: of each edge: 0 … 3 a face of A's tet, from 4 on a side of B's element.
        pair: of the face.

    Returns:
        The new length of the queue, or FULL.
    """
    ta, tb = pair
    for m in range(n):
        k = label[m]
        na = pa.element_int[ta, 4 + k] if k < 4 else ta
        nb = pb.element_int[tb, k] if k >= 4 else tb
        if na >= 0 and nb >= 0:
            tail = visit(queue, table, tail, na, nb, pb)
            if tail == FULL:
                return FULL
    return tail
