"""Transposed derivatives of the tree's dynamics, in real numbers: one pass out and one back for all
inputs.

A cotangent of a configuration is one of its tangent space, q ⊕ δ: displacements of joints, and of a
free body along the world's axes and about its own. Twists, wrenches and their cotangents are about
the world's origin. With × the product of twists and ×* that of a twist and a wrench, (a × b)·F =
−b·(a ×* F) = a·(b ×* F).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dexengines.kernels import inner, tuple_type
from dexengines.lcp.dynamics import FREE, Tree, inertia_times
from dexengines.lcp.vectors import cross, fill, put


class Cotangents(NamedTuple):
    """Cotangents that a sweep adds up, and its scratch."""

    axis: np.ndarray
    """(V, 6) of the axes of velocities."""
    pose: np.ndarray
    """(B, 6) of displacements of bodies without their descendants: moment about the origin,
    force."""
    tau: np.ndarray
    """(T, V)"""
    mass: np.ndarray
    """(B,)"""
    friction: np.ndarray
    """(G,)"""
    restitution: np.ndarray
    """(G,)"""
    twist: np.ndarray
    """(3, B, 6) scratch: twists at w, at v, and twist rates."""
    back: np.ndarray
    """(3, B, 6) scratch: cotangents of twists at v and of twist rates, wrenches of a body and its
    descendants."""


COTANGENTS = tuple_type(Cotangents, "f2 f2 f2 f1 f1 f1 f3 f3")


def make_cotangents(tree: Tree, steps: int, friction: int, restitution: int) -> Cotangents:
    """Allocate zeros for a number of steps and of coefficients of friction and restitution."""
    B, nv = tree.parent.size, tree.dof_parent.size
    return Cotangents(
        np.zeros((nv, 6)),
        np.zeros((B, 6)),
        np.zeros((steps, nv)),
        np.zeros(B),
        np.zeros(friction),
        np.zeros(restitution),
        np.zeros((3, B, 6)),
        np.zeros((3, B, 6)),
    )


@inner
def add_twist_product(a, b, scale, out):
    """Add ``scale`` times a × b of twists."""
    out[0] += scale * (a[1] * b[2] - a[2] * b[1])
    out[1] += scale * (a[2] * b[0] - a[0] * b[2])
    out[2] += scale * (a[0] * b[1] - a[1] * b[0])
    out[3] += scale * (a[1] * b[5] - a[2] * b[4] + a[4] * b[2] - a[5] * b[1])
    out[4] += scale * (a[2] * b[3] - a[0] * b[5] + a[5] * b[0] - a[3] * b[2])
    out[5] += scale * (a[0] * b[4] - a[1] * b[3] + a[3] * b[1] - a[4] * b[0])


@inner
def add_wrench_product(a, F, scale, out):
    """Add ``scale`` times a ×* F of a twist and a wrench."""
    out[0] += scale * (a[1] * F[2] - a[2] * F[1] + a[4] * F[5] - a[5] * F[4])
    out[1] += scale * (a[2] * F[0] - a[0] * F[2] + a[5] * F[3] - a[3] * F[5])
    out[2] += scale * (a[0] * F[1] - a[1] * F[0] + a[3] * F[4] - a[4] * F[3])
    out[3] += scale * (a[1] * F[5] - a[2] * F[4])
    out[4] += scale * (a[2] * F[3] - a[0] * F[5])
    out[5] += scale * (a[0] * F[4] - a[1] * F[3])


@inner
def dot6(a, b):
    """Return a · b of vectors of six."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3] + a[4] * b[4] + a[5] * b[5]


@inner
def _outwards(tree, S, w, v, a, lift, t):
    """Write to ``t`` (3, B, 6) twists at w and v and twist rates at v and accelerations a; the
    world accelerates against gravity × lift."""
    W = np.empty(6)
    for i in range(3):
        t[2, 0, 3 + i] = -lift * tree.gravity[i]
    for b in range(1, tree.parent.size):
        for i in range(3):
            put(t[i, b], t[i, tree.parent[b]])
        Vw, V, A = t[0, b], t[1, b], t[2, b]
        for joint in range(tree.joint_start[b], tree.joint_start[b + 1]):
            d, free = tree.joint_v[joint], tree.joint_type[joint] == FREE
            for first in range(d, d + (6 if free else 1), 3):
                fill(W, 0.0)
                for k in range(first, first + (3 if free else 1)):
                    for i in range(6):
                        W[i] += S[k, i] * v[k]
                        Vw[i] += S[k, i] * w[k]
                        A[i] += S[k, i] * a[k]
                if not (free and first == d):  # axes fixed in the world do not turn
                    add_twist_product(V, W, 1.0, A)
                for i in range(6):
                    V[i] += W[i]


