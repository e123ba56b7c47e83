"""Contacts of a pair of geometries of any kind."""

from __future__ import annotations

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.distance import support
from dexengines.lcp.features import FACE_POINT, POINT_POINT, gap_of_features
from dexengines.lcp.manifold import add, corners, corners_over_faces, edges, points, points_by_edges
from dexengines.lcp.rims import contacts_of_cylinder, rims_over_faces
from dexengines.lcp.vectors import divide, dot, minus, put, times, unrotated

NO_FEATURE = -1
"""Index of a feature where only a direction is known."""
MISSED = 1e-7
"""Excess of the nearest features' gap over the geometries' above which features count as missed
[m]."""
SEEN = 1e-7
"""Gap at which features of overlapping geometries are searched for [m]."""
ALONG = 0.9
"""Least cosine between the normals of overlapping geometries and the direction that parts them."""


@inner
def _merge(shapes, first, count, feature, data, R, p):
    """Remove contacts with the place and normal of another of the same pair; return one past the
    last."""
    n, c = np.empty((count - first, 3)), np.empty((count - first, 3))
    kept = first
    for k in range(first, count):
        a, b = feature[k, 0], feature[k, 1]
        ba, bb = shapes.body[a], shapes.body[b]
        m = kept - first
        gap_of_features(feature[k, 2], feature[k, 3], data[k], R[ba], p[ba], R[bb], p[bb], n[m], c[m])
        if feature[k, 0] != feature[first, 0]:  # a face of the other body
            divide(n[m], -1.0)
        new = True
        for j in range(m):
            same = n[j, 0] * n[m, 0] + n[j, 1] * n[m, 1] + n[j, 2] * n[m, 2]
            apart = (c[j, 0] - c[m, 0]) ** 2 + (c[j, 1] - c[m, 1]) ** 2 + (c[j, 2] - c[m, 2]) ** 2
            if same > 1.0 - 1e-6 and apart < 4e-12:
                new = False
        if new:
            if kept != k:
                put(feature[kept], feature[k])
                put(data[kept], data[k])
            kept += 1
    return kept


@inner
def _across(shapes, pair, a, b, Ra, pa, Rb, pb, n, feature, data, count):
    """Append a contact of the farthest points along n, with a face of a across n, where no features
    are found, as within 1e-13 m."""
    x, y = np.empty(3), np.empty(3)
    support(shapes, a, Ra, pa, n, x)
    support(shapes, b, Rb, pb, times(-1.0, n), y)
    x_B, n_B, y_B, ra, rb = (
        unrotated(Ra, minus(x, pa)),
        unrotated(Ra, n),
        unrotated(Rb, minus(y, pb)),
        shapes.radius[a],
        shapes.radius[b],
    )
    return add(
        feature, data, count, a, b, FACE_POINT, 1, pair, NO_FEATURE, NO_FEATURE, x_B, n_B, y_B,
        np.zeros(3), ra, rb,
    )  # fmt: skip


@inner
def _completed(shapes, pair, a, b, R, p, n, gap, feature, data, first, count):
    """Append the contact of the farthest points along n where no features as near as the geometries
    were found."""
    if count > feature.shape[0]:
        return count
    w, c = np.empty(3), np.empty(3)
    for k in range(first, count):
        ba, bb = shapes.body[feature[k, 0]], shapes.body[feature[k, 1]]
        if (
            gap_of_features(feature[k, 2], feature[k, 3], data[k], R[ba], p[ba], R[bb], p[bb], w, c)
            <= gap + MISSED
        ):
            return count
    ba, bb = shapes.body[a], shapes.body[b]
    return _across(shapes, pair, a, b, R[ba], p[ba], R[bb], p[bb], n, feature, data, count)


@inner
def _plane_and_hull(shapes, pair, a, b, Rb, pb, n, margin, feature, data, count):
    """Append the corners of b near the half-space a."""
    sb, point, zero = shapes.vertex_start[b], shapes.vertex[shapes.vertex_start[a]], np.zeros(3)
    Xb = np.empty((shapes.vertex_start[b + 1] - sb, 3))
    corners(shapes, b, Rb, pb, Xb)
    for k in range(Xb.shape[0]):
        height = -shapes.radius[b]
        for i in range(3):
            height += n[i] * (Xb[k, i] - point[i])
        if height <= margin:
            normal, v, rb = shapes.normal[a], shapes.vertex[sb + k], shapes.radius[b]
            count = add(
                feature, data, count, a, b, FACE_POINT, 1, pair, 0, sb + k, point, normal, v, zero, 0.0, rb
            )
    return count


@inner
def _cylinders(shapes, pair, a, b, Ra, pa, Rb, pb, n, gap, margin, feature, data, count):
    """Append the contacts of geometries of which one is a cylinder."""
    if shapes.is_plane[a]:
        return rims_over_faces(shapes, a, b, Ra, pa, Rb, pb, n, margin, pair, feature, data, count)
    if shapes.disc[a] > 0.0:
        count = contacts_of_cylinder(
            shapes, a, b, Ra, pa, Rb, pb, n, gap, margin, False, pair, feature, data, count
        )
    if shapes.disc[b] > 0.0:
        both = shapes.disc[a] > 0.0
        count = contacts_of_cylinder(
            shapes, b, a, Rb, pb, Ra, pa, times(-1.0, n), gap, margin, both, pair, feature, data, count
        )
    return count


