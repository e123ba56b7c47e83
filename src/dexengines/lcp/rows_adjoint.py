"""Transposed derivatives of contact rows and of the forces of given classes, in real numbers.

Directions of rows are differentiated by hand; gap, normal and point of two features by the pose of
one of the bodies in complex numbers, six at a time. Where both bodies move alike only the frame
moves, which gives the derivative by the other's pose.
"""

from __future__ import annotations

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.classes import (
    CLAMP,
    HIGH,
    LOW,
    REFINEMENTS,
    REGULARISATION,
    active_rows,
    class_matrix,
    factor,
)
from dexengines.lcp.dynamics_adjoint import dot6
from dexengines.lcp.features import gap_of_features
from dexengines.lcp.rows import SLIDING
from dexengines.lcp.vectors import cross, dot, fill, put

SMALL = 1e-30
"""Size of the imaginary perturbation; its square vanishes relative to 1."""


@inner
def _pull_feature(kind, side, data, Ra, pa, Rb, pb, n, c, bar, pose_a, pose_b):
    """Add to the cotangents of the two bodies' poses those that ``bar`` (7,) of gap, normal and
    point, at n and c (3,), has by them."""
    Rac, pac, Rbc, pbc = Ra + 0j, pa + 0j, np.empty((3, 3), np.complex128), np.empty(3, np.complex128)
    nc, cc = np.empty(3, np.complex128), np.empty(3, np.complex128)
    step = 1j * SMALL
    for k in range(6):
        for i in range(3):
            pbc[i] = pb[i]
            for j in range(3):
                Rbc[i, j] = Rb[i, j]
        if k < 3:
            i, j = (k + 1) % 3, (k + 2) % 3
            pbc[i] -= step * pb[j]
            pbc[j] += step * pb[i]
            for col in range(3):
                Rbc[i, col] -= step * Rb[j, col]
                Rbc[j, col] += step * Rb[i, col]
        else:
            pbc[k - 3] += step
        gap = gap_of_features(kind, side, data, Rac, pac, Rbc, pbc, nc, cc)
        total = bar[0] * gap.imag
        for i in range(3):
            total += bar[1 + i] * nc[i].imag + bar[4 + i] * cc[i].imag
        total /= SMALL
        pose_b[k] += total
        pose_a[k] -= total
    both = np.empty(3)
    for first, x in ((1, n), (4, c)):
        cross(x, bar[first : first + 3], both)
        for i in range(3):
            pose_a[i] += both[i]
    for i in range(3):
        pose_a[3 + i] += bar[4 + i]


@inner
def _pull_row(tree, S, body, wrench, sign, row_bar, axis, bar):
    """Pull back :func:`.rows.point_row`: add to the cotangents of the axes, and of the wrench
    (c × d, d)."""
    k = tree.last_dof[body]
    while k >= 0:
        x = sign * row_bar[k]
        if x != 0.0:
            for i in range(6):
                axis[k, i] += x * wrench[i]
                bar[i] += x * S[k, i]
        k = tree.dof_parent[k]


@inner
def _relative_twist(tree, S, ba, bb, v, out):
    fill(out, 0.0)
    for body, sign in ((ba, -1.0), (bb, 1.0)):
        k = tree.last_dof[body]
        while k >= 0:
            for i in range(6):
                out[i] += sign * v[k] * S[k, i]
            k = tree.dof_parent[k]


@inner
def _pull_slip(tree, S, ba, bb, slip, twist_bar, axis, slip_bar):
    """Pull back :func:`_relative_twist`."""
    for body, sign in ((ba, -1.0), (bb, 1.0)):
        k = tree.last_dof[body]
        while k >= 0:
            slip_bar[k] += sign * dot6(S[k], twist_bar)
            for i in range(6):
                axis[k, i] += sign * slip[k] * twist_bar[i]
            k = tree.dof_parent[k]


@inner
def _direction(mode, n, twist, c, y):
    """Write to y (3,) the first friction direction before normalisation; return the vector that it
    is the projection of, across n."""
    p = np.zeros(3)
    if mode > 0:
        p[mode - 1] = 1.0
    else:
        cross(twist[:3], c, p)
        for i in range(3):
            p[i] += twist[3 + i]
    along = dot(n, p)
    for i in range(3):
        y[i] = p[i] - along * n[i]
    return p


