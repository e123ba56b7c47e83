"""Broad phase: binary trees of axis-aligned boxes over triangles, built once per mesh; where the triangles of two bodies may cross.

A pair of nodes waits on the stack together with B's box as seen in A's frame, so that going down A's tree costs six comparisons.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LEAF_SIZE = 1
"""Triangles per leaf at most."""
MARGIN = 1e-13
"""Distance from a plane [m] below which a corner may be on it."""


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


@njit(cache=True, fastmath={"contract"}, forceinline=True)
def push(stack, stack_box, top, box_a, i, box_b, j, R, p):
    """Put a pair of nodes on the stack unless their boxes are apart along one of the six face normals; the new height."""
    c0, c1, c2, h0, h1, h2 = box_b[j, 0], box_b[j, 1], box_b[j, 2], box_b[j, 3], box_b[j, 4], box_b[j, 5]
    r00, r01, r02 = abs(R[0, 0]), abs(R[0, 1]), abs(R[0, 2])
    e0 = r00 * h0 + r01 * h1 + r02 * h2
    c = R[0, 0] * c0 + R[0, 1] * c1 + R[0, 2] * c2 + p[0]
    d0 = c - box_a[i, 0]
    if abs(d0) > box_a[i, 3] + e0:
        return top
    stack_box[top, 0], stack_box[top, 3] = c, e0
    r10, r11, r12 = abs(R[1, 0]), abs(R[1, 1]), abs(R[1, 2])
    e1 = r10 * h0 + r11 * h1 + r12 * h2
    c = R[1, 0] * c0 + R[1, 1] * c1 + R[1, 2] * c2 + p[1]
    d1 = c - box_a[i, 1]
    if abs(d1) > box_a[i, 4] + e1:
        return top
    stack_box[top, 1], stack_box[top, 4] = c, e1
    r20, r21, r22 = abs(R[2, 0]), abs(R[2, 1]), abs(R[2, 2])
    e2 = r20 * h0 + r21 * h1 + r22 * h2
    c = R[2, 0] * c0 + R[2, 1] * c1 + R[2, 2] * c2 + p[2]
    d2 = c - box_a[i, 2]
    if abs(d2) > box_a[i, 5] + e2:
        return top
    stack_box[top, 2], stack_box[top, 5] = c, e2
    g0, g1, g2 = box_a[i, 3], box_a[i, 4], box_a[i, 5]
    if abs(R[0, 0] * d0 + R[1, 0] * d1 + R[2, 0] * d2) > h0 + r00 * g0 + r10 * g1 + r20 * g2:
        return top
    if abs(R[0, 1] * d0 + R[1, 1] * d1 + R[2, 1] * d2) > h1 + r01 * g0 + r11 * g1 + r21 * g2:
        return top
    if abs(R[0, 2] * d0 + R[1, 2] * d1 + R[2, 2] * d2) > h2 + r02 * g0 + r12 * g1 + r22 * g2:
        return top
    stack[top, 0], stack[top, 1] = i, j
    return top + 1


@njit(cache=True, fastmath={"contract"}, forceinline=True)
def push_child(stack, stack_box, top, box_a, i, box_b, j, R, c0, c1, c2, e0, e1, e2):
    """The same for a child of A's node and the same node of B, whose box in A's frame, centre c and half widths e, is known."""
    d0, g0 = c0 - box_a[i, 0], box_a[i, 3]
    if abs(d0) > g0 + e0:
        return top
    d1, g1 = c1 - box_a[i, 1], box_a[i, 4]
    if abs(d1) > g1 + e1:
        return top
    d2, g2 = c2 - box_a[i, 2], box_a[i, 5]
    if abs(d2) > g2 + e2:
        return top
    for k in range(3):
        r0, r1, r2 = R[0, k], R[1, k], R[2, k]
        if abs(r0 * d0 + r1 * d1 + r2 * d2) > box_b[j, 3 + k] + abs(r0) * g0 + abs(r1) * g1 + abs(r2) * g2:
            return top
    stack[top, 0], stack[top, 1] = i, j
    stack_box[top, 0], stack_box[top, 1], stack_box[top, 2] = c0, c1, c2
    stack_box[top, 3], stack_box[top, 4], stack_box[top, 5] = e0, e1, e2
    return top + 1


@njit(cache=True, fastmath={"contract"}, forceinline=True)
def _reach(d0, d1, d2, c0, c1, c2):
    """Where a triangle meets the other's plane: interval of coordinates c, given signed distances d of its corners, not all of a sign."""
    if (d0 > 0.0) == (d1 > 0.0):  # corner 2 is alone
        d0, d2, c0, c2 = d2, d0, c2, c0
    elif (d0 > 0.0) == (d2 > 0.0):  # corner 1 is alone
        d0, d1, c0, c1 = d1, d0, c1, c0
    s = c0 + (c1 - c0) * (d0 / (d0 - d1))
    t = c0 + (c2 - c0) * (d0 / (d0 - d2))
    return min(s, t), max(s, t)