@inner
def _joints_back(tree, S, b, w, v, a, t, back, axis, v_bar):
    """Pull back the cotangents of a body's twists to its joints' axes and velocities and to the
    twists of its parent."""
    W, run, W_bar = np.empty(6), np.empty(6), np.empty(6)
    V_bar, A_bar, F = back[0, b], back[1, b], back[2, b]
    put(run, t[1, b])
    for joint in range(tree.joint_start[b + 1] - 1, tree.joint_start[b] - 1, -1):
        d, free = tree.joint_v[joint], tree.joint_type[joint] == FREE
        for first in range(d + (3 if free else 0), d - 1, -3):
            size = 3 if free else 1
            fill(W, 0.0)
            for k in range(first, first + size):
                for i in range(6):
                    W[i] += S[k, i] * v[k]
            for i in range(6):
                run[i] -= W[i]
            put(W_bar, V_bar)
            if not (free and first == d):
                add_wrench_product(run, A_bar, -1.0, W_bar)
                add_wrench_product(W, A_bar, 1.0, V_bar)
            for k in range(first, first + size):
                for i in range(6):
                    axis[k, i] += v[k] * W_bar[i] + a[k] * A_bar[i] + w[k] * F[i]
                v_bar[k] += dot6(S[k], W_bar)
    up = tree.parent[b]
    for j in range(3):
        for i in range(6):
            back[j, up, i] += back[j, b, i]


@inner
def pull_inverse_dynamics(tree, mass, m, w, v, a, lift, out, v_bar):
    """Add the derivatives of w · (M(q) a + c(q, v)) without armature and couplings, which do not
    depend on q.

    With the twists W at w, V at v, and rates A, every body adds W·(I A) − (V × W)·(I V).

    Args:
        m: after :func:`.dynamics.kinematics`; its inertias are those of bodies of 1 kg.
        w, v, a: (V,). lift: 1 with gravity in c, 0 without.
        out: :class:`Cotangents`; those of axes, poses and masses are added to.
        v_bar: (V,) cotangent of v, added to.
    """
    t, back, S = out.twist, out.back, m.S
    _outwards(tree, S, w, v, a, lift, t)
    IA, IV, IW, IB, B = np.empty(6), np.empty(6), np.empty(6), np.empty(6), np.empty(6)
    B_ = tree.parent.size
    for j in range(3):
        for b in range(B_):
            fill(back[j, b], 0.0)
    for b in range(B_ - 1, 0, -1):
        W, V, A, inertia = t[0, b], t[1, b], t[2, b], m.inertia[b]
        fill(B, 0.0)
        add_twist_product(V, W, 1.0, B)
        inertia_times(inertia, A, IA)
        inertia_times(inertia, V, IV)
        inertia_times(inertia, W, IW)
        inertia_times(inertia, B, IB)
        out.mass[b] += dot6(W, IA) - dot6(B, IV)
        mb, pose = mass[b], out.pose[b]
        add_wrench_product(W, IA, -mb, pose)
        add_wrench_product(A, IW, -mb, pose)
        add_wrench_product(B, IV, mb, pose)
        add_wrench_product(V, IB, mb, pose)
        add_wrench_product(W, IV, -mb, back[0, b])
        add_wrench_product(V, IV, mb, back[2, b])
        for i in range(6):
            back[0, b, i] -= mb * IB[i]
            back[1, b, i] += mb * IW[i]
            back[2, b, i] += mb * IA[i]
        _joints_back(tree, S, b, w, v, a, t, back, out.axis, v_bar)