@inner
def _hulls(shapes, pair, a, b, Ra, pa, Rb, pb, n, gap, margin, feature, data, count):
    """Append the contacts of rounded hulls, from their corners in the slab that the other can reach
    within the margin."""
    first, sa, sb = count, shapes.vertex_start[a], shapes.vertex_start[b]
    Xa, Xb = np.empty((shapes.vertex_start[a + 1] - sa, 3)), np.empty((shapes.vertex_start[b + 1] - sb, 3))
    corners(shapes, a, Ra, pa, Xa)
    corners(shapes, b, Rb, pb, Xb)
    ha, hb = np.empty(Xa.shape[0]), np.empty(Xb.shape[0])
    for k in range(ha.size):
        ha[k] = n[0] * Xa[k, 0] + n[1] * Xa[k, 1] + n[2] * Xa[k, 2]
    for k in range(hb.size):
        hb[k] = n[0] * Xb[k, 0] + n[1] * Xb[k, 1] + n[2] * Xb[k, 2]
    rounding = shapes.radius[a] + shapes.radius[b]
    slack = margin - min(gap, 0.0) + rounding
    near_a, near_b = ha >= hb.min() - slack, hb <= ha.max() + slack
    count = corners_over_faces(
        shapes, a, b, Ra, pa, Rb, pb, Xb, near_b, margin, pair, feature, data, count, n, 1.0
    )
    count = corners_over_faces(
        shapes, b, a, Rb, pb, Ra, pa, Xa, near_a, margin, pair, feature, data, count, n, -1.0
    )
    count = edges(shapes, a, b, Xa, Xb, near_a, near_b, margin, pair, feature, data, count)
    if rounding > 0.0 or count == first:
        count = points_by_edges(shapes, a, b, Xa, Xb, near_a, near_b, margin, pair, feature, data, count)
        count = points_by_edges(shapes, b, a, Xb, Xa, near_b, near_a, margin, pair, feature, data, count)
        count = points(shapes, a, b, Xa, Xb, near_a, near_b, margin, pair, feature, data, count)
    return count


@inner
def contacts_of_pair(shapes, pair, a, b, R, p, n, gap, margin, feature, data, count):
    """Append the contacts of geometries a and b within ``margin``.

    Args:
        R, p: (B, 3, 3), (B, 3) poses of all bodies.
        n, gap: results of :func:`.distance.separation`.
        feature: (n, 7) written: geometries, kind, side, pair, indices of the two features. data:
            (n, 16), see :data:`.features.DATA`.
        count: contacts so far.

    Returns:
        Number of contacts; more than there is room for if the arrays are full.
    """
    ba, bb, first = shapes.body[a], shapes.body[b], count
    Ra, pa, Rb, pb = R[ba], p[ba], R[bb], p[bb]
    sa, sb = shapes.vertex_start[a], shapes.vertex_start[b]
    if shapes.disc[a] > 0.0 or shapes.disc[b] > 0.0:
        count = _cylinders(shapes, pair, a, b, Ra, pa, Rb, pb, n, gap, margin, feature, data, count)
    elif shapes.is_plane[a]:
        return _plane_and_hull(shapes, pair, a, b, Rb, pb, n, margin, feature, data, count)
    elif shapes.vertex_start[a + 1] - sa == 1 and shapes.vertex_start[b + 1] - sb == 1:
        zero, va, vb = np.zeros(3), shapes.vertex[sa], shapes.vertex[sb]
        ra, rb = shapes.radius[a], shapes.radius[b]
        return add(feature, data, count, a, b, POINT_POINT, 1, pair, sa, sb, va, zero, vb, zero, ra, rb)
    else:
        count = _hulls(shapes, pair, a, b, Ra, pa, Rb, pb, n, gap, margin, feature, data, count)
    if first + 2 <= count <= feature.shape[0]:
        count = _merge(shapes, first, count, feature, data, R, p)
    return _completed(shapes, pair, a, b, R, p, n, gap, feature, data, first, count)


@inner
def contacts_of_overlap(shapes, pair, a, b, R, p, n, gap, margin, feature, data, count):
    """Append the contacts of overlapping geometries: those they have after b is moved along n until
    they just part, without those that do not push along n or lie deeper than the pair.

    Arguments as in :func:`contacts_of_pair`.
    """
    body, first = shapes.body[b], count
    x, y, z = p[body]
    for i in range(3):
        p[body, i] += (SEEN - gap) * n[i]
    end = contacts_of_pair(shapes, pair, a, b, R, p, n, SEEN, margin - gap, feature, data, count)
    p[body, 0], p[body, 1], p[body, 2] = x, y, z
    if end > feature.shape[0]:
        return end
    w, c = np.empty(3), np.empty(3)
    for k in range(first, end):
        ga, gb = shapes.body[feature[k, 0]], shapes.body[feature[k, 1]]
        depth = gap_of_features(feature[k, 2], feature[k, 3], data[k], R[ga], p[ga], R[gb], p[gb], w, c)
        along = dot(w, n) * (1.0 if feature[k, 0] == a else -1.0)
        if along >= ALONG and depth <= margin and depth >= gap - SEEN:
            if count != k:
                put(feature[count], feature[k])
                put(data[count], data[k])
            count += 1
    if count == first:
        return _across(
            shapes, pair, a, b, R[shapes.body[a]], p[shapes.body[a]], R[body], p[body], n, feature, data,
            count,
        )  # fmt: skip
    return count