@inner
def _pull_direction(mode, n, c, p, twist, y, t_bar, bar, twist_bar):
    """Pull back :func:`_direction` and its normalisation: ``bar`` (7,) of normal and point is added
    to, ``twist_bar`` written."""
    y_bar, x = np.empty(3), np.empty(3)
    length = np.sqrt(dot(y, y))
    along = dot(y, t_bar) / (length * length)
    for i in range(3):
        y_bar[i] = (t_bar[i] - along * y[i]) / length
    normal, out = dot(n, p), dot(n, y_bar)
    for i in range(3):
        bar[1 + i] -= normal * y_bar[i] + out * p[i]
    if mode > 0:
        return
    for i in range(3):
        y_bar[i] -= out * n[i]  # now that of p
        twist_bar[3 + i] = y_bar[i]
    cross(c, y_bar, twist_bar[:3])
    cross(y_bar, twist[:3], x)
    for i in range(3):
        bar[4 + i] += x[i]


@inner
def _pull_place(tree, S, ba, bb, c, d, row_bar, axis, bar, x):
    """Pull back the row of one contact direction d at point c: add to the cotangents of the axes,
    and of the point in ``bar`` (7,); write that of d to x (3,)."""
    wrench, wrench_bar = np.empty(6), np.zeros(6)
    cross(c, d, wrench[:3])
    put(wrench[3:], d)
    _pull_row(tree, S, bb, wrench, 1.0, row_bar, axis, wrench_bar)
    _pull_row(tree, S, ba, wrench, -1.0, row_bar, axis, wrench_bar)
    cross(d, wrench_bar[:3], x)
    for i in range(3):
        bar[4 + i] += x[i]
    cross(wrench_bar[:3], c, x)
    for i in range(3):
        x[i] += wrench_bar[3 + i]


@inner
def _pull_friction(world, m, feature, mode, slip, J_bar, n, c, bar, out, slip_bar):
    """Pull back the friction rows of one contact, whose cotangents are the rows of J_bar."""
    tree, body, directions = world.tree, world.shapes.body, world.directions
    ba, bb = body[feature[0]], body[feature[1]]
    t, s, y, d, x = np.empty(3), np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    t_bar, s_bar, twist, twist_bar = np.zeros(3), np.zeros(3), np.empty(6), np.empty(6)
    _relative_twist(tree, m.S, ba, bb, slip, twist)
    p = _direction(mode, n, twist, c, y)
    length = np.sqrt(dot(y, y))
    for i in range(3):
        t[i] = y[i] / length
    cross(n, t, s)
    for j in range(J_bar.shape[0]):
        along, across = np.cos(np.pi * j / directions), np.sin(np.pi * j / directions)
        if 2 * j == directions:
            along = 0.0
        for i in range(3):
            d[i] = along * t[i] + across * s[i]
        _pull_place(tree, m.S, ba, bb, c, d, J_bar[j], out.axis, bar, x)
        for i in range(3):
            t_bar[i] += along * x[i]
            s_bar[i] += across * x[i]
    cross(t, s_bar, x)
    for i in range(3):
        bar[1 + i] += x[i]
    cross(s_bar, n, x)
    for i in range(3):
        t_bar[i] += x[i]
    _pull_direction(mode, n, c, p, twist, y, t_bar, bar, twist_bar)
    if mode <= 0:
        _pull_slip(tree, m.S, ba, bb, slip, twist_bar, out.axis, slip_bar)