@inner
def pull_kinematics(tree, m, out, q_bar):
    """Pull back the cotangents of axes and poses, which are set to zero, to the configuration's
    ``q_bar`` (V,), which is added to. An axis moves with all before it: ∂S_k = S_j × S_k."""
    S = m.S
    for b in range(tree.parent.size - 1, 0, -1):
        pose = out.pose[b]
        for joint in range(tree.joint_start[b + 1] - 1, tree.joint_start[b] - 1, -1):
            d, free = tree.joint_v[joint], tree.joint_type[joint] == FREE
            last = d + (5 if free else 0)
            for k in range(
                last, (d + 2 if free else d - 1), -1
            ):  # the axes of a free body's translation stay
                add_wrench_product(S[k], out.axis[k], 1.0, pose)
            for k in range(last, d - 1, -1):
                q_bar[k] += dot6(S[k], pose)
                fill(out.axis[k], 0.0)
        for i in range(6):
            out.pose[tree.parent[b], i] += pose[i]
        fill(pose, 0.0)
    fill(out.pose[0], 0.0)


@inner
def pull_integrate(tree, u, h, end_bar, q_bar, u_bar):
    """Pull back the cotangent of q ⊕ h u (V,) to those of q and u, which are added to; return that
    of h."""
    h_bar = 0.0
    phi, x, y = np.empty(3), np.empty(3), np.empty(3)
    for joint in range(tree.joint_type.size):
        d, free = tree.joint_v[joint], tree.joint_type[joint] == FREE
        for k in range(d, d + (3 if free else 1)):
            q_bar[k] += end_bar[k]
            u_bar[k] += h * end_bar[k]
            h_bar += u[k] * end_bar[k]
        if not free:
            continue
        bar, square = end_bar[d + 3 : d + 6], 0.0
        for i in range(3):
            phi[i] = h * u[d + 3 + i]
            square += phi[i] * phi[i]
            h_bar += u[d + 3 + i] * bar[i]
        if square < 1e-6:
            s, c = 1.0 - square / 6.0 + square * square / 120.0, 0.5 - square / 24.0 + square * square / 720.0
            e = 1.0 / 6.0 - square / 120.0 + square * square / 5040.0
        else:
            angle = np.sqrt(square)
            s, e = np.sin(angle) / angle, (angle - np.sin(angle)) / (angle * square)
            c = 2.0 * np.sin(0.5 * angle) ** 2 / square
        cross(phi, bar, x)
        cross(phi, x, y)
        for i in range(3):
            q_bar[d + 3 + i] += bar[i] + s * x[i] + c * y[i]
            u_bar[d + 3 + i] += h * (bar[i] + c * x[i] + e * y[i])
    return h_bar


@inner
def coordinates_to_tangent(tree, q, bar, out):
    """Write to ``out`` (V,) the tangent-space cotangent of one by coordinates (Q,), at quaternions
    of unit length."""
    for joint in range(tree.joint_type.size):
        a, d = tree.joint_q[joint], tree.joint_v[joint]
        out[d] = bar[a]
        if tree.joint_type[joint] == FREE:
            out[d + 1], out[d + 2] = bar[a + 1], bar[a + 2]
            w, x, y, z = q[a + 3], q[a + 4], q[a + 5], q[a + 6]
            gw, gx, gy, gz = bar[a + 3], bar[a + 4], bar[a + 5], bar[a + 6]
            out[d + 3] = 0.5 * (w * gx - x * gw - y * gz + z * gy)
            out[d + 4] = 0.5 * (w * gy - y * gw - z * gx + x * gz)
            out[d + 5] = 0.5 * (w * gz - z * gw - x * gy + y * gx)


@inner
def tangent_to_coordinates(tree, q, bar, out):
    """Write to ``out`` (Q,) the cotangent by coordinates of one in the tangent space (V,);
    quaternions of any length."""
    for joint in range(tree.joint_type.size):
        a, d = tree.joint_q[joint], tree.joint_v[joint]
        out[a] = bar[d]
        if tree.joint_type[joint] == FREE:
            out[a + 1], out[a + 2] = bar[d + 1], bar[d + 2]
            w, x, y, z = q[a + 3], q[a + 4], q[a + 5], q[a + 6]
            s = 2.0 / (w * w + x * x + y * y + z * z)
            bx, by, bz = s * bar[d + 3], s * bar[d + 4], s * bar[d + 5]
            out[a + 3] = -x * bx - y * by - z * bz
            out[a + 4] = w * bx + y * bz - z * by
            out[a + 5] = w * by + z * bx - x * bz
            out[a + 6] = w * bz + x * by - y * bx
