"""Polygons of one pair of elements: the equal-pressure plane in two tets, and a rigid triangle in
one tet.

A polygon is stored in the first rows of a scratch array, one vertex a row: x, y, z in A's frame,
then four barycentric coordinates in the tet that clips it, so that a cut only interpolates rows.
``label[i]`` names the element side that cut the edge from vertex i to vertex i + 1: 0…3 a face of
A's tet, 4…7 a face of B's tet or, for a rigid triangle, one of its edges.
"""

from __future__ import annotations

import numpy as np

from dexengines.hydroelastic.vectors import into, vertex
from dexengines.kernels import KERNEL, inner

ROWS = 16
"""Rows of a scratch array; a polygon has at most eight vertices."""
COLUMNS = 8
"""Seven are used; eight are one vector register."""
FREE = 10
"""First of two rows for corners being made."""
TOLERANCE = 4e-12
"""Barycentric coordinates above minus this are inside, so that a vertex on a face belongs to both
sides. Rounding of positions to 1e-16 m in a tet 2e-5 m high moves the coordinate by this much; a
vertex kept wrongly changes an area by as little."""


ON_FACE = 1e-11
"""A polygon whose barycentric coordinate stays below this may lie in that face of the tet."""


def _slice_table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return, for every set of vertices with f > 0 (bit i for vertex i), the number of corners, the
    tet edge of each corner, and the labels.

    Corners run counter-clockwise about ∇f for a positively oriented tet.
    """
    corner = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    count, edges, labels = np.zeros(16, np.int64), np.zeros((16, 4, 2), np.int64), np.zeros((16, 4), np.int64)
    for mask in range(1, 15):
        up = [i for i in range(4) if mask >> i & 1]
        down = [i for i in range(4) if not mask >> i & 1]
        if len(up) == 2:
            ring = [(up[0], down[0]), (up[0], down[1]), (up[1], down[1]), (up[1], down[0])]
        else:
            ring = [(u, d) for u in up for d in down]
        middle = [corner[[u, d]].mean(axis=0) for u, d in ring]
        about = np.cross(middle[1] - middle[0], middle[2] - middle[1])
        if about @ (corner[up].mean(axis=0) - corner[down].mean(axis=0)) < 0:
            ring.reverse()
        count[mask] = len(ring)
        for i, edge in enumerate(ring):
            edges[mask, i] = edge
            (labels[mask, i],) = {0, 1, 2, 3} - set(edge) - set(ring[(i + 1) % len(ring)])
    return count, edges, labels


LOWEST = np.array([0] + [(i & -i).bit_length() - 1 for i in range(1, 512)])
"""Index of the lowest set bit."""
SLICE_COUNT, SLICE_EDGE, SLICE_LABEL = _slice_table()


@inner(forceinline=True, **KERNEL)
def _cross(poly, inside, outside, column, to):
    """Write the point where the edge from vertex ``inside`` to ``outside`` crosses a face as row
    ``to``."""
    b = max(poly[inside, column], 0.0)
    t = b / (b - poly[outside, column])
    for j in range(COLUMNS):
        poly[to, j] = poly[inside, j] + t * (poly[outside, j] - poly[inside, j])


@inner(forceinline=True, **KERNEL)
def _move(poly, label, i, to):
    """Copy vertex i and the label of its edge."""
    for j in range(COLUMNS):
        poly[to, j] = poly[i, j]
    label[to] = label[i]


@inner(forceinline=True, **KERNEL)
def cut(poly, label, n, k, face):
    """Cut a convex polygon in place to barycentric coordinate ``k`` ≥ 0; the new edge gets the
    label ``face``.

    Returns:
        Number of vertices left.
    """
    column = 3 + k
    outside = 0
    for i in range(n):
        outside |= 0 if poly[i, column] >= -TOLERANCE else 1 << i
    everywhere = (1 << n) - 1
    if outside == 0:
        return n
    if outside == everywhere:
        return 0
    inside = everywhere - outside
    # last vertex inside before the run of vertices outside, first one inside after it
    first = LOWEST[inside & (outside >> 1 | (outside & 1) << (n - 1))]
    turned = (outside >> first | outside << (n - first)) & everywhere
    last = first + LOWEST[(everywhere - turned) & ~1 | 1 << n]
    if last >= n:
        last -= n
    # corners where the edges first → first + 1 and last − 1 → last cross the face
    prior = last - 1 if last > 0 else n - 1
    _cross(poly, first, first + 1 if first + 1 < n else 0, column, FREE)
    _cross(poly, last, prior, column, FREE + 1)
    label[FREE], label[FREE + 1] = face, label[prior]
    # the vertices inside stay in their order: last … first, wrapping round the end or not
    m = first - last + 1
    if m <= 0:
        m += n
    if last > first:  # the run outside lies between: keep 0…first, then the two corners, then last…n−1
        shift = first + 3 - last
        if shift > 0:  # only one vertex is outside
            for i in range(n - 1, last - 1, -1):
                _move(poly, label, i, i + shift)
        elif shift < 0:
            for i in range(last, n):
                _move(poly, label, i, i + shift)
        at = first + 1
    else:  # the run outside wraps round the end: keep last…first, moved to the front
        if last > 0:
            for i in range(m):
                _move(poly, label, i + last, i)
        at = m
    for i in range(2):
        _move(poly, label, FREE + i, at + i)
        poly[at + i, column] = 0.0
    return m + 2


@inner(forceinline=True, **KERNEL)
def barycentric(element, e, k, x):
    """Return barycentric coordinate k of a point in element e."""
    i = 4 * k
    return element[e, i] * x[0] + element[e, i + 1] * x[1] + element[e, i + 2] * x[2] + element[e, i + 3]


@inner(forceinline=True, **KERNEL)
def slice_tet(poly, label, mask, pa, ta, R, p, pb, eb):
    """Write the polygon f = 0 in tet ``ta`` of A, given f at its corners in ``poly[12:, 7]`` and
    the set of corners with f > 0, and the coordinates of its corners in element ``eb`` of B.

    Returns:
        Number of corners, 3 or 4.
    """
    n = SLICE_COUNT[mask]
    for m in range(n):
        i, j = SLICE_EDGE[mask, m, 0], SLICE_EDGE[mask, m, 1]
        fi, fj = poly[12 + i, 7], poly[12 + j, 7]
        t = fi / (fi - fj)
        u, v = vertex(pa, pa.element_int[ta, i]), vertex(pa, pa.element_int[ta, j])
        x = u[0] + t * (v[0] - u[0]), u[1] + t * (v[1] - u[1]), u[2] + t * (v[2] - u[2])
        poly[m, 0], poly[m, 1], poly[m, 2] = x
        label[m] = SLICE_LABEL[mask, m]
        y = into(R, p, x)
        for k in range(4):
            poly[m, 3 + k] = barycentric(pb.element, eb, k, y)
    return n


@inner(forceinline=True, **KERNEL)
def cut_all(poly, label, n):
    """Cut with all four coordinates of B; edges on face k get the label ``4 + k``.

    Returns:
        Number of vertices left, and whether the polygon lies in a face.
    """
    on_face = False
    cuts = 0
    for k in range(4):
        least = most = poly[0, 3 + k]
        for i in range(1, n):
            most = max(most, poly[i, 3 + k])
            least = min(least, poly[i, 3 + k])
        if most < ON_FACE:
            if most < -TOLERANCE:
                return 0, False
            on_face = True
        cuts |= 0 if least >= -TOLERANCE else 1 << k
    for k in range(4):
        if cuts >> k & 1:
            n = cut(poly, label, n, k, 4 + k)
            if n < 3:
                return 0, False
    return n, on_face
