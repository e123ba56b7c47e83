"""Broad phase: trees of axis-aligned boxes over triangles, built once per mesh, and the test
whether two triangles may cross.

A node has up to eight children whose boxes are stored lane by lane, so that one pass of vector
instructions tests all of them.
"""

from __future__ import annotations

import math

import numpy as np

from dexengines.hydroelastic.vectors import dot, turn, turn_back
from dexengines.kernels import KERNEL, inner

LANES = 8
"""Largest number of children of a node."""
MARGIN = 1e-13
"""Distance from a plane [m] below which a corner may be on it."""
EMPTY = -1e30
"""Half width of an absent child, which fails every test."""


def build_tree(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Build a tree over n ≥ 1 boxes, split into equal counts along the longest axis.

    Args:
        lower: (n, 3) least corner of every box.
        upper: (n, 3) greatest corner.

    Returns:
        box (N + n, 6): centre and half widths of the N nodes, the root first, then of the items in
            the order of the tree;
        lane (N, 6, 8): the same of every node's children; child (N, 8) int32: their rows in
            ``box``; order (n,) int32: the items in the order of the tree.
    """
    n = len(lower)
    order = np.arange(n)
    centre = 0.5 * (lower + upper)
    nodes: list[tuple[int, int]] = []
    children: list[list[tuple[int, int] | int]] = []

    def split(first: int, last: int, parts: int) -> list[tuple[int, int]]:
        if parts == 1:
            return [(first, last)]
        items = order[first:last]
        axis = int(np.argmax(np.ptp(centre[items], axis=0)))
        order[first:last] = items[np.argsort(centre[items, axis], kind="stable")]
        left = parts // 2
        middle = first + (last - first) * left // parts
        return split(first, middle, left) + split(middle, last, parts - left)

    def add(first: int, last: int) -> int:
        count = last - first
        index = len(nodes)
        nodes.append((first, last))
        children.append([])
        # nodes above triangles are full: fewer of them are cheaper than fewer levels
        leaves = math.ceil(count / LANES)
        depth = max(1, math.ceil(math.log(leaves, LANES) - 1e-9))
        parts = split(first, last, count if count <= LANES else math.ceil(leaves ** (1 / depth) - 1e-9))
        children[index] = [(-1, low) if high - low == 1 else add(low, high) for low, high in parts]
        return index

    add(0, n)
    low = np.array([lower[order[i:j]].min(axis=0) for i, j in nodes] + list(lower[order]))
    high = np.array([upper[order[i:j]].max(axis=0) for i, j in nodes] + list(upper[order]))
    # a box may be flat; the pad keeps touching boxes touching after rounding
    pad = 1e-12 * (np.abs(low).max(axis=1) + np.abs(high).max(axis=1))
    box = np.concatenate([0.5 * (low + high), 0.5 * (high - low) + pad[:, None]], axis=1)
    child = np.zeros((len(nodes), LANES), np.int32)
    lane = np.zeros((len(nodes), 6, LANES))
    lane[:, 3:] = EMPTY
    for i, members in enumerate(children):
        for k, member in enumerate(members):
            child[i, k] = len(nodes) + member[1] if isinstance(member, tuple) else member
            lane[i, :, k] = box[child[i, k]]
    return box, lane, child, order.astype(np.int32)


@inner(forceinline=True, **(KERNEL | {"fastmath": {"contract", "nnan", "nsz"}}))
def _hits(lane, n, box, k, m00, m01, m02, m10, m11, m12, m20, m21, m22, q0, q1, q2, corner, t):
    """Return the bit mask of the children of node n that touch box k of the other body.

    Tested along the six face normals and, if the box is that of triangle t ≥ 0 in ``corner``, along
    the triangle's normal. Matrix m and vector q map the other body's frame to the node's.
    """
    a00, a01, a02 = abs(m00), abs(m01), abs(m02)
    a10, a11, a12 = abs(m10), abs(m11), abs(m12)
    a20, a21, a22 = abs(m20), abs(m21), abs(m22)
    b0, b1, b2, h0, h1, h2 = box[k, 0], box[k, 1], box[k, 2], box[k, 3], box[k, 4], box[k, 5]
    c0, c1, c2 = (
        m00 * b0 + m01 * b1 + m02 * b2 + q0,
        m10 * b0 + m11 * b1 + m12 * b2 + q1,
        m20 * b0 + m21 * b1 + m22 * b2 + q2,
    )
    e0, e1, e2 = (
        a00 * h0 + a01 * h1 + a02 * h2,
        a10 * h0 + a11 * h1 + a12 * h2,
        a20 * h0 + a21 * h1 + a22 * h2,
    )
    n0 = n1 = n2 = o = 0.0
    if t >= 0:
        b0, b1, b2 = corner[t, 9], corner[t, 10], corner[t, 11]
        n0, n1, n2 = (
            m00 * b0 + m01 * b1 + m02 * b2,
            m10 * b0 + m11 * b1 + m12 * b2,
            m20 * b0 + m21 * b1 + m22 * b2,
        )
        o = corner[t, 12] - (n0 * q0 + n1 * q1 + n2 * q2)
    # distances from the plane, measured from the box's centre
    o += n0 * c0 + n1 * c1 + n2 * c2
    s0, s1, s2 = abs(n0), abs(n1), abs(n2)
    mask = 0
    for i in range(8):
        d0, d1, d2 = c0 - lane[n, 0, i], c1 - lane[n, 1, i], c2 - lane[n, 2, i]
        g0, g1, g2 = lane[n, 3, i], lane[n, 4, i], lane[n, 5, i]
        least = min(g0 + e0 - abs(d0), g1 + e1 - abs(d1))
        least = min(least, g2 + e2 - abs(d2))
        least = min(least, h0 + a00 * g0 + a10 * g1 + a20 * g2 - abs(m00 * d0 + m10 * d1 + m20 * d2))
        least = min(least, h1 + a01 * g0 + a11 * g1 + a21 * g2 - abs(m01 * d0 + m11 * d1 + m21 * d2))
        least = min(least, h2 + a02 * g0 + a12 * g1 + a22 * g2 - abs(m02 * d0 + m12 * d1 + m22 * d2))
        least = min(least, MARGIN + s0 * g0 + s1 * g1 + s2 * g2 - abs(o - (n0 * d0 + n1 * d1 + n2 * d2)))
        mask |= (1 << i) if least >= 0.0 else 0
    return mask


@inner(forceinline=True, **KERNEL)
def descend(pa, pb, i, j, R, p, stack, top):
    """Push the pairs of one body's node with those children of the other's that touch it; return
    the new height of the stack.

    The larger node is split; ``i`` and ``j`` are rows of the boxes and not both triangles.
    """
    larger = pa.box[i, 3] + pa.box[i, 4] + pa.box[i, 5] > pb.box[j, 3] + pb.box[j, 4] + pb.box[j, 5]
    of_a = i < len(pa.lane) and (larger or j >= len(pb.lane))
    if of_a:
        m00, m01, m02, m10, m11, m12, m20, m21, m22 = (
            R[0, 0], R[0, 1], R[0, 2], R[1, 0], R[1, 1], R[1, 2], R[2, 0], R[2, 1], R[2, 2]
        )  # fmt: skip
        q0, q1, q2 = p[0], p[1], p[2]
        lane, n, box, k, child, corner, t = pa.lane, i, pb.box, j, pa.child, pb.corner, j - len(pb.lane)
    else:
        m00, m01, m02, m10, m11, m12, m20, m21, m22 = (
            R[0, 0], R[1, 0], R[2, 0], R[0, 1], R[1, 1], R[2, 1], R[0, 2], R[1, 2], R[2, 2]
        )  # fmt: skip
        q0 = -(m00 * p[0] + m01 * p[1] + m02 * p[2])
        q1 = -(m10 * p[0] + m11 * p[1] + m12 * p[2])
        q2 = -(m20 * p[0] + m21 * p[1] + m22 * p[2])
        lane, n, box, k, child, corner, t = pb.lane, j, pa.box, i, pb.child, pa.corner, i - len(pa.lane)
    mask = _hits(lane, n, box, k, m00, m01, m02, m10, m11, m12, m20, m21, m22, q0, q1, q2, corner, t)
    c = 0
    while mask:
        if mask & 1:
            if of_a:
                stack[top, 0], stack[top, 1] = child[n, c], j
            else:
                stack[top, 0], stack[top, 1] = i, child[n, c]
            top += 1
        mask >>= 1
        c += 1
    return top


@inner(forceinline=True, **KERNEL)
def _reach(d, c):
    """Return the interval of coordinates c in which a triangle meets a plane, given the signed
    distances d of its corners, not all of one sign."""
    d0, d1, d2 = d
    c0, c1, c2 = c
    if (d0 > 0.0) == (d1 > 0.0):  # corner 2 is alone
        d0, d2, c0, c2 = d2, d0, c2, c0
    elif (d0 > 0.0) == (d2 > 0.0):  # corner 1 is alone
        d0, d1, c0, c1 = d1, d0, c1, c0
    s = c0 + (c1 - c0) * (d0 / (d0 - d1))
    t = c0 + (c2 - c0) * (d0 / (d0 - d2))
    return min(s, t), max(s, t)


@inner(forceinline=True, **KERNEL)
def _along(m, o, c, v):
    """Return m·x + o at the corners x of triangle v."""
    return (
        m[0] * c[v, 0] + m[1] * c[v, 1] + m[2] * c[v, 2] + o,
        m[0] * c[v, 3] + m[1] * c[v, 4] + m[2] * c[v, 5] + o,
        m[0] * c[v, 6] + m[1] * c[v, 7] + m[2] * c[v, 8] + o,
    )


@inner(forceinline=True, **KERNEL)
def triangles_apart(ca, u, cb, v, R, p):
    """Return True if triangle u of A and triangle v of B certainly do not cross.

    Each is tested against the other's plane, then the intervals in which they meet the line common
    to both planes (Möller).
    """
    # B's corners above A's plane
    n = ca[u, 9], ca[u, 10], ca[u, 11]
    b = _along(turn_back(R, n), dot(n, p) + ca[u, 12], cb, v)
    low, high = min(b), max(b)
    if low > MARGIN or high < -MARGIN:
        return True
    # A's corners above B's plane
    k = turn(R, (cb[v, 9], cb[v, 10], cb[v, 11]))
    a = _along(k, cb[v, 12] - dot(k, p), ca, u)
    low_a, high_a = min(a), max(a)
    if low_a > MARGIN or high_a < -MARGIN:
        return True
    if low > -MARGIN or high < MARGIN or low_a > -MARGIN or high_a < MARGIN:
        return False  # a corner or more on the other's plane
    l0, l1, l2 = (
        abs(n[1] * k[2] - n[2] * k[1]),
        abs(n[2] * k[0] - n[0] * k[2]),
        abs(n[0] * k[1] - n[1] * k[0]),
    )
    x = 0 if l0 >= l1 and l0 >= l2 else (1 if l1 >= l2 else 2)
    if max(l0, l1, l2) < 1e-6:
        return False
    low_b, high_b = _reach(b, _along((R[x, 0], R[x, 1], R[x, 2]), p[x], cb, v))
    low_a, high_a = _reach(a, (ca[u, x], ca[u, 3 + x], ca[u, 6 + x]))
    margin = 1e-9 * (high_a - low_a + high_b - low_b)
    return low_a > high_b + margin or low_b > high_a + margin
