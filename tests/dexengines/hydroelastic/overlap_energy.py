"""Energy of a contact, U = ∫ p0 dV over the overlap, p0 the lesser of the two pressures (A's if B
is rigid), by cutting all pairs of overlapping elements into tets.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dexengines.hydroelastic.clip import barycentric
from dexengines.hydroelastic.fields import CompliantMesh, RigidMesh
from dexengines.kernels import entry

DEPTH = 512


@njit
def _volume(t):
    a0, a1, a2 = t[1, 0] - t[0, 0], t[1, 1] - t[0, 1], t[1, 2] - t[0, 2]
    b0, b1, b2 = t[2, 0] - t[0, 0], t[2, 1] - t[0, 1], t[2, 2] - t[0, 2]
    c0, c1, c2 = t[3, 0] - t[0, 0], t[3, 1] - t[0, 1], t[3, 2] - t[0, 2]
    return abs(a0 * (b1 * c2 - b2 * c1) + a1 * (b2 * c0 - b0 * c2) + a2 * (b0 * c1 - b1 * c0)) / 6.0


@njit
def _put(stack, at, a, b, c, d):
    for i in range(3):
        stack[at, 0, i], stack[at, 1, i], stack[at, 2, i], stack[at, 3, i] = a[i], b[i], c[i], d[i]


@njit
def _integrate(stack, top, plane, planes, p, q, cap):
    """Return ∫ of the lesser of two linear functions over the tets on the stack, where all planes are
    ≥ 0; in one piece because the stack is shared.

    Args:
        stack: (DEPTH, 4, 3) tets; the first ``top`` wait, each with the number of planes already
            met in ``plane``.
        p, q: (4,) linear functions a·x + b; ``q`` counts only with ``cap``.
    """
    total = 0.0
    value, f0, order = np.empty(4), np.empty(4), np.empty(4, np.int64)
    t, a, c = np.empty((4, 3)), np.empty((4, 3)), np.empty((4, 4, 3))
    while top > 0:
        top -= 1
        for i in range(4):
            for d in range(3):
                t[i, d] = stack[top, i, d]
        k = plane[top]
        last = planes.shape[0] + (1 if cap else 0)
        if k == last:
            v = _volume(t)
            mean_p = mean_q = 0.0
            for i in range(4):
                mean_p += 0.25 * (p[0] * t[i, 0] + p[1] * t[i, 1] + p[2] * t[i, 2] + p[3])
                mean_q += 0.25 * (q[0] * t[i, 0] + q[1] * t[i, 1] + q[2] * t[i, 2] + q[3])
            total += v * (min(mean_p, mean_q) if cap else mean_p)
            continue
        inside = 0
        for i in range(4):
            value[i] = 0.0
            for d in range(4):
                f = planes[k, d] if k < planes.shape[0] else p[d] - q[d]
                value[i] += f * (t[i, d] if d < 3 else 1.0)
            inside += value[i] > 0.0
        both = k == planes.shape[0]  # p − q divides, it does not cut away
        if inside == 4 or (both and inside == 0):
            plane[top] = k + 1  # the tet is still there
            top += 1
            continue
        if inside == 0:
            continue
        low = 3
        high = 0
        for i in range(4):  # those inside first
            if value[i] > 0.0:
                order[high] = i
                high += 1
            else:
                order[low] = i
                low -= 1
        for side in range(2 if both else 1):
            m = inside if side == 0 else 4 - inside
            for i in range(4):
                k_i = order[i] if side == 0 else order[3 - i]
                f0[i] = value[k_i]
                for d in range(3):
                    a[i, d] = t[k_i, d]
            for i in range(m):  # where edges cross
                for j in range(m, 4):
                    s = f0[i] / (f0[i] - f0[j])
                    for d in range(3):
                        c[i, j, d] = a[i, d] + s * (a[j, d] - a[i, d])
            if m == 1:
                pieces = 1
                _put(stack, top, a[0], c[0, 1], c[0, 2], c[0, 3])
            elif m == 2:
                pieces = 3
                _put(stack, top, a[0], a[1], c[1, 2], c[1, 3])
                _put(stack, top + 1, a[0], c[0, 2], c[1, 2], c[1, 3])
                _put(stack, top + 2, a[0], c[0, 2], c[0, 3], c[1, 3])
            else:
                pieces = 3
                _put(stack, top, a[0], a[1], a[2], c[2, 3])
                _put(stack, top + 1, a[0], a[1], c[1, 3], c[2, 3])
                _put(stack, top + 2, a[0], c[0, 3], c[1, 3], c[2, 3])
            for i in range(pieces):
                plane[top + i] = k + 1
            top += pieces
    return total


@entry(cache=False)
def _energy(pa, tets_b, planes_b, field_b, sign_b, cap):
    """Sum over all pairs of A's tets and the tets (k, 4, 3) of B in A's frame."""
    stack, plane = np.empty((DEPTH, 4, 3)), np.zeros(DEPTH, np.int64)
    total = 0.0
    corner = np.empty((4, 3))
    for i in range(len(pa.element)):
        for k in range(4):
            for d in range(3):
                corner[k, d] = pa.vertex[pa.element_int[i, k], d]
        p = pa.element[i, 16:20]
        for j in range(len(tets_b)):
            apart = False
            for k in range(4):
                most, most_a = -1.0, -1.0
                for m in range(4):
                    most = max(most, barycentric(pa.element, i, k, tets_b[j, m]))
                    f = planes_b[j, k]
                    most_a = max(
                        most_a, f[0] * corner[m, 0] + f[1] * corner[m, 1] + f[2] * corner[m, 2] + f[3]
                    )
                if most <= 0.0 or most_a <= 0.0:
                    apart = True
                    break
            if not apart:
                _put(stack, 0, corner[0], corner[1], corner[2], corner[3])
                plane[0] = 0
                total += sign_b[j] * _integrate(stack, 1, plane, planes_b[j], p, field_b[j], cap)
    return total


def energy(
    a: CompliantMesh,
    b: CompliantMesh | RigidMesh,
    R_WA: np.ndarray,
    p_WA: np.ndarray,
    R_WB: np.ndarray,
    p_WB: np.ndarray,
) -> float:
    """U [J] of A and B at the given poses; the undamped, frictionless force is its negative
    gradient.

    A rigid B is the sum, by sign, of the tets its triangles form with one point (so it must be
    closed).
    """
    R, p = R_WA.T @ R_WB, R_WA.T @ (p_WB - p_WA)
    if isinstance(b, RigidMesh):
        corners = b.vertices_B[b.triangles] @ R.T + p
        apex = np.broadcast_to(corners.reshape(-1, 3).mean(axis=0), (len(corners), 1, 3))
        tets = np.concatenate([apex, corners], axis=1)
        field = np.zeros((len(tets), 4))
    else:
        tets = b.vertices_B[b.tets] @ R.T + p
        gradient = b.gradient_B @ R.T
        field = np.column_stack([gradient, b.offset - gradient @ p])
    volume = np.linalg.det(tets[:, 1:] - tets[:, :1])
    solid = np.abs(volume) > 1e-300
    tets, field, sign = tets[solid], field[solid], np.sign(volume[solid])
    matrix = np.concatenate([tets.transpose(0, 2, 1), np.ones((len(tets), 1, 4))], axis=1)
    planes = np.linalg.inv(matrix)
    return _energy(
        a.packed,
        np.ascontiguousarray(tets),
        np.ascontiguousarray(planes),
        field,
        sign,
        isinstance(b, CompliantMesh),
    )
