"""Kinematics, mass matrix and bias forces of a tree of bodies.

Twists and inertias are about the world's origin: a body's twist (ω, v) moves the point x
at v + ω × x.
"""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np

from dexengines.couplings import entries
from dexengines.kernels import inner, tuple_type
from dexengines.lcp.vectors import cross, dot, put

FREE, SLIDE, HINGE = 0, 2, 3
"""MuJoCo's joint types; ball joints are not supported."""


class Tree(NamedTuple):
    """The compiled model's tree in arrays."""

    parent: np.ndarray
    """(B,) parent body; body 0 is the world."""
    p_PB: np.ndarray
    """(B, 3)"""
    R_PB: np.ndarray
    """(B, 3, 3)"""
    joint_start: np.ndarray
    """(B + 1,) joints of body b: joint_start[b] … joint_start[b + 1]."""
    joint_type: np.ndarray
    joint_axis: np.ndarray
    """(joints, 3) body frame."""
    joint_p: np.ndarray
    """(joints, 3) anchor, body frame."""
    joint_ref: np.ndarray
    """(joints,) value at which the body has the model's pose."""
    joint_q: np.ndarray
    joint_v: np.ndarray
    """First entry in q, in v."""
    com_B: np.ndarray
    """(B, 3)"""
    inertia_B: np.ndarray
    """(B, 3, 3) about the centre of mass, body axes, per unit of mass."""
    dof_parent: np.ndarray
    """(V,) parent velocity on the same chain, or −1."""
    above: np.ndarray
    """(V,) next velocity in its row of M's factors, or −1: ``dof_parent`` unless joints are
    coupled."""
    dof_body: np.ndarray
    last_dof: np.ndarray
    """(B,) innermost velocity that moves a body, or −1."""
    armature: np.ndarray
    """(V,)"""
    inertance: np.ndarray
    """(E,) of coupled joints, entries of the mass matrix's lower triangle."""
    inertance_at: np.ndarray
    """(E, 2) their rows and columns."""
    damping: np.ndarray
    """(V,)"""
    gravity: np.ndarray
    """(3,)"""
    steady: bool
    """True if nothing can turn and no joint is damped: mass matrix and bias forces are then
    constant."""


TREE = tuple_type(Tree, "l1 f2 f3 l1 l1 f2 f2 f1 l1 l1 f2 f3 l1 l1 l1 l1 f1 f1 l2 f1 f1 b")


class Motion(NamedTuple):
    """Poses and velocities; written by :func:`kinematics` and :func:`inertia_and_bias`."""

    R: np.ndarray
    """(B, 3, 3)"""
    p: np.ndarray
    """(B, 3)"""
    S: np.ndarray
    """(V, 6) axis of every velocity: angular, then linear at the world's origin."""
    V: np.ndarray
    """(B, 6) twists."""
    acceleration: np.ndarray
    """(B, 6) twist rates at q̈ = 0, gravity being an upward acceleration of the world."""
    force: np.ndarray
    """(B, 6) wrenches: moment about the origin, force."""
    inertia: np.ndarray
    """(B, 10) mass, mass · centre, six moments about the origin."""
    composite: np.ndarray
    """(B, 10) the same of a body and its descendants."""
    M: np.ndarray
    """(V, V) mass matrix, then its factors LᵀDL."""
    bias: np.ndarray
    """(V,) Coriolis and gravitational forces."""
    room: np.ndarray
    """(9, 3) scratch."""
    wrench: np.ndarray
    """(6,) scratch."""


MOTION = tuple_type(Motion, "f3 f2 f2 f2 f2 f2 f2 f2 f2 f1 f2 f1")