@inner
def pull_contact_rows(world, friction, m, tape, rows, slips, J_bar, gap_bar, mu_bar, out, slip_bars):
    """Pull back the contact rows of :func:`.rows.make_rows`.

    Args:
        J_bar: (n, V), gap_bar, mu_bar: (n,) cotangents of the rows.
        out: :class:`.dynamics_adjoint.Cotangents`; those of axes, poses and friction are added to.
        slip_bars: two (V,) cotangents of ``slips``, added to.
    """
    shapes, directions, bar, x, total, r = world.shapes, world.directions, np.empty(7), np.empty(3), 0.0, 0
    for j in range(directions):
        total += abs(np.cos(np.pi * j / directions))
    for k in range(rows.first, rows.last):
        feature = tape.feature[k]
        ba, bb, n, c = shapes.body[feature[0]], shapes.body[feature[1]], rows.place[r, :3], rows.place[r, 3:]
        fill(bar, 0.0)
        bar[0] = gap_bar[r]
        _pull_place(world.tree, m.S, ba, bb, c, n, J_bar[r], out.axis, bar, x)
        for i in range(3):
            bar[1 + i] += x[i]
        r += 1
        if friction[shapes.friction_of[feature[4]]] != 0.0:
            sliding = tape.mode[k] == SLIDING
            w, slip, slip_bar = (
                (1, slips[1], slip_bars[1]) if sliding else (directions, slips[0], slip_bars[0])
            )
            _pull_friction(world, m, feature, tape.mode[k], slip, J_bar[r : r + w], n, c, bar, out, slip_bar)
            for _ in range(w):
                out.friction[shapes.friction_of[feature[4]]] += mu_bar[r] if sliding else mu_bar[r] / total
                r += 1
        _pull_feature(
            feature[2], feature[3], tape.data[k], m.R[ba], m.p[ba], m.R[bb], m.p[bb], n, c, bar,
            out.pose[ba], out.pose[bb],
        )  # fmt: skip


@inner
def _solve_transposed(G, order, x):
    """x ← G⁻ᵀ x with the factors of :func:`.classes.factor`; zero where a row had no pivot."""
    n = order.size
    for k in range(n):
        x[k] = x[k] / G[k, k] if G[k, k] != 0.0 else 0.0
        for j in range(k + 1, n):
            x[j] -= G[k, j] * x[k]
    for k in range(n - 1, -1, -1):
        for j in range(k):
            x[j] -= G[k, j] * x[k]
    for k in range(n - 1, -1, -1):
        if order[k] != k:
            x[k], x[order[k]] = x[order[k]], x[k]


@inner
def pull_forces(rows, cls, f, f_bar, unregularised, Z, mu_bar):
    """Pull back :func:`.classes.forces_of_classes`: solve the transposed equations of the classes.

    Args:
        f, f_bar: (n,) the forces and their cotangent.
        unregularised: whether the forces were not regularised.
        Z: (n,) written: the cotangent of b is −Z, that of A is −Z fᵀ.
        mu_bar: (n,) cotangent of the coefficients, added to.
    """
    A, owner, mu, n = rows.A, rows.owner, rows.mu, f.size
    index, rounds = np.empty(n, np.int64), 0 if unregularised else REFINEMENTS
    compliance = 0.0 if unregularised else REGULARISATION
    count = active_rows(cls, owner, index)
    fill(Z, 0.0)
    if count == 0:
        return
    G, order = np.empty((count, count)), np.empty(count, np.int64)
    class_matrix(A, owner, mu, cls, index, count, G)
    x, e, top = np.empty(count), np.empty(count), 0.0
    for i in range(count):
        x[i] = f_bar[index[i]]
        top = max(top, abs(A[index[i], index[i]]))
    for k in range(n):
        if (cls[k] == HIGH or cls[k] == LOW) and cls[owner[k]] == CLAMP:
            x[np.searchsorted(index[:count], owner[k])] += (mu[k] if cls[k] == HIGH else -mu[k]) * f_bar[k]
    H, z = G.copy(), x.copy()
    for i in range(count):
        H[i, i] += compliance * A[index[i], index[i]]
    factor(H, order, 0.0 if compliance > 0.0 else 1e-13 * top)
    _solve_transposed(H, order, z)
    for _ in range(rounds):
        for i in range(count):
            e[i] = x[i]
            for j in range(count):
                e[i] -= G[j, i] * z[j]
        _solve_transposed(H, order, e)
        for i in range(count):
            z[i] += e[i]
    for i in range(count):
        Z[index[i]] = z[i]
    for k in range(n):
        if (cls[k] == HIGH or cls[k] == LOW) and cls[owner[k]] == CLAMP:
            rest = f_bar[k]
            for j in range(count):
                rest -= A[k, index[j]] * z[j]
            mu_bar[k] += (1.0 if cls[k] == HIGH else -1.0) * f[owner[k]] * rest
