"""Transposed derivatives of contact rows and of the forces of given classes, in real numbers.

Where a row points is followed back by hand; how gap, normal and point of two features move with one
of the bodies is found in complex numbers, six at a time: with both bodies nothing but the frame
moves, which gives the other's.
"""

from __future__ import annotations

import numpy as np

from dexengines.kernels import inner
from dexengines.lcp.classes import CLAMP, EVEN, HIGH, LOW, ROUNDS, active_rows, class_matrix, factor
from dexengines.lcp.dynamics_adjoint import dot6
from dexengines.lcp.features import gap_of_features
from dexengines.lcp.vectors import cross, dot, fill, put

SMALL = 1e-30
"""Size of the imaginary perturbation; its square vanishes beside 1."""


@inner
def _pull_feature(kind, side, data, Ra, pa, Rb, pb, n, c, bar, pose_a, pose_b):
    """From the cotangents ``bar`` (7,) of gap, normal and point, at n and c (3,), to those of the
    two bodies' poses, which are added."""
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
    """Back from :func:`.rows.point_row`: cotangents of the axes, and of the wrench (c × d, d),
    which are added."""
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
    """Back from :func:`_relative_twist`."""
    for body, sign in ((ba, -1.0), (bb, 1.0)):
        k = tree.last_dof[body]
        while k >= 0:
            slip_bar[k] += sign * dot6(S[k], twist_bar)
            for i in range(6):
                axis[k, i] += sign * slip[k] * twist_bar[i]
            k = tree.dof_parent[k]


@inner
def _direction(mode, n, twist, c, y):
    """The first friction direction before it gets unit length, into y (3,), and the vector whose
    part along n it leaves out."""
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
    """Back from :func:`_direction` and the division by its length: ``bar`` (7,) of normal and point
    is added to, ``twist_bar`` written."""
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
def pull_contact_rows(
    tree, shapes, friction, m, tape, first, last, directions, slip, J_bar, gap_bar, mu_bar, out, slip_bar
):
    """Back from :func:`.rows.contact_rows`.

    Args:
        J_bar: (n, V), gap_bar, mu_bar: (n,) cotangents of the rows.
        out: :class:`.dynamics_adjoint.Cotangents`, to which those of axes, poses and friction are
            added.
        slip_bar: (V,) to which that of ``slip`` is added.
    """
    n, c, t, s, y, d = np.empty(3), np.empty(3), np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    wrench, wrench_bar, bar, twist, twist_bar = (
        np.empty(6),
        np.empty(6),
        np.empty(7),
        np.empty(6),
        np.empty(6),
    )
    t_bar, s_bar, x = np.empty(3), np.empty(3), np.empty(3)
    total, r = 0.0, 0
    for j in range(directions):
        total += abs(np.cos(np.pi * j / directions))
    for k in range(first, last):
        feature, data = tape.feature[k], tape.data[k]
        ba, bb, mode = shapes.body[feature[0]], shapes.body[feature[1]], tape.mode[k]
        gap_of_features(feature[2], feature[3], data, m.R[ba], m.p[ba], m.R[bb], m.p[bb], n, c)
        rough = friction[shapes.friction_of[feature[4]]] != 0.0
        fill(bar, 0.0)
        fill(t_bar, 0.0)
        fill(s_bar, 0.0)
        bar[0] = gap_bar[r]
        if rough:
            _relative_twist(tree, m.S, ba, bb, slip, twist)
            p = _direction(mode, n, twist, c, y)
            length = np.sqrt(dot(y, y))
            for i in range(3):
                t[i] = y[i] / length
            cross(n, t, s)
        for j in range(-1, directions if rough else 0):
            along, across = np.cos(np.pi * j / directions), np.sin(np.pi * j / directions)
            if 2 * j == directions:
                along = 0.0
            for i in range(3):
                d[i] = n[i] if j < 0 else along * t[i] + across * s[i]
            cross(c, d, wrench[:3])
            put(wrench[3:], d)
            fill(wrench_bar, 0.0)
            _pull_row(tree, m.S, bb, wrench, 1.0, J_bar[r], out.axis, wrench_bar)
            _pull_row(tree, m.S, ba, wrench, -1.0, J_bar[r], out.axis, wrench_bar)
            cross(d, wrench_bar[:3], x)
            for i in range(3):
                bar[4 + i] += x[i]
            cross(wrench_bar[:3], c, x)
            for i in range(3):
                x[i] += wrench_bar[3 + i]
                if j < 0:
                    bar[1 + i] += x[i]
                else:
                    t_bar[i] += along * x[i]
                    s_bar[i] += across * x[i]
            if j >= 0:
                out.friction[shapes.friction_of[feature[4]]] += mu_bar[r] / total
            r += 1
        if rough:
            cross(t, s_bar, x)
            for i in range(3):
                bar[1 + i] += x[i]
            cross(s_bar, n, x)
            for i in range(3):
                t_bar[i] += x[i]
            _pull_direction(mode, n, c, p, twist, y, t_bar, bar, twist_bar)
            if mode == 0:
                _pull_slip(tree, m.S, ba, bb, slip, twist_bar, out.axis, slip_bar)
        _pull_feature(
            feature[2],
            feature[3],
            data,
            m.R[ba],
            m.p[ba],
            m.R[bb],
            m.p[bb],
            n,
            c,
            bar,
            out.pose[ba],
            out.pose[bb],
        )


@inner
def _solve_transposed(G, order, x):
    """x ← G⁻ᵀ x with the factors of :func:`.classes.factor`; a row that found no pivot gets
    zero."""
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
def pull_forces(A, owner, mu, cls, f, f_bar, plain, Z, mu_bar):
    """Back from :func:`.classes.forces_of_classes`: the transposed equations of the classes.

    Args:
        f, f_bar: (n,) the forces and their cotangent. plain: whether they were not spread.
        Z: (n,) written: the cotangent of b is −Z, that of A is −Z fᵀ.
        mu_bar: (n,) to which that of the coefficients is added.
    """
    n = f.size
    index, rounds, even = np.empty(n, np.int64), 0 if plain else ROUNDS, 0.0 if plain else EVEN
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
        H[i, i] += even * A[index[i], index[i]]
    factor(H, order, 0.0 if even > 0.0 else 1e-13 * top)
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