def make_tree(model: mujoco.MjModel, inertance: np.ndarray | None = None) -> Tree:
    """Read a compiled model without features of :data:`dexengines.lcp.system.LACKS`; ``inertance``
    (V, V) is added to its mass matrix."""
    B = model.nbody
    R_PB, inertia = np.empty((B, 3, 3)), np.zeros((B, 3, 3))
    for b in range(B):
        mujoco.mju_quat2Mat(R_PB[b].reshape(-1), model.body_quat[b])
        R = np.empty(9)
        mujoco.mju_quat2Mat(R, model.body_iquat[b])
        R = R.reshape(3, 3)
        if model.body_mass[b] > 0.0:
            inertia[b] = R @ np.diag(model.body_inertia[b]) @ R.T / model.body_mass[b]
    start = np.concatenate([[0], np.cumsum(model.body_jntnum)])
    last_dof = np.full(B, -1)
    for b in range(1, B):
        own = model.body_dofnum[b]
        last_dof[b] = model.body_dofadr[b] + own - 1 if own else last_dof[model.body_parentid[b]]
    coupled, at = entries(np.zeros((model.nv, model.nv)) if inertance is None else inertance)
    return Tree(
        parent=model.body_parentid.astype(np.int64),
        p_PB=np.array(model.body_pos),
        R_PB=R_PB,
        joint_start=start.astype(np.int64),
        joint_type=model.jnt_type.astype(np.int64).reshape(-1),
        joint_axis=np.array(model.jnt_axis).reshape(-1, 3),
        joint_p=np.array(model.jnt_pos).reshape(-1, 3),
        joint_ref=np.array(model.qpos0[model.jnt_qposadr]).reshape(-1),
        joint_q=model.jnt_qposadr.astype(np.int64).reshape(-1),
        joint_v=model.jnt_dofadr.astype(np.int64).reshape(-1),
        com_B=np.array(model.body_ipos),
        inertia_B=inertia,
        dof_parent=model.dof_parentid.astype(np.int64).reshape(-1),
        above=_elimination(model.dof_parentid, at),
        dof_body=model.dof_bodyid.astype(np.int64).reshape(-1),
        last_dof=last_dof.astype(np.int64),
        armature=np.array(model.dof_armature).reshape(-1),
        inertance=coupled,
        inertance_at=at,
        damping=np.array(model.dof_damping).reshape(-1),
        gravity=np.array(model.opt.gravity),
        steady=not (np.any(model.jnt_type != mujoco.mjtJoint.mjJNT_SLIDE) or np.any(model.dof_damping)),
    )