@njit(cache=True, fastmath={"contract"}, forceinline=True)
def triangles_apart(ca, u, cb, v, R, p):
    """Whether triangle u of A and triangle v of B do not cross; false where they only might touch.

    Each is tested against the other's plane, then the stretches in which they meet the line common to both planes (Möller).
    """
    # B's corners above A's plane
    n0, n1, n2 = ca[u, 9], ca[u, 10], ca[u, 11]
    m0 = R[0, 0] * n0 + R[1, 0] * n1 + R[2, 0] * n2
    m1 = R[0, 1] * n0 + R[1, 1] * n1 + R[2, 1] * n2
    m2 = R[0, 2] * n0 + R[1, 2] * n1 + R[2, 2] * n2
    o = n0 * p[0] + n1 * p[1] + n2 * p[2] + ca[u, 12]
    b0 = m0 * cb[v, 0] + m1 * cb[v, 1] + m2 * cb[v, 2] + o
    b1 = m0 * cb[v, 3] + m1 * cb[v, 4] + m2 * cb[v, 5] + o
    b2 = m0 * cb[v, 6] + m1 * cb[v, 7] + m2 * cb[v, 8] + o
    low, high = min(b0, b1, b2), max(b0, b1, b2)
    if low > MARGIN or high < -MARGIN:
        return True
    # A's corners above B's plane
    m0, m1, m2 = cb[v, 9], cb[v, 10], cb[v, 11]
    k0 = R[0, 0] * m0 + R[0, 1] * m1 + R[0, 2] * m2
    k1 = R[1, 0] * m0 + R[1, 1] * m1 + R[1, 2] * m2
    k2 = R[2, 0] * m0 + R[2, 1] * m1 + R[2, 2] * m2
    o = cb[v, 12] - (k0 * p[0] + k1 * p[1] + k2 * p[2])
    a0 = k0 * ca[u, 0] + k1 * ca[u, 1] + k2 * ca[u, 2] + o
    a1 = k0 * ca[u, 3] + k1 * ca[u, 4] + k2 * ca[u, 5] + o
    a2 = k0 * ca[u, 6] + k1 * ca[u, 7] + k2 * ca[u, 8] + o
    low_a, high_a = min(a0, a1, a2), max(a0, a1, a2)
    if low_a > MARGIN or high_a < -MARGIN:
        return True
    if low > -MARGIN or high < MARGIN or low_a > -MARGIN or high_a < MARGIN:
        return False  # a corner or more on the other's plane
    l0, l1, l2 = abs(n1 * k2 - n2 * k1), abs(n2 * k0 - n0 * k2), abs(n0 * k1 - n1 * k0)
    x = 0 if l0 >= l1 and l0 >= l2 else (1 if l1 >= l2 else 2)
    if max(l0, l1, l2) < 1e-6:
        return False
    r0, r1, r2, o = R[x, 0], R[x, 1], R[x, 2], p[x]
    s0 = r0 * cb[v, 0] + r1 * cb[v, 1] + r2 * cb[v, 2] + o
    s1 = r0 * cb[v, 3] + r1 * cb[v, 4] + r2 * cb[v, 5] + o
    s2 = r0 * cb[v, 6] + r1 * cb[v, 7] + r2 * cb[v, 8] + o
    low_b, high_b = _reach(b0, b1, b2, s0, s1, s2)
    low_a, high_a = _reach(a0, a1, a2, ca[u, x], ca[u, 3 + x], ca[u, 6 + x])
    margin = 1e-9 * (high_a - low_a + high_b - low_b)
    return low_a > high_b + margin or low_b > high_a + margin