def _elimination(parent: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return (V,) the elimination tree of the factors LᵀDL, from parents and further entries of
    M."""
    row = [set() if up < 0 else {int(up)} for up in parent]
    for i, j in at:
        row[i] |= {int(j)} - {int(i)}
    above = np.full(len(row), -1)
    for k in range(len(row) - 1, -1, -1):
        if row[k]:
            above[k] = max(row[k])
            row[above[k]] |= row[k] - {int(above[k])}
    return above


def make_motion(tree: Tree) -> Motion:
    """Allocate a motion."""
    B, nv = tree.parent.size, tree.dof_parent.size
    shapes = (B, 3, 3), (B, 3), (nv, 6), (B, 6), (B, 6), (B, 6), (B, 10), (B, 10), (nv, nv), nv, (9, 3), 6
    motion = Motion(*map(np.zeros, shapes))
    motion.R[0] = np.eye(3)
    return motion


@inner
def _turn(axis, sine, one_minus_cosine, R):
    """R ← Rodrigues' rotation about a unit axis."""
    x, y, z = axis[0], axis[1], axis[2]
    c1 = one_minus_cosine
    R[0, 0], R[1, 1], R[2, 2] = (
        1.0 - c1 * (y * y + z * z),
        1.0 - c1 * (x * x + z * z),
        1.0 - c1 * (x * x + y * y),
    )
    R[0, 1], R[1, 0] = c1 * x * y - sine * z, c1 * x * y + sine * z
    R[0, 2], R[2, 0] = c1 * x * z + sine * y, c1 * x * z - sine * y
    R[1, 2], R[2, 1] = c1 * y * z - sine * x, c1 * y * z + sine * x


@inner
def kinematics(tree, q, m):
    """Write poses of all bodies and axes of all velocities at q; quaternions are normalised
    here."""
    S, axis, anchor, moment, T, U = m.S, m.room[0], m.room[1], m.room[2], m.room[3:6], m.room[6:9]
    for b in range(1, tree.parent.size):
        up = tree.parent[b]
        R, p = m.R[b], m.p[b]
        first, last = tree.joint_start[b], tree.joint_start[b + 1]
        if last > first and tree.joint_type[first] == FREE:
            a = tree.joint_q[first]
            for i in range(3):
                p[i] = q[a + i]
            w, x, y, z = q[a + 3], q[a + 4], q[a + 5], q[a + 6]
            s = 2.0 / (w * w + x * x + y * y + z * z)
            R[0, 0], R[0, 1], R[0, 2] = 1.0 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)
            R[1, 0], R[1, 1], R[1, 2] = s * (x * y + w * z), 1.0 - s * (x * x + z * z), s * (y * z - w * x)
            R[2, 0], R[2, 1], R[2, 2] = s * (x * z - w * y), s * (y * z + w * x), 1.0 - s * (x * x + y * y)
            k = tree.joint_v[first]
            for i in range(3):
                for j in range(6):
                    S[k + i, j] = 0.0
                S[k + i, 3 + i] = 1.0
                for j in range(3):
                    axis[j] = R[j, i]
                cross(p, axis, moment)
                for j in range(3):
                    S[k + 3 + i, j] = axis[j]
                    S[k + 3 + i, 3 + j] = moment[j]
            continue
        for i in range(3):
            p[i] = m.p[up, i]
            for j in range(3):
                p[i] += m.R[up, i, j] * tree.p_PB[b, j]
                R[i, j] = 0.0
                for k in range(3):
                    R[i, j] += m.R[up, i, k] * tree.R_PB[b, k, j]
        for joint in range(first, last):
            value = q[tree.joint_q[joint]] - tree.joint_ref[joint]
            d = tree.joint_v[joint]
            for i in range(3):
                axis[i] = 0.0
                anchor[i] = p[i]
                for j in range(3):
                    axis[i] += R[i, j] * tree.joint_axis[joint, j]
                    anchor[i] += R[i, j] * tree.joint_p[joint, j]
            if tree.joint_type[joint] == SLIDE:
                for i in range(3):
                    S[d, i] = 0.0
                    S[d, 3 + i] = axis[i]
                    p[i] += value * axis[i]
                continue
            cross(anchor, axis, moment)
            for i in range(3):
                S[d, i] = axis[i]
                S[d, 3 + i] = moment[i]
            half = np.sin(0.5 * value)
            _turn(tree.joint_axis[joint], np.sin(value), 2.0 * half * half, T)
            for i in range(3):
                for j in range(3):
                    U[i, j] = R[i, 0] * T[0, j] + R[i, 1] * T[1, j] + R[i, 2] * T[2, j]
            for i in range(3):
                put(R[i], U[i])
            for i in range(3):
                p[i] = anchor[i]
                for j in range(3):
                    p[i] -= R[i, j] * tree.joint_p[joint, j]


@inner
def twists(tree, v, m):
    """Write twists of all bodies at velocities v, after :func:`kinematics`."""
    for b in range(1, tree.parent.size):
        V = m.V[b]
        put(V, m.V[tree.parent[b]])
        for joint in range(tree.joint_start[b], tree.joint_start[b + 1]):
            d = tree.joint_v[joint]
            for k in range(d, d + (6 if tree.joint_type[joint] == FREE else 1)):
                for i in range(6):
                    V[i] += m.S[k, i] * v[k]


@inner
def inertia_times(inertia, V, out):
    """Write the momentum (angular about the origin, linear) of an inertia (mass, mass · centre, six
    moments) with twist V."""
    h0, h1, h2 = inertia[1], inertia[2], inertia[3]
    w0, w1, w2, v0, v1, v2 = V[0], V[1], V[2], V[3], V[4], V[5]
    out[0] = inertia[4] * w0 + inertia[7] * w1 + inertia[8] * w2 + h1 * v2 - h2 * v1
    out[1] = inertia[7] * w0 + inertia[5] * w1 + inertia[9] * w2 + h2 * v0 - h0 * v2
    out[2] = inertia[8] * w0 + inertia[9] * w1 + inertia[6] * w2 + h0 * v1 - h1 * v0
    out[3] = inertia[0] * v0 + w1 * h2 - w2 * h1
    out[4] = inertia[0] * v1 + w2 * h0 - w0 * h2
    out[5] = inertia[0] * v2 + w0 * h1 - w1 * h0


@inner
def inertias(tree, mass, m):
    """Write every body's inertia about the origin, after :func:`kinematics`; moments scale with the
    masses (B,) [kg]."""
    c, J = m.room[0], m.room[3:6]
    for b in range(1, tree.parent.size):
        R, inertia = m.R[b], m.inertia[b]
        for i in range(3):
            c[i] = m.p[b, i]
            for j in range(3):
                c[i] += R[i, j] * tree.com_B[b, j]
                J[i, j] = 0.0
                for k in range(3):
                    J[i, j] += R[i, k] * tree.inertia_B[b, k, j]
        mb = mass[b]
        inertia[0] = mb
        square = dot(c, c)
        for i in range(3):
            inertia[1 + i] = mb * c[i]
            moment = square - c[i] * c[i]
            for k in range(3):
                moment += J[i, k] * R[i, k]
            inertia[4 + i] = mb * moment
        for e in range(3):
            i = 0 if e < 2 else 1
            j = 1 if e == 0 else 2
            moment = -c[i] * c[j]
            for k in range(3):
                moment += J[i, k] * R[j, k]
            inertia[7 + e] = mb * moment


@inner
def bias_forces(tree, v, m):
    """Write twists and bias forces at velocities v (V,) by Newton–Euler, after :func:`inertias`."""
    S, W = m.S, m.wrench
    B = tree.parent.size
    for i in range(3):
        m.acceleration[0, 3 + i] = -tree.gravity[i]
    for b in range(1, B):
        up = tree.parent[b]
        V, a = m.V[b], m.acceleration[b]
        put(V, m.V[up])
        put(a, m.acceleration[up])
        for joint in range(tree.joint_start[b], tree.joint_start[b + 1]):
            d = tree.joint_v[joint]
            groups = 2 if tree.joint_type[joint] == FREE else 1
            for group in range(groups):
                size = 3 if groups == 2 else 1
                for i in range(6):
                    W[i] = 0.0
                    for k in range(size):
                        W[i] += S[d + 3 * group + k, i] * v[d + 3 * group + k]
                if not (groups == 2 and group == 0):  # axes fixed in the world do not turn
                    a[0] += V[1] * W[2] - V[2] * W[1]
                    a[1] += V[2] * W[0] - V[0] * W[2]
                    a[2] += V[0] * W[1] - V[1] * W[0]
                    a[3] += V[1] * W[5] - V[2] * W[4] + V[4] * W[2] - V[5] * W[1]
                    a[4] += V[2] * W[3] - V[0] * W[5] + V[5] * W[0] - V[3] * W[2]
                    a[5] += V[0] * W[4] - V[1] * W[3] + V[3] * W[1] - V[4] * W[0]
                for i in range(6):
                    V[i] += W[i]
        F = m.force[b]
        inertia_times(m.inertia[b], a, F)
        inertia_times(m.inertia[b], V, W)
        F[0] += V[1] * W[2] - V[2] * W[1] + V[4] * W[5] - V[5] * W[4]
        F[1] += V[2] * W[0] - V[0] * W[2] + V[5] * W[3] - V[3] * W[5]
        F[2] += V[0] * W[1] - V[1] * W[0] + V[3] * W[4] - V[4] * W[3]
        F[3] += V[1] * W[5] - V[2] * W[4]
        F[4] += V[2] * W[3] - V[0] * W[5]
        F[5] += V[0] * W[4] - V[1] * W[3]
    for b in range(B - 1, 0, -1):
        up = tree.parent[b]
        if up > 0:
            for i in range(6):
                m.force[up, i] += m.force[b, i]
    for d in range(v.size):
        b = tree.dof_body[d]
        m.bias[d] = 0.0
        for i in range(6):
            m.bias[d] += S[d, i] * m.force[b, i]


@inner
def mass_matrix(tree, m):
    """Write the lower triangle of the mass matrix from composite bodies, after :func:`inertias`."""
    S, W, M, E = m.S, m.wrench, m.M, tree.inertance.size
    for b in range(tree.parent.size):
        put(m.composite[b], m.inertia[b])
    for b in range(tree.parent.size - 1, 0, -1):
        up = tree.parent[b]
        if up > 0:
            for i in range(10):
                m.composite[up, i] += m.composite[b, i]
    for d in range(tree.dof_body.size):
        inertia_times(m.composite[tree.dof_body[d]], S[d], W)
        e = d if E else -1
        while e >= 0:
            M[d, e] = 0.0
            e = tree.above[e]
        e = d
        while e >= 0:
            total = W[0] * S[e, 0]
            for i in range(1, 6):
                total += W[i] * S[e, i]
            M[d, e] = total
            e = tree.dof_parent[e]
        M[d, d] += tree.armature[d]
    for e in range(E):
        M[tree.inertance_at[e, 0], tree.inertance_at[e, 1]] += tree.inertance[e]


@inner
def inertia_and_bias(tree, mass, v, m):
    """Write mass matrix and bias forces at velocities v (V,) with masses (B,) [kg], after
    :func:`kinematics`."""
    inertias(tree, mass, m)
    mass_matrix(tree, m)
    bias_forces(tree, v, m)


@inner
def factorise(above, M):
    """Replace the lower triangle of M by its factors LᵀDL, along the paths of ``Tree.above`` only
    (Featherstone)."""
    for k in range(above.size - 1, -1, -1):
        i = above[k]
        while i >= 0:
            a = M[k, i] / M[k, k]
            j = i
            while j >= 0:
                M[i, j] -= a * M[k, j]
                j = above[j]
            M[k, i] = a
            i = above[i]


@inner
def solve_mass(above, L, x):
    """x ← M⁻¹ x with the factors of :func:`factorise`."""
    solve_mass_of_tree(above, L, x, 0, above.size)


@inner
def solve_mass_of_tree(above, L, x, first, end):
    """:func:`solve_mass` of the degrees of freedom ``first`` … ``end`` − 1 of one or several trees."""
    for i in range(end - 1, first - 1, -1):
        j = above[i]
        while j >= 0:
            x[j] -= L[i, j] * x[i]
            j = above[j]
    for i in range(first, end):
        x[i] /= L[i, i]
        j = above[i]
        while j >= 0:
            x[i] -= L[i, j] * x[j]
            j = above[j]


@inner
def kinetic_energy(above, L, v):
    """Return ½ vᵀ M v with the factors of :func:`factorise` [J]."""
    total = 0.0
    for i in range(above.size):
        speed, j = v[i], above[i]
        while j >= 0:
            speed += L[i, j] * v[j]
            j = above[j]
        total += 0.5 * L[i, i] * speed * speed
    return total


@inner
def integrate(tree, q, u, h, out):
    """Write q ⊕ h u: joints move in straight lines, a free body about an axis fixed in it;
    quaternions are normalised."""
    for joint in range(tree.joint_type.size):
        a, d = tree.joint_q[joint], tree.joint_v[joint]
        if tree.joint_type[joint] != FREE:
            out[a] = q[a] + h * u[d]
            continue
        for i in range(3):
            out[a + i] = q[a + i] + h * u[d + i]
        x, y, z = h * u[d + 3], h * u[d + 4], h * u[d + 5]
        square = x * x + y * y + z * z
        if square < 1e-6:  # series, analytic also at rest
            s = 0.5 - square / 48.0 + square * square / 3840.0
            c = 1.0 - square / 8.0 + square * square / 384.0
        else:
            angle = np.sqrt(square)
            s = np.sin(0.5 * angle) / angle
            c = np.cos(0.5 * angle)
        x, y, z = s * x, s * y, s * z
        w0, x0, y0, z0 = q[a + 3], q[a + 4], q[a + 5], q[a + 6]
        w1 = c * w0 - x * x0 - y * y0 - z * z0
        x1 = c * x0 + x * w0 + z * y0 - y * z0
        y1 = c * y0 + y * w0 + x * z0 - z * x0
        z1 = c * z0 + z * w0 + y * x0 - x * y0
        length = np.sqrt(w1 * w1 + x1 * x1 + y1 * y1 + z1 * z1)
        out[a + 3], out[a + 4], out[a + 5], out[a + 6] = w1 / length, x1 / length, y1 / length, z1 / length
